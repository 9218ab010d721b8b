"""What a benchmark says: a table, and a JSON file that tables and pictures are drawn from."""

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from pag.bench.rows import Row
from pag.bench.settings import Settings
from pag.textio import output_file


@dataclass
class Report:
    """The rows so far and where they come from."""

    settings: Settings
    joeynmt: str  # its version, or how to install it
    surroundings: dict[str, Any]  # as they were when the code was loaded
    rows: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of each section

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": self.settings.to_json(),
            "joeynmt": self.joeynmt,
            "surroundings": self.surroundings,
            "seconds": self.seconds,
            "rows": [row.to_json() for row in self.rows],
        }

    def write(self, path: Path) -> None:
        with output_file(path) as file:
            file.write(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")


NUMBERS = ("ms", "quartiles", "per second", "peak MiB", "× loop", "× JoeyNMT")
COLUMNS = ["section", "task", "model", "backend", "precision", *NUMBERS, "note"]


def read_rows(path: Path) -> list[Row]:
    """The rows of a stored report."""
    stored = json.loads(path.read_text("utf-8"))["rows"]
    return [Row(**{name: value for name, value in row.items() if name != "per_second"}) for row in stored]


def table(rows: Sequence[Row], joeynmt: str) -> Table:
    """Every row but the scaling's; those are for the pictures."""
    found = Table(title="pag bench", title_justify="left", caption=f"JoeyNMT: {joeynmt}", caption_justify="left")
    for name in COLUMNS[:-1]:
        found.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
    found.add_column(COLUMNS[-1], overflow="fold")
    before = None
    for row in rows:
        if row.section == "scaling":
            continue
        if before and (before.section, before.task) != (row.section, row.task):
            found.add_section()
        found.add_row(*cells(row))
        before = row
    return found


def cells(row: Row) -> list[str]:
    spread = "" if row.low is None or row.high is None else f"{row.low:.4g}–{row.high:.4g}"
    speed = "" if row.per_second is None else f"{number(row.per_second)} {row.unit.split()[-1]}"
    ms = "–" if row.ms is None else f"{row.ms:.4g}"
    peak = "" if row.peak_mib is None or row.ms is None else f"{row.peak_mib:,.0f}"
    ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in (row.over_loop, row.over_joeynmt)]
    return [row.section, row.task, row.model, row.backend, row.precision, ms, spread, speed, peak, *ratios, row.note]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def markdown(rows: Sequence[Row]) -> str:
    """The same rows for a page of documentation, without precision, and without memory where it was not measured."""
    shown = [row for row in rows if row.section != "scaling"]
    drop = {"precision"} | ({"peak MiB"} if all(row.peak_mib is None for row in shown) else set())
    kept = [at for at, name in enumerate(COLUMNS) if name not in drop]
    rule = ["---:" if name in NUMBERS else "---" for name in COLUMNS]
    lines = [[line[at] for at in kept] for line in [COLUMNS, rule, *map(cells, shown)]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def surroundings(device: str) -> dict[str, Any]:
    """Versions and hardware."""
    cuda = torch.device(device).type == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "pag": _version("plan-attend-generate") or "source",
        "triton": _version("triton"),
        "commit": commit(),
        "device": torch.cuda.get_device_name(device) if cuda else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "waiting": os.environ.get("OMP_WAIT_POLICY"),  # of idle threads; matters where others use the cores too
        "float32_products": torch.get_float32_matmul_precision(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The CPU's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str | None:
    """The commit of the source tree that this code lies in, if git knows one; "+" where the code was changed since."""
    here = Path(__file__).parents[1]
    head = _git("-C", str(here), "rev-parse", "--short=12", "HEAD")
    return head and head + ("+" if _git("-C", str(here), "status", "--porcelain", "--", ".") else "")


def _git(*words: str) -> str | None:
    try:
        asked = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None
