"""What many tests share: a tiny recipe, models with random weights, and one short finished run."""

from pathlib import Path

import pytest
import torch

from pag.config import Recipe
from pag.model import Seq2Seq
from pag.registry import ATTENTIONS
from pag.tasks.euler import EulerTask
from tiny import tiny, train


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Two test workers share two cores; and one thread makes sums repeat bit for bit."""
    torch.set_num_threads(1)


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


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the tiny recipe with PAG. Tests read it and never change it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(folder, tiny())
    return folder
