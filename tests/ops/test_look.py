"""A look at inference equals the attention it stands for: in pieces, and by kernels (interpreted without a GPU)."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="the kernels need Triton")

from pag.attention.base import Query
from pag.attention.pag import Plan, PlanningAttention
from pag.config import AttentionSettings
from pag.layers import initialise
from pag.ops import look as ops
from pag.ops.look import kernel, pieces

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SENTENCES, ROWS, POSITIONS, UNITS = 2, 6, 37, 70  # three rows share a sentence
LENGTHS = (37, 9)  # so that the second sentence has whole blocks of padding
PASSED_OVER = (slice(3, None), slice(16, None))  # which its rows have from position 16 on


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def real() -> tuple[Tensor, Tensor]:
    """True on real positions, by sentence and by row."""
    mask = torch.arange(POSITIONS, device=DEVICE) < torch.tensor(LENGTHS, device=DEVICE)[:, None]
    return mask, mask.repeat_interleave(ROWS // SENTENCES, 0)


@pytest.fixture(params=["kernel", "pieces", "small pieces", "tiny pieces"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Pieces of all sentences, of two rows of the three that share one, of a single row."""
    if request.param == "kernel":
        return kernel
    sizes = {"pieces": 6, "small pieces": 2, "tiny pieces": 0}
    monkeypatch.setattr(pieces, "PIECE", sizes[request.param] * POSITIONS * UNITS)
    return pieces


def active(everyone: bool) -> Tensor:
    """Rows whose sentence follows from the number of a row in no other way than by three rows a sentence."""
    return torch.tensor([True, everyone, True, True, True, everyone], device=DEVICE)


def test_without_triton_a_gpu_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "find_spec", lambda name: None)
    ops.triton_is_here.cache_clear()
    with pytest.warns(UserWarning, match="Triton is not installed, so search on this GPU is slow"):
        assert not ops.triton_is_here()
    assert not ops.triton_is_here()
    ops.triton_is_here.cache_clear()


def test_kernels_are_launched_on_the_gpu_that_has_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[Tensor] = []

    @contextmanager
    def device_of(tensor: Tensor) -> Iterator[None]:
        current.append(tensor)
        yield
        current.pop()

    monkeypatch.setattr(ops, "fast", lambda like: True)
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    for name in ("score", "replan"):
        monkeypatch.setattr(kernel, name, lambda keys, moving, *rest: list(current))
    moving = draw(ROWS, UNITS)
    assert ops.score(moving, moving, moving, moving, None)[0] is moving
    assert ops.replan(*[moving] * 11)[0] is moving  # type: ignore[arg-type]


@pytest.mark.parametrize("everyone", [False, True])
def test_scores_of_active_rows_equal_the_formula_and_others_are_zero(look: ModuleType, everyone: bool) -> None:
    keys, moving, weight = draw(SENTENCES, POSITIONS, UNITS), draw(ROWS, UNITS, seed=1), draw(1, UNITS, seed=2)
    own = keys.repeat_interleave(ROWS // SENTENCES, 0)
    on = active(everyone)
    expected = (torch.tanh(own.double() + moving.double()[:, None]) @ weight.double()[0]) * on[:, None]
    mask, there = real()
    found = look.score(keys, moving, weight, mask, on).double()
    torch.testing.assert_close(found[there], expected[there], atol=1e-5, rtol=1e-5)
    assert look is pieces or not found[PASSED_OVER].any()


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("k", "read"), [(7, 20), (10, 64), (1, 3)])
@pytest.mark.parametrize("everyone", [False, True])
def test_a_plan_is_renewed_where_active_and_shifted_elsewhere(
    look: ModuleType, k: int, read: int, layer_norm: bool, everyone: bool
) -> None:
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
    with torch.no_grad():
        products = attention.project(query, state)
        plan, gate = look.replan(
            state.plan, memory.keys, products.energy, memory.gate, products.gate, mask, active(everyone),
            attention.read, attention.read_norm, attention.summary.weight, attention.candidate,
        )  # fmt: skip
        renewed, opened = attention.replan(products, memory, state)
    shifted = torch.cat([state.plan[:, 1:], torch.zeros_like(state.plan[:, :1])], 1)
    on = active(everyone)[:, None, None]
    expected = torch.where(on, renewed, shifted), torch.where(on, opened, torch.zeros_like(opened))
    for found, wanted in zip((plan, gate), expected, strict=True):
        assert look is pieces or not found.transpose(1, 2)[PASSED_OVER].any()
        found, wanted = found.transpose(1, 2), wanted.transpose(1, 2)
        torch.testing.assert_close(found[there], wanted[there], atol=2e-5, rtol=1e-4)
