"""Nothing that a training pass made outlives it."""

from pathlib import Path

import pytest
import torch

from pag.chance import commitment_noise
from pag.losses import losses
from pag.model import Seq2Seq
from pag.ops.unroll import choose
from pag.tasks.euler import EulerTask
from small import FAST
from tiny import tiny

STATM = Path("/proc/self/statm")


def resident() -> float:
    """MiB of memory that this process holds."""
    return int(STATM.read_text().split()[1]) * 4096 / 2**20


@pytest.mark.skipif(not STATM.exists(), reason="reads /proc")
@pytest.mark.parametrize("name", FAST)
def test_training_passes_leave_no_memory_behind(name: str) -> None:
    recipe = tiny(attention={"name": name}, model={"encoder": 64, "decoder": 64})
    task = EulerTask.build(recipe.task)
    model = Seq2Seq(recipe, len(task.source), len(task.target))
    model.unroll, _ = choose("fused", "cpu", model.decoder)
    examples = task.examples("train")
    batch = task.collate([examples[i % len(examples)] for i in range(100)])
    assert batch.target is not None
    noise = commitment_noise(*batch.target.shape, recipe.attention.k, torch.device("cpu"), 1)

    def train() -> None:
        model.zero_grad()
        losses(model(batch, noise), batch, recipe).total.backward()

    for _ in range(3):
        train()
    before = resident()
    for _ in range(25):
        train()
    assert resident() - before < 60
