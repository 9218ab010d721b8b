"""Runs side by side: in what they differ, and what came of it. Runs that differ in their seed alone share a row."""

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonpath, relpath
from pathlib import Path
from typing import Any

from pag.config import flattened
from pag.errors import CheckpointError, nearest
from pag.run import read_log
from pag.spread import compared, mean_and_spread, sure

FACTS = ("update", "updates/s", "state")
SEED = "train.seed"  # what runs of one row may differ in


@dataclass(frozen=True)
class Run:
    """One run folder: its settings, the validation of the model it keeps, and how it went."""

    folder: Path
    settings: dict[str, Any]
    scores: dict[str, float]
    facts: dict[str, Any]

    @property
    def monitor(self) -> str:
        return str(self.settings["train.monitor"])


def read_run(folder: Path, last: bool = False) -> Run:
    """The validation of `best`, or of the last one; of the last too where no model was let go yet."""
    events = read_log(folder)
    try:
        recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
    except (OSError, ValueError):
        raise CheckpointError(f"{folder} is not a run folder: it holds no recipe.json") from None
    best = folder / "checkpoints" / "best"
    update = None if last or not best.exists() else int(best.resolve().name)
    validations = [event for event in events if event["kind"] == "valid" and event["update"]]
    kept = [event for event in validations if event["update"] == update] or validations
    if not kept:
        raise CheckpointError(f"{folder} has not been validated yet: nothing to compare")
    scores = {name: value for name, value in kept[-1].items() if isinstance(value, float)}
    return Run(folder, flattened(recipe), scores, _facts(folder, events, kept[-1]["update"]))


def _facts(folder: Path, events: list[dict[str, Any]], update: int) -> dict[str, Any]:
    speeds = [event["updates_per_second"] for event in events if "updates_per_second" in event]
    try:
        reason = json.loads((folder / "summary.json").read_text("utf-8"))["reason"]
    except (OSError, ValueError, KeyError):
        reason = f"at update {events[-1]['update']}"
    return dict(zip(FACTS, (update, statistics.median(speeds) if speeds else None, reason), strict=True))


def rows_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that were told the same but for the seed, together."""
    found: dict[str, list[Run]] = {}
    for run in {run.folder.resolve(): run for run in runs}.values():
        told = {key: value for key, value in run.settings.items() if key != SEED and value is not None}
        found.setdefault(json.dumps(told, sort_keys=True), []).append(run)
    return list(found.values())


def differing(rows: Sequence[Sequence[Run]]) -> list[str]:
    """The settings in which rows differ; one that not all of them know, as of another task, counts too."""
    keys = dict.fromkeys(key for row in rows for key in row[0].settings if key != SEED)
    return [key for key in keys if len({json.dumps(row[0].settings.get(key)) for row in rows}) > 1]


def metrics_of(runs: Sequence[Run], asked: Sequence[str]) -> list[str]:
    known = {name for run in runs for name in run.scores}
    for name in asked:
        if name not in known:
            raise CheckpointError(f"these runs have no validation metric '{name}'{nearest(name, known)}")
    usual = [runs[0].monitor, "loss", "replan_rate"]
    return list(asked) or [name for name in dict.fromkeys(usual) if name in known]


def table(runs: Sequence[Run], asked: Sequence[str] = ()) -> list[list[str]]:
    """Head and rows: settings that differ, scores with their spread, the first score's distance to the first row."""
    rows, metrics = rows_of(runs), metrics_of(runs, asked)
    settings = differing(rows)
    apart = [f"{metrics[0]} − first"] * (len(rows) > 1)
    lines = [["run", *settings, *metrics, *apart, "runs", *FACTS]]
    for row, name in zip(rows, _names(rows), strict=True):
        told = [_told(row[0].settings.get(key, "")) for key in settings]
        scores = [_mean(_values(row, metric)) for metric in metrics]
        distance = [_apart(row, rows[0], metrics[0])] * len(apart)
        facts = [" / ".join(dict.fromkeys(_told(run.facts[fact]) for run in row)) for fact in FACTS]
        lines.append([name, *told, *scores, *distance, str(len(row)), *facts])
    return lines


def records(runs: Sequence[Run], asked: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The same for a program: every value of every run."""
    rows, metrics = rows_of(runs), metrics_of(runs, asked)
    settings = differing(rows)
    return [
        {
            "runs": [run.folder.as_posix() for run in row],
            "settings": {key: row[0].settings.get(key) for key in settings},
            "scores": {metric: [run.scores.get(metric) for run in row] for metric in metrics},
            "facts": [run.facts for run in row],
        }
        for row in rows
    ]


def _values(row: Sequence[Run], metric: str) -> list[float]:
    return [run.scores[metric] for run in row if metric in run.scores]


def _names(rows: Sequence[Sequence[Run]]) -> list[str]:
    """Their folders, without what all begin with; runs that share a row without their seed's number."""
    shared = commonpath([run.folder.absolute() for row in rows for run in row]) if sum(map(len, rows)) > 1 else ""
    paths = [(row, relpath(row[0].folder.absolute(), shared or row[0].folder.absolute().parent)) for row in rows]
    return [re.sub(r"[-_/.]*(seed)?[-_]?\d+$", "", path) or path if len(row) > 1 else path for row, path in paths]


def _told(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.3g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "—"
    middle, spread = mean_and_spread(values)
    return f"{middle:.4g}" + ("" if spread is None else f" ± {spread:.2g}")


def _apart(row: Sequence[Run], first: Sequence[Run], metric: str) -> str:
    """How far from the first row; with several runs on both sides, whether that is more than runs differ anyway."""
    values, others = _values(row, metric), _values(first, metric)
    if row is first or not values or not others:
        return ""
    difference, error = compared(values, others)
    if error is None:
        return f"{difference:+.3g}"
    known = sure(difference, error, len(values) + len(others))
    return f"{difference:+.3g}, {'more than' if known else 'within'} the spread"


def as_text(lines: Sequence[Sequence[str]]) -> str:
    """A table to read in a terminal and to paste into a document."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    drawn = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |" for line in lines]
    return "\n".join([drawn[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *drawn[1:]])
