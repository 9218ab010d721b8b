"""What a table is: recipes, seeds and test sets, beside the paper's numbers. Declared in tables/*.toml."""

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from pag.config import Settings
from pag.errors import RecipeError, nearest

FOLDER = Path(str(resources.files("pag") / "reproduce" / "tables"))
FAMILIES = ("euler", "questions", "multi30k", "europarl", "mix", "wmt15", "estimators", "planning")


class Evaluation(Settings):
    """One `pag evaluate` of every run."""

    name: str = "test"
    split: str = "test"
    beam: int | None = Field(None, ge=1)
    limit: int | None = Field(None, ge=1)
    checkpoint: Literal["best", "last"] = "best"


class Data(Settings):
    """A prepared folder that runs need."""

    make: str = Field(description="the command that makes it, in data/NAME")


class Cells(Settings):
    """Rows of the table: one, or one for each combination of `over`, whose values fill the {…} of the rest."""

    name: str
    recipe: str
    set: list[str] = []
    over: dict[str, list[Any]] = {}
    data: str | None = None
    paper: dict[str, float] = {}  # evaluation → what the paper reports
    metric: str | None = None  # default: the table's
    percent: bool | None = None
    seeds: int | None = Field(None, ge=1)
    drawn: bool = True  # in the picture of quality against what a study varies, and in the README


class Gallery(Settings):
    """Rows whose models are shown side by side on the same examples."""

    cells: list[str]
    split: str = "valid"
    outputs: int = Field(8, ge=1)
    pictures: int = Field(2, ge=1)
    seed: int = 0


class Table(Settings):
    title: str
    about: str
    metric: str
    label: str
    percent: bool = False
    seeds: int = Field(1, ge=1)
    set: list[str] = []
    curves: list[str] = ["loss"]  # validation metrics that are drawn
    also: list[str] = []  # further scores that are shown
    against: str | None = None  # draw the metric against this score of each run
    beside: str | None = None  # another table whose runs are drawn among them
    places: bool = False  # draw where in a word models re-plan
    readme: bool = False
    gallery: Gallery | None = None
    updates_per_second: float | None = Field(None, gt=0)  # of one run among several on one GPU, for estimates
    evaluate: list[Evaluation] = [Evaluation()]
    data: dict[str, Data] = {}
    cells: list[Cells]

    def expanded(self) -> "dict[str, Cell]":
        """Every row by its name."""
        found: dict[str, Cell] = {}
        for cell in (cell for cells in self.cells for cell in expand(cells, self)):
            if cell.name in found:
                raise RecipeError(f"two rows are called '{cell.name}': a name must hold all that `over` varies")
            found[cell.name] = cell
        return found


PARTS: dict[str, type[Settings]] = {"gallery": Gallery, "evaluate": Evaluation, "data": Data, "cells": Cells}


@dataclass(frozen=True)
class Cell:
    """One row: a recipe with its settings."""

    name: str
    recipe: str
    settings: tuple[str, ...]
    over: dict[str, Any]
    data: str | None
    paper: dict[str, float]
    metric: str
    percent: bool
    seeds: int
    drawn: bool

    @property
    def task(self) -> str:
        """The folder of its recipe: cells of one task are drawn together."""
        return self.recipe.rpartition("/")[0] or self.recipe

    @property
    def slug(self) -> str:
        """The name as a folder."""
        return re.sub(r"[^\w.=-]+", "-", self.name.lower()).strip("-")


def expand(cells: Cells, table: Table) -> Iterator[Cell]:
    try:
        yield from _expand(cells, table)
    except (KeyError, IndexError, ValueError) as error:
        raise RecipeError(
            f"row '{cells.name}': each {{…}} must be among what `over` varies ({', '.join(cells.over)}): {error}"
        ) from None


def _expand(cells: Cells, table: Table) -> Iterator[Cell]:
    for values in itertools.product(*cells.over.values()):
        over = dict(zip(cells.over, values, strict=True))
        yield Cell(
            cells.name.format(**over),
            cells.recipe.format(**over),
            tuple(text.format(**over) for text in cells.set),
            over,
            None if cells.data is None else cells.data.format(**over),
            cells.paper,
            cells.metric or table.metric,
            table.percent if cells.percent is None else cells.percent,
            cells.seeds or table.seeds,
            cells.drawn,
        )


def table_names() -> list[str]:
    """The paper's three tasks first, then what we asked beyond it."""
    known = {family: number for number, family in enumerate(FAMILIES)}
    names = (file.stem for file in FOLDER.glob("*.toml"))
    return sorted(names, key=lambda name: (known.get(name.partition("-")[0], len(known)), name))


def tables_called(name: str) -> dict[str, Table]:
    """A table by its name or file; or all that are called so and more: wmt15 is wmt15-cs, wmt15-de and wmt15-fi."""
    more = [known for known in table_names() if known.startswith(f"{name}-")]
    names = more if more and name not in table_names() else [name]
    return {Path(each).stem if each.endswith(".toml") else each: read_table(each) for each in names}


def read_table(name: str) -> Table:
    """A table by name, or by path of a TOML file."""
    file = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not file.is_file():
        raise RecipeError(f"unknown table '{name}'{nearest(name, table_names())}")
    try:
        table = Table.model_validate(tomllib.loads(file.read_text("utf-8")))
        table.expanded()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: not a TOML file: {error}") from None
    except ValidationError as error:
        raise RecipeError(f"{file}: {'; '.join(map(_problem, error.errors()))}") from None
    except RecipeError as error:
        raise RecipeError(f"{file}: {error}") from None
    return table


def _problem(item: Mapping[str, Any]) -> str:
    """`unknown key 'cells.0.nmae' (did you mean 'name'?)`."""
    key = ".".join(map(str, item["loc"]))
    if item["type"] != "extra_forbidden":
        return f"'{key}': {item['msg'].removeprefix('Input ').lower()}"
    section = PARTS[str(item["loc"][0])] if len(item["loc"]) > 1 else Table
    return f"unknown key '{key}'{nearest(str(item['loc'][-1]), section.model_fields)}"
