"""The commitment plan alone: when it re-plans, what it carries, and where its gradient goes."""

import math

import pytest
import torch
from torch import Tensor

from pag.attention.commitment import FREED, Commitment, CommitmentPlan, Decision, gumbel, shift
from pag.layers import initialise
from small import chance, noise, normal, settings


def plan(**changes: object) -> CommitmentPlan:
    """A commitment plan whose logits are the state itself: l = s, with k = 3."""
    built = CommitmentPlan(3, 0, settings(**{"temperature": 0.5, **changes}), layer_norm=False).double()
    initialise(built, "fan_in", chance(0))
    with torch.no_grad():
        built.state.weight.copy_(torch.eye(3))
    return built


def walk(
    built: CommitmentPlan, states: list[list[float]], held: bool = False
) -> tuple[list[Decision], list[Commitment]]:
    carried = [built.start(torch.zeros(1, dtype=torch.float64))]
    decisions = []
    for state in states:
        decision, after = built.step(torch.tensor([state], dtype=torch.float64), None, carried[-1], None, held)
        decisions.append(decision)
        carried.append(after)
    return decisions, carried[1:]


# The state is only read where the logits are recomputed (steps 1, 3 and 6); NEVER marks the others.
NEVER = [7.0, 7.0, 7.0]
STATES = [[0.0, 5.0, 1.0], NEVER, [0.0, 1.0, 4.0], NEVER, NEVER, [3.0, 0.0, 0.0]]
LOGITS = [
    [0.0, 5.0, 1.0],  # recomputed: c̄_0 is ones; slot 1 is largest, yet g_1 = 1
    [5.0, 1.0, -10.0],  # c̄_1[0] = 0, so shifted: slot 0 is largest
    [0.0, 1.0, 4.0],  # c̄_2[0] = 1, so recomputed: two steps to follow
    [1.0, 4.0, -10.0],
    [4.0, -10.0, -10.0],
    [3.0, 0.0, 0.0],
]
SWITCHES = [1, 1, 0, 0, 1, 1]


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(x) for x in row]
    return [x / sum(powers) for x in powers]


def test_logits_shift_until_their_largest_slot_arrives_and_are_then_recomputed() -> None:
    _, carried = walk(plan(), STATES)
    assert [after.logits[0].tolist() for after in carried] == LOGITS


def test_the_switch_is_this_steps_first_slot_and_the_first_switch_is_on() -> None:
    decisions, _ = walk(plan(), STATES)
    assert [decision.switch.item() for decision in decisions] == SWITCHES


def test_the_forced_first_switch_leaves_the_carried_commitment_alone() -> None:
    _, carried = walk(plan(), STATES[:1])
    assert not carried[0].recompute.item()  # c̄_1[0] = 0 although g_1 = 1


def test_a_held_switch_is_on_and_changes_nothing_else() -> None:
    free, carried = walk(plan(), STATES)
    held, carried_held = walk(plan(), STATES, held=True)
    assert [decision.switch.item() for decision in held] == [1] * 6
    for a, b in zip(free, held, strict=True):
        assert torch.equal(a.soft, b.soft)
    for a, b in zip(carried, carried_held, strict=True):
        assert torch.equal(a.logits, b.logits) and torch.equal(a.recompute, b.recompute)


def test_the_penalised_commitment_repeats_the_last_recomputed_one() -> None:
    _, carried = walk(plan(), STATES)
    expected = [softmax([2 * x for x in LOGITS[t]]) for t in (0, 0, 2, 2, 2, 5)]  # 1/temperature = 2
    torch.testing.assert_close(torch.cat([c.penalised for c in carried]), torch.tensor(expected, dtype=torch.float64))


def test_a_fixed_temperature_divides_the_logits() -> None:
    decisions, _ = walk(plan(temperature=4.0), [[1.0, 2.0, 3.0]])
    torch.testing.assert_close(decisions[0].soft[0].tolist(), softmax([0.25, 0.5, 0.75]))


def test_the_learned_inverse_temperature_is_a_softplus_of_the_state_above_one() -> None:
    built = plan(temperature="learned")
    with torch.no_grad():
        assert built.temperature is not None
        built.temperature.weight.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
    state = [2.0, 1.0, 0.0]
    inverse = math.log(1 + math.exp(2.0 - 1.8)) + 1.001
    decisions, _ = walk(built, [state])
    torch.testing.assert_close(decisions[0].soft[0].tolist(), softmax([inverse * x for x in state]))


def test_noise_is_added_before_the_temperature() -> None:
    drawn = torch.tensor([[4.0, 0.0, -1.0]], dtype=torch.float64)
    state = torch.tensor([[0.0, 3.0, 1.0]], dtype=torch.float64)
    built = plan()
    decision, after = built.step(state, None, built.start(state), drawn, held=False)
    torch.testing.assert_close(decision.soft[0].tolist(), softmax([8.0, 6.0, 0.0]))
    assert after.recompute.item()  # the noise moved the choice to slot 0
    assert after.logits.tolist() == state.tolist()  # and is not carried


def test_the_freed_slot_is_almost_never_chosen() -> None:
    rows = torch.tensor([[1.0, 2.0, 3.0]])
    assert shift(rows, FREED).tolist() == [[2.0, 3.0, -10.0]]
    assert shift(rows[..., None].expand(1, 3, 2), 0.0).tolist() == [[[2.0, 2.0], [3.0, 3.0], [0.0, 0.0]]]


def test_the_same_noise_gives_the_same_decision_and_none_is_drawn_inside() -> None:
    built, state, drawn = plan(), normal(5, 3), noise(5, 3)
    torch.manual_seed(0)
    first, _ = built.step(state, None, built.start(state), drawn, held=False)
    torch.manual_seed(1)
    second, _ = built.step(state, None, built.start(state), drawn, held=False)
    assert torch.equal(first.soft, second.soft) and torch.equal(first.switch, second.switch)


def test_gumbel_noise_samples_slots_in_proportion_to_their_softmax() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    drawn = noise(20_000, 3, seed=7)
    share = torch.bincount((logits + drawn).argmax(-1), minlength=3) / 20_000
    torch.testing.assert_close(share.double(), logits.softmax(-1), rtol=0, atol=0.015)


def test_gumbel_noise_has_the_gumbel_distribution() -> None:
    drawn = noise(50_000, seed=3)
    for quantile in (0.05, 0.25, 0.5, 0.75, 0.95):
        place = -math.log(-math.log(quantile))
        assert (drawn < place).double().mean().item() == pytest.approx(quantile, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gumbel_noise_is_finite_at_the_ends_of_the_uniform(dtype: torch.dtype) -> None:
    ends = torch.tensor([0.0, 1 - torch.finfo(dtype).eps, 1.0], dtype=dtype)
    assert gumbel(ends).isfinite().all()


def after_two(built: CommitmentPlan, states: Tensor, drawn: Tensor) -> Decision:
    """The decision of a second step, whose switch is free, with the first slot chosen before it."""
    carried = built.start(states)
    carried = Commitment(carried.logits, carried.recompute, carried.penalised, torch.zeros_like(carried.first))
    return built.step(states, None, carried, drawn, held=False)[0]


def test_the_straight_through_switch_is_zero_or_one_and_has_the_soft_gradient() -> None:
    built, drawn = plan(temperature="learned"), noise(16, 3)
    state = normal(16, 3).requires_grad_()
    decision = after_two(built, state, drawn)
    assert decision.switch.requires_grad
    assert set(decision.switch.tolist()) == {0.0, 1.0}
    assert decision.switch.tolist() == (decision.soft.argmax(-1) == 0).double().tolist()
    weight = normal(16, seed=5)
    of = [state, *built.parameters()]
    hard = torch.autograd.grad((weight * decision.switch).sum(), of, retain_graph=True)
    soft = torch.autograd.grad((weight * decision.soft[:, 0]).sum(), of)
    for a, b in zip(hard, soft, strict=True):
        assert a.abs().sum() > 0
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_reinforce_gives_the_log_probability_of_the_choice_and_no_gradient_through_the_switch() -> None:
    built, drawn = plan(estimator="reinforce"), noise(16, 3)
    state = normal(16, 3).requires_grad_()
    decision = after_two(built, state, drawn)
    choice = (state + drawn).argmax(-1)
    assert decision.switch.tolist() == (choice == 0).double().tolist()
    assert not decision.switch.requires_grad
    expected = state.log_softmax(-1)[torch.arange(16), choice]
    torch.testing.assert_close(decision.log_prob, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(decision.soft, state.softmax(-1), rtol=0, atol=1e-14)
    (gradient,) = torch.autograd.grad(decision.log_prob.sum(), state)
    one_hot = torch.nn.functional.one_hot(choice, 3)
    torch.testing.assert_close(gradient, one_hot - state.softmax(-1))  # ∇ log p = 1 − p on the choice, −p elsewhere


def test_a_commitment_that_sees_the_context_adds_its_projection() -> None:
    built = CommitmentPlan(3, 2, settings(temperature=1.0), layer_norm=False).double()
    with torch.no_grad():
        built.state.weight.copy_(torch.eye(3))
        built.state.bias.zero_()
        assert built.context is not None
        built.context.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    state = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    context = torch.tensor([[10.0, 20.0]], dtype=torch.float64)
    assert built.logits(state, context).tolist() == [[11.0, 22.0, 33.0]]


def test_a_plan_of_one_step_always_re_plans() -> None:
    built = CommitmentPlan(3, 0, settings(k=1), layer_norm=False).double()
    state = normal(4, 3)
    carried = built.start(state)
    for t in range(3):
        decision, carried = built.step(state, None, carried, noise(4, 1, seed=t), held=False)
        assert decision.switch.tolist() == [1.0] * 4
