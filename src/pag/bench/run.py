"""A whole benchmark: each section in turn, the report rewritten after every race."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from pag.bench.joeynmt import look_for
from pag.bench.report import Report, surroundings, table
from pag.bench.rows import Row
from pag.bench.sections import Sections
from pag.bench.settings import Settings


@dataclass(frozen=True)
class Outcome:
    report: Report
    json: Path
    pictures: tuple[Path, ...]


def run_bench(settings: Settings, out: Path, console: Console, joeynmt: Path | None = None) -> Outcome:
    """Measure, print one table, and leave `bench.json`, `bars.png` and `scaling.png` in `out`."""
    before = torch.get_num_threads()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    # Events and kernels go to the current GPU: it must be the one that is measured.
    current = torch.cuda.device(settings.device) if settings.device.startswith("cuda") else nullcontext()
    try:
        with current:
            report = _measure(settings, out / "bench.json", console, joeynmt)
    finally:
        torch.set_num_threads(before)
    console.print(table(report.rows, report.joeynmt))
    outcome = Outcome(report, out / "bench.json", draw(report.rows, out))
    for path in (outcome.json, *outcome.pictures):
        console.print(str(path), highlight=False, soft_wrap=True)
    return outcome


def draw(rows: Sequence[Row], out: Path) -> tuple[Path, ...]:
    """The pictures of some rows; those of a stored report, too."""
    from pag.bench import pictures  # only now: the numbers are safe by then

    drawn = (pictures.bars(rows, out / "bars.png"), pictures.scaling(rows, out / "scaling.png"))
    return tuple(path for path in drawn if path)


def _measure(settings: Settings, path: Path, console: Console, joeynmt: Path | None) -> Report:
    neighbour = look_for(joeynmt)
    report = Report(settings, neighbour.said, surroundings(settings.device))
    sections = Sections(settings, neighbour)
    report.write(path)  # a folder that cannot be written to is found out now
    for section in settings.sections:
        started = time.monotonic()
        for rows in getattr(sections, section)():
            report.rows += rows
            report.seconds[section] = round(time.monotonic() - started, 1)
            report.write(path)
            _tell(rows, console)
    return report


def _tell(rows: list[Row], console: Console) -> None:
    """One line per row as it comes, so that a long run shows where it is."""
    for row in rows:
        where = f" {row.facts['axis']} = {row.facts['value']}" if "axis" in row.facts else ""
        took = row.note if row.ms is None else f"{row.ms:.4g} ms"
        console.print(
            f"{row.section}{where}, {row.task}, {row.precision}: {row.model} {row.backend} {took}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    console.file.flush()
