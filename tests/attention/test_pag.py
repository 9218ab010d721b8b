"""PAG: Algorithm 1 on paper, and again as loops over plain numbers."""

import math

import pytest
import torch
from torch import Tensor

from pag.attention.base import Memory, Query
from pag.attention.baseline import BaselineAttention
from pag.attention.pag import Plan, PlanningAttention
from small import ANNOTATION, K, attention, normal, play, scene, settings

HALF = math.atanh(0.5)


def by_hand(**changes: object) -> tuple[PlanningAttention, Memory]:
    """k = 3 and S = 2. Logits are the state; every candidate column is ±(1, 2, 3); the gate is one half.

    The two annotations are ±atanh(½), so that tanh(W_h h_j) = ±½ and W_p = (2, 4, 6) gives the columns.
    """
    built = PlanningAttention(1, 3, 1, settings(size=1, read_size=1, temperature=1.0, **changes)).double()
    with torch.no_grad():
        for weight in built.parameters():
            weight.zero_()
        built.keys.weight.fill_(1.0)
        built.candidate.weight.copy_(torch.tensor([[2.0], [4.0], [6.0]]))
        built.commitment.state.weight.copy_(torch.eye(3))
    annotations = torch.tensor([[[HALF], [-HALF]]], dtype=torch.float64)
    return built, built.prepare(annotations, torch.ones(1, 2, dtype=torch.bool))


def follow(
    built: PlanningAttention, memory: Memory, states: list[list[float]], held: bool = False
) -> tuple[list[Tensor], list[float], list[Tensor]]:
    """Plans, switches and alignments of successive steps."""
    state, plans, switches, alignments = built.start(memory), [], [], []
    for row in states:
        query = Query(torch.tensor([row], dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
        glimpse, state = built.step(query, memory, state, None, held)
        plans.append(state.plan[0])
        switches.append(glimpse.switch.item())
        alignments.append(glimpse.alignment[0])
    return plans, switches, alignments


# Steps 2, 4 and 5 shift their commitment logits and never read the state.
NEVER = [0.0, 0.0, 9.0]
STATES = [[0.0, 5.0, 1.0], NEVER, [0.0, 1.0, 4.0], NEVER, NEVER, [3.0, 0.0, 0.0]]
SWITCHES = [1, 1, 0, 0, 1, 1]
PLANS = [
    [[1.0, 0.0], [1.5, -0.5], [2.0, -1.0]],  # re-planned: halfway from A_0 = ones to the candidate
    [[1.0, -0.5], [1.75, -1.25], [2.5, -2.0]],  # the commitment's slot 1 came to the front: re-planned
    [[1.75, -1.25], [2.5, -2.0], [0.0, 0.0]],  # followed: one row forward, zeros behind
    [[2.5, -2.0], [0.0, 0.0], [0.0, 0.0]],  # followed
    [[1.75, -1.5], [1.0, -1.0], [1.5, -1.5]],  # re-planned from what was left
    [[1.375, -1.25], [1.5, -1.5], [2.25, -2.25]],
]


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
def test_algorithm_1_on_paper(training: bool) -> None:
    with torch.set_grad_enabled(training):
        plans, switches, alignments = follow(*by_hand(), STATES)
    assert switches == SWITCHES
    for plan, expected in zip(plans, PLANS, strict=True):
        torch.testing.assert_close(plan, torch.tensor(expected, dtype=torch.float64))
    for alignment, plan in zip(alignments, PLANS, strict=True):
        first = 1 / (1 + math.exp(plan[0][1] - plan[0][0]))
        assert alignment.tolist() == pytest.approx([first, 1 - first])


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
def test_a_held_switch_re_plans_at_every_step(training: bool) -> None:
    with torch.set_grad_enabled(training):
        plans, switches, _ = follow(*by_hand(), STATES, held=True)
    assert switches == [1] * 6
    expected, candidate = torch.ones(3, 2, dtype=torch.float64), torch.tensor([[1.0, -1], [2, -2], [3, -3]])
    for plan in plans:
        expected = (expected + candidate) / 2
        torch.testing.assert_close(plan, expected)


def test_a_plan_that_is_followed_to_its_end_runs_out_into_an_even_alignment() -> None:
    built, memory = by_hand()
    states = [[0.0, 0.0, 1.0], NEVER, NEVER]  # commits to slot 2, which takes two shifts to arrive
    with torch.no_grad():
        _, switches, _ = follow(built, memory, states)
        assert switches == [1, 0, 1]
        built.commitment.state.weight.zero_()
        built.commitment.state.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
        empty = Plan(
            torch.zeros(1, 3, 2, dtype=torch.float64), built.commitment.start(torch.zeros(1).double()), normal(1, 1)
        )
        after = Plan(
            empty.plan, built.commitment.step(normal(1, 3), None, empty.commitment, None, False)[1], empty.context
        )
        glimpse, _ = built.step(Query(normal(1, 3), normal(1, 1)), memory, after)
    assert glimpse.switch.tolist() == [0.0]
    assert glimpse.alignment.tolist() == [[0.5, 0.5]]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def dot(a: Tensor, b: Tensor) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def algorithm_1(p: PlanningAttention, h: Tensor, states: Tensor, tokens: Tensor, noise: Tensor) -> list[list[float]]:
    """One sentence, one number at a time, in the order of model equations 1 to 6; returns every α_t."""
    positions, k, size, read = range(len(h)), range(K), range(p.size), range(p.settings.read_size)
    plan = [[1.0 for _ in positions] for _ in k]
    logits, recompute, context, alignments = [0.0] * K, True, torch.zeros(ANNOTATION, dtype=h.dtype), []
    for t, (s, y) in enumerate(zip(states, tokens, strict=True)):
        if recompute:
            logits = [dot(p.commitment.state.weight[i], s) + float(p.commitment.state.bias[i]) for i in k]
        else:
            logits = [*logits[1:], -10.0]
        perturbed = [logits[i] + float(noise[t, i]) for i in k]
        recompute = perturbed.index(max(perturbed)) == 0
        if recompute or t == 0:
            old = [row[:] for row in plan]
            for j in positions:
                column = torch.tensor([old[i][j] for i in k], dtype=h.dtype)
                beta = [math.tanh(dot(p.read.weight[r], column) + float(p.read.bias[r])) for r in read]
                hidden = [
                    math.tanh(
                        dot(p.keys.weight[a], h[j])
                        + float(p.keys.bias[a])
                        + dot(p.token.weight[a], y)
                        + dot(p.state.weight[a], s)
                        + dot(p.summary.weight[a], torch.tensor(beta, dtype=h.dtype))
                    )
                    for a in size
                ]
                for i in k:
                    candidate = dot(p.candidate.weight[i], torch.tensor(hidden, dtype=h.dtype))
                    gate = sigmoid(
                        dot(p.gate_annotation.weight[i], h[j])
                        + float(p.gate_annotation.bias[i])
                        + dot(p.gate_state.weight[i], s)
                        + dot(p.gate_context.weight[i], context)
                    )
                    plan[i][j] = (1 - gate) * old[i][j] + gate * (candidate + float(p.candidate.bias[i]))
        else:
            plan = [*plan[1:], [0.0 for _ in positions]]
        powers = [math.exp(x) for x in plan[0]]
        alignments.append([x / sum(powers) for x in powers])
        context = sum(weight * h[j] for j, weight in zip(positions, alignments[-1], strict=True))
    return alignments


def test_algorithm_1_as_loops_over_numbers() -> None:
    built, acts = attention("pag", seed=3), scene(steps=6)
    with torch.no_grad():
        for weight in built.parameters():  # no bias may be zero, or leaving it out would not show
            weight.add_(0.3 * normal(*weight.shape, seed=weight.numel()))
        _, glimpses, _ = play(built, acts)
        for row in (1, 3):
            alone = acts.alone(row)
            expected = algorithm_1(built, alone.annotations[0], alone.states[0], alone.tokens[0], alone.noise[0])
            found = torch.stack([glimpse.alignment[row, : len(alone.mask[0])] for glimpse in glimpses])
            torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    switches = torch.stack([glimpse.switch for glimpse in glimpses], 1)[[1, 3], 1:]
    assert 0 < switches.mean() < 1


def test_the_gate_sees_the_last_context_only_where_the_settings_say_so() -> None:
    for sees in (True, False):
        built, acts = attention("pag", gate_context=sees), scene(steps=1)
        memory = built.prepare(acts.annotations, acts.mask)
        start = built.start(memory)
        moved = Plan(start.plan, start.commitment, start.context + 1)
        before, _ = built.step(acts.query(0), memory, start)
        after, _ = built.step(acts.query(0), memory, moved)
        assert torch.equal(before.gate, after.gate) is not sees


@pytest.mark.parametrize("bias", [-1.0, 0.0, 2.0])
def test_the_gate_starts_from_its_bias(bias: float) -> None:
    built = attention("pag", gate_bias=bias)
    with torch.no_grad():
        built.gate_annotation.weight.zero_()
        built.gate_state.weight.zero_()
        built.gate_context.weight.zero_()
        _, glimpses, _ = play(built, scene(steps=1))
    torch.testing.assert_close(glimpses[0].gate, torch.full_like(glimpses[0].gate, sigmoid(bias)))


def test_held_with_an_open_gate_and_an_unread_plan_it_is_the_baseline() -> None:
    built, plain, acts = attention("pag", gate_bias=800.0), attention("baseline"), scene()
    assert isinstance(plain, BaselineAttention)
    with torch.no_grad():
        built.summary.weight.zero_()  # the candidate no longer reads the plan
        plain.load_state_dict({"score.weight": built.candidate.weight[:1]}, strict=False)
        plain.load_state_dict({n: w for n, w in built.state_dict().items() if n in plain.state_dict()}, strict=False)
    _, planned, _ = play(built, acts, held=True)
    _, looked, _ = play(plain, acts)
    for a, b in zip(planned, looked, strict=True):
        torch.testing.assert_close(a.alignment, b.alignment, rtol=0, atol=1e-12)


def test_the_switch_passes_the_straight_through_gradient_to_the_commitment() -> None:
    """∂plan/∂g = renewed − followed, whichever of the two was taken."""
    built, acts = attention("pag", seed=3), scene()
    memory, glimpses, states = play(built, acts)
    t = next(t for t in range(1, acts.steps) if 0 < glimpses[t].switch.sum() < len(acts.mask))
    glimpse, after = built.step(acts.query(t), memory, states[t].map(Tensor.detach), acts.noise[:, t])
    (gradient,) = torch.autograd.grad(after.plan.sum(), glimpse.switch)
    renewed, _ = built.replan(built.project(acts.query(t), states[t]), memory, states[t])
    followed = torch.cat([states[t].plan[:, 1:], torch.zeros_like(states[t].plan[:, :1])], 1)
    torch.testing.assert_close(gradient, (renewed - followed).sum((1, 2)))
