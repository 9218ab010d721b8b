"""The tiny recipe that many tests train, and how they train it."""

from pathlib import Path
from typing import Any

from rich.console import Console

from pag.config import Recipe, build_recipe
from pag.run import Machine, Outcome, train_run

TINY: dict[str, dict[str, Any]] = {
    "task": {"name": "euler", "nodes": 4, "distractors": 3, "train": 40, "valid": 8, "test": 10},
    "model": {"embedding": 8, "encoder": 12, "decoder": 12},
    "attention": {"name": "pag", "k": 3, "read_size": 8, "hold_updates": 3},
    "train": {"max_updates": 6, "batch_size": 8, "lr": 0.01, "validate_every": 3, "save_every": 2, "log_every": 1},
    "generate": {"max_length": 12, "batch_size": 4},
}


def tiny(**sections: dict[str, Any]) -> Recipe:
    """The tiny recipe with some settings changed: `tiny(attention={"name": "rpag"})`."""
    return build_recipe({name: {**TINY.get(name, {}), **sections.get(name, {})} for name in TINY | sections}, "tiny")


def train(folder: Path, recipe: Recipe, resume: str = "auto") -> Outcome:
    return train_run(recipe, folder, resume, Machine("cpu"), Console(quiet=True))
