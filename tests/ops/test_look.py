"""The inference kernels equal the attention they stand for. Run through Triton's interpreter without a GPU."""

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="the kernels need Triton")

from pag.attention.base import Query
from pag.attention.pag import Plan, PlanningAttention
from pag.config import AttentionSettings
from pag.layers import initialise
from pag.ops.look import kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SENTENCES, ROWS, POSITIONS, UNITS = 2, 6, 37, 70  # three rows share a sentence
LENGTHS = (37, 9)  # so that the second sentence has whole blocks of padding


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def real() -> tuple[Tensor, Tensor]:
    """True on real positions, by sentence and by row."""
    mask = torch.arange(POSITIONS, device=DEVICE) < torch.tensor(LENGTHS, device=DEVICE)[:, None]
    return mask, mask.repeat_interleave(ROWS // SENTENCES, 0)


def test_scores_of_active_rows_equal_the_formula_and_others_are_zero() -> None:
    keys, moving, weight = draw(SENTENCES, POSITIONS, UNITS), draw(ROWS, UNITS, seed=1), draw(1, UNITS, seed=2)
    own = keys.repeat_interleave(ROWS // SENTENCES, 0)
    active = torch.tensor([True, False, True, True, False, True], device=DEVICE)
    expected = (torch.tanh(own.double() + moving.double()[:, None]) @ weight.double()[0]) * active[:, None]
    mask, there = real()
    found = kernel.score(keys, moving, weight, mask, active).double()
    torch.testing.assert_close(found[there], expected[there], atol=1e-5, rtol=1e-5)
    assert found[:, 16:][~there[:, 16:]].eq(0).all()


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("k", "read"), [(7, 20), (10, 64), (1, 3)])
def test_a_plan_is_renewed_where_active_and_shifted_elsewhere(k: int, read: int, layer_norm: bool) -> None:
    settings = AttentionSettings(k=k, size=UNITS, read_size=read)
    attention = PlanningAttention(12, 9, 6, settings, layer_norm)
    initialise(attention, "fan_in", torch.Generator().manual_seed(3))
    for module in attention.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1.0, 0.3)
    attention = attention.to(DEVICE)
    mask, there = real()
    memory = attention.prepare(draw(SENTENCES, POSITIONS, 12), mask)
    query = Query(draw(ROWS, 9, seed=1), draw(ROWS, 6, seed=2))
    commitment = attention.commitment.start(draw(ROWS, 12))
    state = Plan(draw(ROWS, k, POSITIONS, seed=4), commitment, draw(ROWS, 12, seed=5))
    active = torch.tensor([True, False, True, True, False, True], device=DEVICE)
    with torch.no_grad():
        plan, gate = attention.replan_on_gpu(active, query, memory, state)
        renewed, opened = attention.replan(query, memory, state)
    shifted = torch.cat([state.plan[:, 1:], torch.zeros_like(state.plan[:, :1])], 1)
    on = active[:, None, None]
    expected = torch.where(on, renewed, shifted), torch.where(on, opened, torch.zeros_like(opened))
    for found, wanted in zip((plan, gate), expected, strict=True):
        found, wanted = found.transpose(1, 2), wanted.transpose(1, 2)
        torch.testing.assert_close(found[there], wanted[there], atol=2e-5, rtol=1e-4)
        assert found[:, 16:][~there[:, 16:]].eq(0).all()
