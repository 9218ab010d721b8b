"""The promises that every registered attention keeps; a new one is tested by being registered."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.model import Seq2Seq
from pag.ops.look.pieces import Rows
from pag.registry import ATTENTIONS
from small import FAST, SYMBOLS, K, assert_same, attention, noise, normal, play, recipe, scene, sentences

pytestmark = [
    pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer_norm"]),
    pytest.mark.parametrize("name", sorted({*ATTENTIONS, "located"})),
]

MODES = pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])

LIBRARY = (Path(__file__).parents[2] / "docs" / "library.md").read_text("utf-8")


@pytest.fixture(autouse=True)
def _newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attention that library.md adds: it keeps what that page promises for it."""
    block = re.search(r"^```python\n(# src/pag/attention/located\.py\n.*?)^```", LIBRARY, re.MULTILINE | re.DOTALL)
    assert block is not None
    module = ModuleType("pag.attention.located")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(block[1], module.__dict__)
    monkeypatch.setitem(ATTENTIONS, "located", "pag.attention.located:LocatedAttention")


def assert_both_happen(glimpses: list[Glimpse]) -> None:
    """Rows that follow and rows that re-plan, or the test says little."""
    if glimpses[0].switch is not None:
        rate = torch.stack([glimpse.switch for glimpse in glimpses[1:]]).mean()
        assert 0 < rate < 1


@MODES
def test_weights_sum_to_one(name: str, layer_norm: bool, training: bool) -> None:
    with torch.set_grad_enabled(training):
        _, glimpses, _ = play(attention(name, layer_norm), scene())
    assert_both_happen(glimpses)
    for glimpse in glimpses:
        assert (glimpse.alignment >= 0).all()
        torch.testing.assert_close(glimpse.alignment.sum(-1), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)


@MODES
def test_padding_is_never_attended_to(name: str, layer_norm: bool, training: bool) -> None:
    acts = scene()
    with torch.set_grad_enabled(training):
        _, glimpses, _ = play(attention(name, layer_norm), acts)
    for glimpse in glimpses:
        assert (glimpse.alignment[~acts.mask] == 0).all()
        assert (glimpse.alignment[acts.mask] > 0).all()


@MODES
def test_what_padding_holds_changes_nothing(name: str, layer_norm: bool, training: bool) -> None:
    built, acts = attention(name, layer_norm), scene()
    other = replace(acts, annotations=torch.where(acts.mask[..., None], acts.annotations, 1e3))
    with torch.set_grad_enabled(training):
        _, first, _ = play(built, acts)
        _, second, _ = play(built, other)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.alignment, b.alignment)
        assert torch.equal(a.context, b.context)


def test_padding_gets_no_gradient(name: str, layer_norm: bool) -> None:
    acts = scene()
    acts.annotations.requires_grad_()
    _, glimpses, _ = play(attention(name, layer_norm), acts)
    sum((glimpse.context * normal(4, 4)).sum() for glimpse in glimpses).backward()
    assert (acts.annotations.grad[~acts.mask] == 0).all()
    assert (acts.annotations.grad[acts.mask] != 0).any()


@MODES
def test_select_commutes_with_step(name: str, layer_norm: bool, training: bool) -> None:
    """Reordering rows between steps, as a beam does, then stepping is stepping and then reordering."""
    built, acts = attention(name, layer_norm), scene()
    rows = torch.tensor([2, 0, 0, 3, 1])
    with torch.set_grad_enabled(training):
        memory, glimpses, states = play(built, acts)
        assert_both_happen(glimpses)
        for t in range(acts.steps):
            glimpse, after = built.step(
                acts.query(t).select(rows), memory.select(rows), states[t].select(rows), acts.noise[rows, t]
            )
            assert_same(glimpse, glimpses[t].select(rows))
            assert_same(after, states[t + 1].select(rows))


@MODES
def test_rows_that_share_a_sentence_get_what_their_own_copies_give(name: str, layer_norm: bool, training: bool) -> None:
    """The hypotheses of a beam stand together and share one memory."""
    built, acts = attention(name, layer_norm), scene(lengths=(5, 2, 3, 4, 5, 3))
    few = torch.tensor([1, 4])
    with torch.set_grad_enabled(training):
        memory = built.prepare(acts.annotations, acts.mask).select(few)
        own = memory.select(few.new_tensor([0, 0, 0, 1, 1, 1]))
        shared_state = own_state = built.start(own)
        for t in range(acts.steps):
            shared, shared_state = built.step(acts.query(t), memory, shared_state, acts.noise[:, t])
            alone, own_state = built.step(acts.query(t), own, own_state, acts.noise[:, t])
            assert_same(shared, alone)
            assert_same(shared_state, own_state)


@MODES
def test_a_sentence_alone_gives_what_it_gives_in_a_batch(name: str, layer_norm: bool, training: bool) -> None:
    built, acts = attention(name, layer_norm), scene()
    with torch.set_grad_enabled(training):
        _, together, _ = play(built, acts)
        for row, length in enumerate(acts.mask.sum(1).tolist()):
            _, alone, _ = play(built, acts.alone(row))
            for a, b in zip(alone, together, strict=True):
                torch.testing.assert_close(a.alignment[0], b.alignment[row, :length], rtol=0, atol=1e-12)
                torch.testing.assert_close(a.context[0], b.context[row], rtol=0, atol=1e-12)
                if a.switch is not None:
                    assert a.switch[0] == b.switch[row]


def test_every_parameter_gets_a_gradient(name: str, layer_norm: bool) -> None:
    built = attention(name, layer_norm)
    _, glimpses, _ = play(built, scene())
    sum((glimpse.context * normal(4, 4)).sum() for glimpse in glimpses).backward()
    silent = [key for key, weight in built.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not silent


def test_inference_gives_what_training_gives(name: str, layer_norm: bool) -> None:
    """A closed gate is shown where a row followed; everything else is the same number."""
    built, acts = attention(name, layer_norm), scene()
    _, trained, states = play(built, acts)
    with torch.no_grad():
        _, inferred, states_inferred = play(built, acts)
    assert_both_happen(trained)
    for a, b in zip(trained, inferred, strict=True):
        assert_same(replace(a, gate=None), replace(b, gate=None))
    for a, b in zip(states, states_inferred, strict=True):
        assert_same(a, b)


def rows_scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each piece of the tanh layer, the costly part of a look, was computed for."""
    counts: list[int] = []
    pieces = Rows.pieces

    def counted(rows: Rows) -> Iterator[tuple[slice, Tensor]]:
        for part, layer in pieces(rows):
            counts.append(part.stop - part.start)
            yield part, layer

    monkeypatch.setattr(Rows, "pieces", counted)
    return counts


def test_at_inference_rows_that_follow_are_not_scored(
    name: str, layer_norm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in FAST:
        pytest.skip("scores in a way of its own, which is not counted")
    built, acts = attention(name, layer_norm), scene(steps=12)
    counts = rows_scored(monkeypatch)
    with torch.no_grad():
        memory = built.prepare(acts.annotations, acts.mask)
        state = built.start(memory)
        for t in range(acts.steps):
            counts.clear()
            glimpse, state = built.step(acts.query(t), memory, state, acts.noise[:, t])
            looking = len(acts.mask) if glimpse.switch is None else int(glimpse.switch.sum())
            assert sum(counts) == looking


def test_no_row_that_looks_costs_nothing(name: str, layer_norm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    built, acts = attention(name, layer_norm), scene(steps=2)
    if not built.plans:
        pytest.skip("looks at every step")
    never = torch.tensor([-50.0, 0.0, 50.0], dtype=torch.float64).expand(4, K)
    counts = rows_scored(monkeypatch)
    with torch.no_grad():
        memory = built.prepare(acts.annotations, acts.mask)
        _, state = built.step(acts.query(0), memory, built.start(memory), never)
        counts.clear()
        glimpse, _ = built.step(acts.query(1), memory, state, never)
    assert glimpse.switch.sum() == 0 and not counts


def test_the_same_noise_gives_the_same_step(name: str, layer_norm: bool) -> None:
    built, acts = attention(name, layer_norm), scene()
    torch.manual_seed(0)
    _, first, _ = play(built, acts)
    torch.manual_seed(1)
    _, second, _ = play(built, acts)
    for a, b in zip(first, second, strict=True):
        assert_same(a, b, tolerance=0)


def test_reinforce_trains_every_parameter_too(name: str, layer_norm: bool) -> None:
    """With a fixed temperature: a choice that is drawn from softmax(l) has none to learn."""
    built = attention(name, layer_norm, estimator="reinforce", temperature=1.0)
    _, glimpses, _ = play(built, scene())
    total = sum((glimpse.context * normal(4, 4)).sum() for glimpse in glimpses)
    if glimpses[0].log_prob is not None:
        total = total + sum((glimpse.log_prob * normal(4)).sum() for glimpse in glimpses)
    total.backward()
    silent = [key for key, weight in built.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not silent


def test_it_works_inside_a_model(name: str, layer_norm: bool) -> None:
    built = Seq2Seq(recipe(name, model={"layer_norm": layer_norm}), SYMBOLS, SYMBOLS).double()
    batch = sentences((4, 3), (2, 5))
    log_probs = built(batch, noise(2, 5, K)).log_probs
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 5, dtype=torch.float64))


def test_it_runs_in_bfloat16_with_float32_decisions(name: str, layer_norm: bool) -> None:
    built = attention(name, layer_norm).float()
    acts = scene()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        memory = built.prepare(acts.annotations.bfloat16(), acts.mask)
        state = built.start(memory)
        for t in range(3):
            query = acts.query(t).map(lambda x: x.bfloat16())
            glimpse, state = built.step(query, memory, state, acts.noise[:, t].float())
    assert glimpse.alignment.dtype == torch.float32
    if glimpse.commitment is not None:
        assert glimpse.commitment.dtype == torch.float32


def test_weights_are_drawn_from_the_generator_alone(name: str, layer_norm: bool) -> None:
    torch.manual_seed(0)
    first = attention(name, layer_norm, seed=4)
    torch.manual_seed(1)
    second = attention(name, layer_norm, seed=4)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
