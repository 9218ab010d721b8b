"""States: frozen records of tensors that follow a beam."""

from dataclasses import FrozenInstanceError, dataclass

import pytest
import torch
from torch import Tensor

from pag.state import State, exact, stack


@dataclass(frozen=True)
class Inner(State):
    marks: Tensor


@dataclass(frozen=True)
class Outer(State):
    values: Tensor
    inner: Inner
    maybe: Tensor | None = None
    name: str = "fixed"


def outer(*values: float) -> Outer:
    numbers = torch.tensor(values)
    return Outer(numbers, Inner(numbers > 1))


def test_select_takes_rows_in_order_and_as_often_as_asked_at_every_depth() -> None:
    chosen = outer(0.0, 1.0, 2.0).select(torch.tensor([2, 0, 2, 2]))
    assert chosen.values.tolist() == [2.0, 0.0, 2.0, 2.0]
    assert chosen.inner.marks.tolist() == [True, False, True, True]


def test_select_twice_is_select_of_the_selected_rows() -> None:
    first, second = torch.tensor([2, 0, 1]), torch.tensor([1, 1, 2])
    once = outer(5.0, 6.0, 7.0).select(first[second])
    twice = outer(5.0, 6.0, 7.0).select(first).select(second)
    assert once.values.tolist() == twice.values.tolist()


def test_select_of_no_rows_is_empty_and_keeps_the_other_dimensions() -> None:
    assert Inner(torch.zeros(3, 4, 5)).select(torch.tensor([], dtype=torch.long)).marks.shape == (0, 4, 5)


def test_what_is_not_a_tensor_stays() -> None:
    chosen = outer(1.0).select(torch.tensor([0, 0]))
    assert chosen.maybe is None and chosen.name == "fixed"


def test_a_state_cannot_be_changed_and_select_leaves_it_alone() -> None:
    state = outer(1.0, 2.0)
    state.select(torch.tensor([1]))
    assert state.values.tolist() == [1.0, 2.0]
    with pytest.raises(FrozenInstanceError):
        state.values = torch.zeros(2)  # type: ignore[misc]


def test_map_keeps_the_type_of_the_state() -> None:
    changed = outer(1.0, 2.0).map(lambda x: x.double() + 1)
    assert isinstance(changed, Outer) and isinstance(changed.inner, Inner)
    assert changed.values.tolist() == [2.0, 3.0]
    assert changed.to("cpu").values.dtype == torch.float64


def test_stack_puts_time_second_at_every_depth() -> None:
    steps = stack([outer(1.0, 2.0), outer(3.0, 4.0), outer(5.0, 6.0)])
    assert steps.values.tolist() == [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    assert steps.inner.marks.shape == (2, 3)
    assert steps.maybe is None and steps.name == "fixed"


def test_stack_then_select_is_select_then_stack() -> None:
    steps, rows = [outer(1.0, 2.0), outer(3.0, 4.0)], torch.tensor([1, 1, 0])
    assert stack(steps).select(rows).values.tolist() == stack([s.select(rows) for s in steps]).values.tolist()


@pytest.mark.parametrize(
    ("given", "kept"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_states_are_kept_in_at_least_float32(given: torch.dtype, kept: torch.dtype) -> None:
    assert exact(torch.zeros(1, dtype=given)) == kept
