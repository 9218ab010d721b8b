"""A table's results file: every run as it was measured, added one by one and never half-written."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pag.checkpoint import to_json, write_atomically
from pag.errors import DataError

Run = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """What was measured of one table: cell → its runs, by seed."""

    cells: dict[str, list[Run]]

    def runs(self, cell: str) -> list[Run]:
        return self.cells.get(cell, [])

    def run(self, cell: str, seed: int) -> Run | None:
        return next((run for run in self.runs(cell) if run["seed"] == seed), None)

    def scores(self, cell: str, evaluation: str, metric: str) -> list[float]:
        """One number per run that has it."""
        found = [run["scores"].get(evaluation, {}).get(metric) for run in self.runs(cell)]
        return [value for value in found if value is not None]

    @property
    def every(self) -> list[Run]:
        return [run for runs in self.cells.values() for run in runs]

    def minutes(self) -> float:
        """How long at least one of the runs was going on: what the table cost on its one device."""
        spans = sorted((run["finished"] - sum(run["seconds"].values()), run["finished"]) for run in self.every)
        total, until = 0.0, float("-inf")
        for start, end in spans:
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total / 60


def read_results(path: Path) -> Results:
    """An absent file holds nothing yet."""
    if not path.is_file():
        return Results({})
    try:
        return Results(json.loads(path.read_bytes())["cells"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is not a results file of `pag reproduce`: move it away, or give --results") from None


def add_run(path: Path, table: str, cell: str, run: Run) -> None:
    """Put a run in the place of the one with its seed. Others may add to the file at the same time."""
    with _locked(path.parent):
        cells = read_results(path).cells
        others = [other for other in cells.get(cell, []) if other["seed"] != run["seed"]]
        cells[cell] = sorted([*others, run], key=lambda run: run["seed"])
        write_atomically(path, to_json({"table": table, "cells": cells}))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
