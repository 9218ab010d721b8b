"""Which runs a table still needs, with the commands that make each."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pag.config import Recipe, build_recipe, read_recipe
from pag.errors import DataError, RecipeError, nearest
from pag.reproduce.results import Results, Run
from pag.reproduce.tables import Cell, Evaluation, Table

PAG = (sys.executable, "-m", "pag")


@dataclass(frozen=True)
class Asked:
    """What the command line asks of a table."""

    seeds: int | None = None  # default: the table's
    only: Sequence[str] = ()
    settings: Sequence[str] = ()
    data: Mapping[str, str] = field(default_factory=dict)  # name → folder
    again: bool = False


@dataclass(frozen=True)
class Job:
    """One run of one cell."""

    cell: Cell
    seed: int
    settings: tuple[str, ...]
    recipe: Recipe
    folder: Path
    evaluations: tuple[Evaluation, ...]
    data: Path | None

    @property
    def title(self) -> str:
        return f"{self.cell.name}, seed {self.seed}"

    def train(self, pag: Sequence[str] = ()) -> list[str]:
        overrides = [part for setting in self.settings for part in ("--set", setting)]
        return [*(pag or PAG), "train", self.cell.recipe, "--out", str(self.folder), *overrides]

    def evaluate(self, evaluation: Evaluation, pag: Sequence[str] = ()) -> list[str]:
        options = {"--beam": evaluation.beam, "--limit": evaluation.limit}
        given = [str(part) for pair in options.items() if pair[1] is not None for part in pair]
        model = self.folder if evaluation.checkpoint == "best" else self.folder / "checkpoints" / evaluation.checkpoint
        return [*(pag or PAG), "evaluate", str(model), "--json", "--split", evaluation.split, *given]

    def measured(self, run: Run | None) -> bool:
        """Is this what that run measured? Its recipe and its test sets must be these."""
        if run is None or not all(evaluation.name in run["scores"] for evaluation in self.evaluations):
            return False
        return same(run["summary"]["recipe"], self.public(self.recipe.model_dump(mode="json")))

    def public(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """A recipe as results files keep it: the data by its name, not by where it lies."""
        if self.data is None:
            return recipe
        return {**recipe, "task": {**recipe["task"], "data": self.cell.data}}

    def fingerprint(self) -> dict[str, Any]:
        """What the data was: a prepared folder's manifest has all checksums; made data follows from its task."""
        if self.data is not None:
            return {"name": self.cell.data, "sha256": _sha256((self.data / "manifest.json").read_bytes())}
        task = self.recipe.model_dump(mode="json")["task"]
        return {"name": task["name"], "sha256": _sha256(json.dumps(task, sort_keys=True).encode())}


def same(stored: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Do both mean the same run? What a stored recipe does not know yet has its default there."""
    try:
        filled = build_recipe(stored, "a stored recipe").model_dump(mode="json")
    except RecipeError:
        return False
    return {**filled, "description": ""} == {**wanted, "description": ""}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def plan(table: Table, asked: Asked, results: Results, runs: Path) -> list[Job]:
    """The runs that are missing, seed by seed, so that a table cut short has something of every row."""
    cells = _chosen(table.expanded(), asked.only)
    most = max(asked.seeds or cell.seeds for cell in cells)
    jobs = [
        _job(table, cell, seed, asked, runs)
        for seed in range(most)
        for cell in cells
        if seed < (asked.seeds or cell.seeds)
    ]
    return [job for job in jobs if asked.again or not job.measured(results.run(job.cell.name, job.seed))]


def _chosen(cells: dict[str, Cell], only: Sequence[str]) -> list[Cell]:
    """All cells, or those whose name begins with one of `only`."""
    for part in only:
        if not any(name.startswith(part) for name in cells):
            raise RecipeError(f"--only {part}: no row's name begins so{nearest(part, cells)}")
    return [cell for name, cell in cells.items() if not only or name.startswith(tuple(only))]


def _job(table: Table, cell: Cell, seed: int, asked: Asked, runs: Path) -> Job:
    data = None if cell.data is None else Path(asked.data.get(cell.data, f"data/{cell.data}"))
    where = () if data is None else (f"task.data={data}",)
    settings = (*table.set, *cell.settings, *asked.settings, *where, f"train.seed={seed}")
    folder = runs / cell.slug / f"seed-{seed}"
    recipe = read_recipe(cell.recipe, settings)
    return Job(cell, seed, settings, recipe, folder, tuple(table.evaluate), data)


def check_data(table: Table, jobs: Sequence[Job]) -> None:
    """Say at once, before anything runs, which data is missing and how it is made."""
    missing = {job.cell.data: job.data for job in jobs if job.data and not (job.data / "manifest.json").is_file()}
    if missing:
        told = "; ".join(f"{folder} (make it: {table.data[name].make})" for name, folder in missing.items() if name)
        raise DataError(f"no prepared data at {told}; or give --data {next(iter(missing))}=FOLDER")


def estimate(table: Table, results: Results, jobs: Sequence[Job]) -> tuple[float, int]:
    """Minutes that the runs take one after the other, from measured ones or the table's speed; how many are unknown."""
    seconds, unknown = 0.0, 0
    for job in jobs:
        like = [sum(run["seconds"].values()) for run in results.runs(job.cell.name)]
        if like:
            seconds += sum(like) / len(like)
        elif table.updates_per_second:
            seconds += job.recipe.train.max_updates / table.updates_per_second
        else:
            unknown += 1
    return seconds / 60, unknown
