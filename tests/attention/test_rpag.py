"""rPAG: Algorithm 2 on paper."""

import math
from itertools import pairwise

import pytest
import torch

from pag.attention.base import Memory, Query
from pag.attention.rpag import RepeatAttention
from small import attention, normal, play, scene, settings

HALF = math.atanh(0.5)


def by_hand() -> tuple[RepeatAttention, Memory]:
    """k = 3 and S = 2. Commitment logits are the state plus 6ψ on slot 2; scores are 2·tanh(h_j + y).

    The annotations are 0 and atanh(½): with y = 0 the scores are (0, 1); with y = atanh(½) they are
    (1, 1.6), since tanh(2·atanh(½)) = 0.8.
    """
    built = RepeatAttention(1, 3, 1, settings(size=1, temperature=1.0)).double()
    with torch.no_grad():
        for weight in built.parameters():
            weight.zero_()
        built.keys.weight.fill_(1.0)
        built.token.weight.fill_(1.0)
        built.score.weight.fill_(2.0)
        built.commitment.state.weight.copy_(torch.eye(3))
        built.commitment.context.weight.copy_(torch.tensor([[0.0], [0.0], [6.0]]))
    annotations = torch.tensor([[[0.0], [HALF]]], dtype=torch.float64)
    return built, built.prepare(annotations, torch.ones(1, 2, dtype=torch.bool))


def weights(first: float, second: float) -> list[float]:
    total = math.exp(first) + math.exp(second)
    return [math.exp(first) / total, math.exp(second) / total]


FIRST, LATER = weights(0.0, 1.0), weights(1.0, 1.6)
# state, token, switch, alignment. ψ_1 = 0.731·atanh(½) = 0.4016 and so 6ψ_1 = 2.41.
STEPS = [
    ([0.0, 3.0, 1.0], 0.0, 1, FIRST),  # recomputed with ψ_0 = 0: slot 1 wins, but the first step looks
    ([0.0, 0.0, 9.0], 0.0, 1, FIRST),  # shifted to (3, 1, −10): looks
    ([1.0, 0.0, 0.0], HALF, 0, FIRST),  # recomputed: (1, 0, 0 + 2.41): repeats, whatever the token
    ([0.0, 0.0, 9.0], HALF, 0, FIRST),  # shifted to (0, 2.41, −10): repeats
    ([0.0, 0.0, 9.0], HALF, 1, LATER),  # shifted to (2.41, −10, −10): looks
]


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
def test_algorithm_2_on_paper(training: bool) -> None:
    built, memory = by_hand()
    state = built.start(memory)
    with torch.set_grad_enabled(training):
        for row, token, switch, alignment in STEPS:
            query = Query(torch.tensor([row], dtype=torch.float64), torch.tensor([[token]], dtype=torch.float64))
            glimpse, state = built.step(query, memory, state)
            assert glimpse.switch.item() == switch
            assert glimpse.alignment[0].tolist() == pytest.approx(alignment)
            assert glimpse.context.item() == pytest.approx(alignment[1] * HALF)
            assert glimpse.plan is None


def test_the_commitment_sees_the_last_context() -> None:
    built, memory = by_hand()
    state = built.start(memory)
    query = Query(torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
    _, state = built.step(query, memory, state)
    assert state.commitment.logits.tolist() == [[1.0, 0.0, 0.0]]  # ψ_0 = 0
    _, state = built.step(query, memory, state)
    assert state.commitment.logits[0].tolist() == pytest.approx([1.0, 0.0, 6 * FIRST[1] * HALF])


def test_a_repeated_alignment_is_the_same_numbers() -> None:
    built, acts = attention("rpag", seed=1), scene()
    _, glimpses, _ = play(built, acts)
    repeats = 0
    for before, now in pairwise(glimpses):
        rows = now.switch == 0
        repeats += int(rows.sum())
        assert torch.equal(before.alignment[rows], now.alignment[rows])
    assert repeats > 0


def test_held_it_is_the_baseline() -> None:
    built, plain, acts = attention("rpag"), attention("baseline"), scene()
    plain.load_state_dict({n: w for n, w in built.state_dict().items() if n in plain.state_dict()})
    _, held, _ = play(built, acts, held=True)
    _, looked, _ = play(plain, acts)
    for a, b in zip(held, looked, strict=True):
        torch.testing.assert_close(a.alignment, b.alignment, rtol=0, atol=1e-14)
        torch.testing.assert_close(a.context, b.context, rtol=0, atol=1e-14)


def test_the_switch_passes_the_straight_through_gradient_to_the_commitment() -> None:
    """∂α/∂g = a fresh look − the repeated alignment."""
    built, acts = attention("rpag", seed=1), scene()
    memory, _, states = play(built, acts)
    glimpse, after = built.step(acts.query(2), memory, states[2].map(lambda x: x.detach()), acts.noise[:, 2])
    weight = normal(*after.alignment.shape)
    (gradient,) = torch.autograd.grad((weight * after.alignment).sum(), glimpse.switch)
    fresh = built.fresh(built.project(acts.query(2), states[2]), memory)
    torch.testing.assert_close(gradient, (weight * (fresh - states[2].alignment)).sum(1))
