"""The fused step of a search equals the plain one, and says where there is none."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pag.attention.base import Memory
from pag.data.batch import Batch
from pag.decoder import DecoderState
from pag.model import NOTHING, Seq2Seq
from pag.ops.step import fused
from pag.readout import DeepOutput
from pointing import LEXICON, documents, pointer
from small import FAST, SYMBOLS, assert_same, chance, model, sentences

WIDTH, STEPS = 3, 6


def built(name: str, layer_norm: bool, **attention: object) -> Seq2Seq:
    made = model(name, model={"layer_norm": layer_norm, "encoder": 8}, attention=attention).eval()
    draw = chance(1)
    with torch.no_grad():
        for weight in made.parameters():  # large enough that switches turn off
            weight.add_(1.5 * torch.randn(weight.shape, generator=draw, dtype=weight.dtype) / weight.shape[-1] ** 0.5)
    return made


def plain(made: Seq2Seq, prepared: Memory, state: DecoderState) -> tuple[Memory, DecoderState]:
    """What the plain step begins with, from what the fused one does."""
    size = made.decoder.lower.input.in_features - made.embedding.embedding_dim
    kept = {f.name: getattr(prepared, f.name) for f in fields(Memory)}
    memory = Memory(**{**kept, "annotations": prepared.annotations[..., -size:]})
    return memory, replace(state, attention=made.decoder.attention.start(memory))


def without_context(state: DecoderState) -> DecoderState:
    """Of the last context the two keep different things."""
    attention: Any = state.attention
    return replace(state, attention=replace(attention, context=state.upper)) if hasattr(attention, "context") else state


def compare(made: Seq2Seq, held: bool, projected: bool, batch: Batch | None = None, symbols: int = SYMBOLS) -> Tensor:
    """Both steps on the same rows, several in a row; the switches."""
    batch, switches = sentences((7, 1), (2, 1), (5, 1)) if batch is None else batch, []
    before = torch.full((len(batch.source) * WIDTH,), NOTHING)
    prepared, state = made.begin(batch)
    assert isinstance(prepared, fused.Prepared) and prepared.fused is not None
    assert prepared.fused.projected == projected
    memory, expected_state = plain(made, prepared, state)
    rows = torch.arange(len(batch.source)).repeat_interleave(WIDTH)
    state, expected_state = state.select(rows), expected_state.select(rows)
    for t in range(STEPS):
        expected, seen, expected_state = made.step(before, memory, expected_state, held)
        log_probs, glimpse, state = made.step(before, prepared, state, held)
        torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-11)
        assert_same(glimpse, seen)
        assert_same(without_context(state), without_context(expected_state))
        switches.append(torch.ones(len(before)) if glimpse.switch is None else glimpse.switch)
        before = torch.randint(0, symbols, before.shape, generator=chance(t))
    return torch.stack(switches)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", FAST)
def test_the_fused_step_is_the_step(
    name: str, layer_norm: bool, projected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not projected:
        monkeypatch.setattr(fused, "WORTH", 100)
    with torch.no_grad():
        switches = compare(built(name, layer_norm), False, projected)
        assert name == "baseline" or 0 < switches.mean() < 1
        assert compare(built(name, layer_norm), True, projected).eq(1).all()


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("pag", {"plans_from": "lower"}),
        ("rpag", {"plans_from": "lower"}),
        ("baseline", {"plans_from": "lower"}),
        ("pag", {"gate_context": False}),
        ("pag", {"temperature": 1.0}),
        ("rpag", {"estimator": "reinforce"}),
    ],
)
def test_the_fused_step_follows_every_setting(name: str, attention: dict[str, object]) -> None:
    with torch.no_grad():
        compare(built(name, False, **attention), False, True)


@pytest.mark.parametrize("answer", ["mean", None])
@pytest.mark.parametrize("name", FAST)
def test_the_fused_step_points_as_the_plain_one_does(
    name: str, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "WORTH", 0)
    made, batch = pointer(name, answer).eval(), documents()
    assert batch.pointing is not None
    everything = len(LEXICON.shortlist) + batch.pointing.extra.shape[1]  # words that only a document has, too
    with torch.no_grad():
        compare(made, False, True, batch, everything)


def test_many_outputs_are_multiplied_instead_of_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, looked_up in ((SYMBOLS, True), (SYMBOLS - 1, False)):
        monkeypatch.setattr(fused, "TABLE", most)
        with torch.no_grad():
            memory, _ = built("pag", True).begin(sentences((4, 1)))
            assert isinstance(memory, fused.Prepared) and memory.fused is not None
            assert (memory.fused.table is not None) == looked_up
            compare(built("pag", True), False, True)


def test_a_model_without_a_fused_step_says_so_and_takes_the_plain_one() -> None:
    class Other(DeepOutput):
        pass

    made = built("pag", False)
    assert fused.choose(made) == (True, "fused step: weights packed once per search")
    made.readout.__class__ = Other
    assert fused.choose(made) == (False, "plain step, since there is no fused one for Other")
    with torch.no_grad():
        assert not isinstance(made.begin(sentences((4, 1)))[0], fused.Prepared)


def test_where_gradients_or_dropout_are_wanted_the_plain_step_is_taken() -> None:
    made = built("pag", False)
    assert not isinstance(made.begin(sentences((4, 1)))[0], fused.Prepared)
    with torch.no_grad():
        assert not isinstance(made.train().begin(sentences((4, 1)))[0], fused.Prepared)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", FAST)
def test_bfloat16_products_stay_near_the_exact_ones(
    name: str, layer_norm: bool, projected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "WORTH", 1 if projected else 100)
    made, batch = built(name, layer_norm).float(), sentences((7, 1), (2, 1), (5, 1))
    before = torch.full((3,), NOTHING)
    with torch.no_grad():
        exact, _, _ = made.step(before, *made.begin(batch), held=True)
        with torch.autocast("cpu", torch.bfloat16):
            memory, state = made.begin(batch)
            assert isinstance(memory, fused.Prepared)
            rough, _, state = made.step(before, memory, state, held=True)
            made.step(before + 2, memory, state)
    assert rough.dtype == torch.float32 and state.lower.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0, atol=0.2)


def test_the_readouts_inputs_are_joined_in_the_type_they_are_multiplied_in() -> None:
    made, batch = built("pag", False).float(), sentences((7, 4), (2, 3))
    for enabled, kind in ((True, torch.bfloat16), (False, torch.float32)):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled):
            seen: list[Tensor] = []
            hook = made.readout.hidden.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0]))
            made(batch)
            hook.remove()
        assert [x.dtype for x in seen] == [kind]


def test_bfloat16_products_point_nearly_as_the_exact_ones_do() -> None:
    made, batch = pointer("pag").float().eval(), documents()
    before = torch.full((len(batch.source),), NOTHING)
    with torch.no_grad():
        exact, seen, _ = made.step(before, *made.begin(batch), held=True)
        with torch.autocast("cpu", torch.bfloat16):
            rough, glimpse, _ = made.step(before, *made.begin(batch), held=True)
    assert rough.dtype == torch.float32
    assert glimpse.copying is not None and seen.copying is not None
    torch.testing.assert_close(glimpse.copying, seen.copying, rtol=0, atol=0.05)
    torch.testing.assert_close(rough.exp(), exact.exp(), rtol=0, atol=0.05)
