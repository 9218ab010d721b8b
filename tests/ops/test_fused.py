"""The fused pass in plain PyTorch against the reference, in float64: outputs and every gradient."""

import pytest
import torch
from torch import Tensor
from unroll_cases import Case, differences, outputs, worst

from pag.ops.unroll import contexts, fused, reference
from pag.ops.unroll.looks import Rows
from pag.ops.unroll.packing import describe, pack

EXACT = 1e-10
COMMITTED = ["pag", "rpag"]
EVERY = ["baseline", *COMMITTED]


def assert_equal(case: Case, noisy: bool = True, held: bool = False) -> None:
    found = case.run(fused.unroll, noisy, held)
    expected = case.run(reference.unroll, noisy, held)
    name, distance = worst(found, expected)
    assert distance < EXACT, f"{name} is off by {distance:.1e}"


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("plans_from", ["upper", "lower"])
@pytest.mark.parametrize("name", EVERY)
def test_the_fused_pass_is_the_reference_in_everything(
    name: str, plans_from: str, layer_norm: bool, projected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether contexts are multiplied at every step or annotations before all of them."""
    monkeypatch.setattr(contexts, "WORTH", 0 if projected else 100)
    assert_equal(Case(name, layer_norm, plans_from=plans_from))


@pytest.mark.parametrize(("positions", "kind"), [(22, contexts.Projected), (23, contexts.Contexts)])
def test_annotations_of_two_columns_a_position_are_multiplied_beforehand(positions: int, kind: type) -> None:
    case = Case("baseline", positions=positions)
    layout = describe(case.decoder, case.tokens, case.memory(), False)
    assert type(contexts.contexts(layout, pack(case.decoder, case.tokens, case.memory()))) is kind


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", COMMITTED)
def test_a_held_switch_is_the_reference_s(name: str, layer_norm: bool) -> None:
    assert_equal(Case(name, layer_norm), held=True)


@pytest.mark.parametrize("temperature", ["learned", 0.7])
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize("name", COMMITTED)
def test_every_estimator_and_temperature_is_the_reference_s(
    name: str, estimator: str, temperature: str | float
) -> None:
    assert_equal(Case(name, estimator=estimator, temperature=temperature))


@pytest.mark.parametrize("name", COMMITTED)
def test_the_price_on_re_planning_reaches_everything_that_the_reference_s_does(name: str) -> None:
    case = Case(name)
    found, expected = case.price(fused.unroll), case.price(reference.unroll)
    assert (
        expected["attention.commitment.state.weight"].any() and expected["attention.commitment.temperature.bias"].any()
    )
    assert max(differences(found, expected).values()) < EXACT


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_gate_that_does_not_see_the_context_is_the_reference_s(layer_norm: bool) -> None:
    assert_equal(Case("pag", layer_norm, gate_context=False))


@pytest.mark.parametrize("name", EVERY)
def test_without_noise_the_fused_pass_is_the_reference(name: str) -> None:
    assert_equal(Case(name), noisy=False)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("sizes", [{"rows": 1}, {"steps": 1}, {"positions": 1}])
def test_single_rows_steps_and_positions_are_the_reference_s(name: str, sizes: dict[str, int]) -> None:
    assert_equal(Case(name, **sizes))


@pytest.mark.parametrize("name", COMMITTED)
def test_one_planned_step_is_the_reference_s(name: str) -> None:
    assert_equal(Case(name, k=1))


@pytest.mark.parametrize("name", EVERY)
def test_padding_gets_exactly_nothing(name: str) -> None:
    case = Case(name)
    alignment = case.run(fused.unroll)["alignment"].transpose(1, 2)  # [B, S, T]
    assert not alignment[~case.mask].any() and not case.annotations.grad[~case.mask].any()  # type: ignore[index]


@pytest.mark.parametrize("name", COMMITTED)
def test_the_cases_both_replan_and_follow(name: str) -> None:
    switch = Case(name).run(reference.unroll)["switch"]
    assert 0.05 < switch[:, 1:].mean() < 0.95


@pytest.mark.parametrize("name", EVERY)
def test_without_gradients_the_outputs_are_the_same(name: str) -> None:
    case = Case(name)
    with torch.no_grad():
        found = dict(outputs(fused.unroll(case.decoder, case.tokens, case.memory(), case.noise)))
        expected = dict(outputs(reference.unroll(case.decoder, case.tokens, case.memory(), case.noise)))
    assert max(differences(found, expected).values()) < EXACT


def test_a_pass_without_gradients_keeps_one_step_alone() -> None:
    case = Case("pag")
    layout, packed = (
        describe(case.decoder, case.tokens, case.memory(), False),
        pack(case.decoder, case.tokens, case.memory()),
    )
    for keep, steps in ((True, 13), (False, 1)):
        loop = fused.Loop(layout, packed.map(Tensor.detach), case.mask, None, keep)
        assert [len(x) for x in (loop.look.moving, loop.look.candidate, loop.upper_cell.gates)] == [steps] * 3
        assert len(loop.forward()[0]) == 13


def test_the_way_back_takes_only_the_rows_that_looked() -> None:
    everyone, some = Rows.where(torch.tensor([True, True])), Rows.where(torch.tensor([True, False, True]))
    assert everyone.numbers is None and some.numbers.tolist() == [0, 2]
    assert some.take(torch.tensor([5, 6, 7])).tolist() == [5, 7]
    assert some.spread(torch.tensor([5, 7]), 3).tolist() == [5, 0, 7]


@pytest.mark.parametrize("name", EVERY)
def test_a_second_backward_pass_gives_the_same_gradients(name: str) -> None:
    case = Case(name, layer_norm=True)
    trace = fused.unroll(case.decoder, case.tokens, case.memory(), case.noise)
    total = trace.upper.sum() + trace.glimpses.context.sum()
    leaves = list(case.leaves().values())
    once = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
    again = torch.autograd.grad(total, leaves, allow_unused=True)
    for first, second in zip(once, again, strict=True):
        assert (first is None and second is None) or torch.equal(first, second)


def test_a_recorded_pass_carries_plan_and_gate() -> None:
    case = Case("pag")
    glimpses = fused.unroll(case.decoder, case.tokens, case.memory(), case.noise, record=True).glimpses
    assert glimpses.plan is not None and glimpses.plan.shape == (5, 13, 7, 37)
    assert glimpses.gate is not None and glimpses.gate.shape == (5, 13, 7, 37)


@pytest.mark.parametrize("name", EVERY)
def test_float32_stays_near_float64(name: str) -> None:
    """Noise decides nearly alone here, so that rounding cannot flip a choice."""
    case = Case(name, layer_norm=True)
    case.noise *= 8
    expected = case.run(reference.unroll)
    name, distance = worst(case.to("cpu", torch.float32).run(fused.unroll), expected)
    assert distance < 1e-4, f"{name} is off by {distance:.1e}"
