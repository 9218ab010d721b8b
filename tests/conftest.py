"""What many tests share: a tiny recipe, models with random weights, and one short finished run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from pag.config import Recipe, build_recipe
from pag.model import Seq2Seq
from pag.registry import ATTENTIONS
from pag.run import Machine, Outcome, train_run
from pag.tasks.euler import EulerTask

TINY: dict[str, dict[str, Any]] = {
    "task": {"name": "euler", "nodes": 4, "distractors": 3, "train": 40, "valid": 8, "test": 10},
    "model": {"embedding": 8, "encoder": 12, "decoder": 12},
    "attention": {"name": "pag", "k": 3, "read_size": 8, "hold_updates": 3},
    "train": {"max_updates": 6, "batch_size": 8, "lr": 0.01, "validate_every": 3, "save_every": 2, "log_every": 1},
    "generate": {"max_length": 12, "batch_size": 4},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Two test workers share two cores; and one thread makes sums repeat bit for bit."""
    torch.set_num_threads(1)


def tiny(**sections: dict[str, Any]) -> Recipe:
    """The tiny recipe with some settings changed: `tiny(attention={"name": "rpag"})`."""
    return build_recipe({name: {**values, **sections.get(name, {})} for name, values in TINY.items()}, "tiny")


@pytest.fixture(params=sorted(ATTENTIONS))
def recipe(request: pytest.FixtureRequest) -> Recipe:
    """The tiny recipe with each attention in turn."""
    return tiny(attention={"name": request.param})


@pytest.fixture
def task(recipe: Recipe) -> EulerTask:
    return EulerTask.build(recipe.task)


@pytest.fixture
def model(recipe: Recipe, task: EulerTask) -> Seq2Seq:
    """Random weights in float64, large enough that outputs differ and switches turn off."""
    model = Seq2Seq(recipe, len(task.source), len(task.target)).double().eval()
    chance = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1.5 * torch.randn(weight.shape, generator=chance, dtype=weight.dtype) / weight.shape[-1] ** 0.5
    return model


Train = Callable[..., Outcome]


def train(folder: Path, recipe: Recipe, resume: str = "auto") -> Outcome:
    return train_run(recipe, folder, resume, Machine("cpu"), Console(quiet=True))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the tiny recipe with PAG. Tests read it and never change it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(folder, tiny())
    return folder
