import math

import pytest
import torch

from pag.config import TrainSettings
from pag.optim import MovingAverage, all_gradients, exchange, learning_rate


def rate(update: int, **settings: object) -> float:
    return learning_rate(
        TrainSettings.model_validate({"lr": 1.0, "max_updates": 110, "warmup": 10, **settings}), update
    )


def test_warmup_rises_to_the_full_rate() -> None:
    assert [rate(u) for u in (0, 4, 9, 10, 100)] == [0.1, 0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("schedule", "middle", "end"),
    [("linear", 0.5, 0.0), ("cosine", 0.5, 0.0), ("constant", 1.0, 1.0), ("inverse_sqrt", math.sqrt(10 / 61), None)],
)
def test_schedules_at_their_middle_and_end(schedule: str, middle: float, end: float | None) -> None:
    assert rate(60, schedule=schedule) == pytest.approx(middle)
    if end is not None:
        assert rate(110, schedule=schedule) == pytest.approx(end)


def test_inverse_square_root_has_no_jump_after_warmup() -> None:
    assert rate(10, schedule="inverse_sqrt") == pytest.approx(1.0, abs=0.06)


def test_exchange_adds_gradients_and_numbers_in_one_message() -> None:
    messages = []

    def twice(message: torch.Tensor) -> torch.Tensor:
        messages.append(message.numel())
        return 2 * message

    model = torch.nn.Linear(3, 2)
    model.weight.grad = torch.arange(6.0).view(2, 3)
    numbers = exchange(all_gradients(model), torch.tensor([5.0, 7.0]), twice)
    assert numbers.tolist() == [10.0, 14.0]
    assert torch.equal(model.weight.grad, 2 * torch.arange(6.0).view(2, 3))
    assert torch.equal(model.bias.grad, torch.zeros(2))
    assert messages == [6 + 2 + 2]


def test_the_moving_average_lags_behind_the_weights() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    average = MovingAverage.of(model, 0.9)
    torch.nn.init.ones_(model.weight)
    average.follow(model, 1000)
    assert average.weights["weight"].item() == pytest.approx(0.1)
    average.follow(model, 1000)
    assert average.weights["weight"].item() == pytest.approx(0.19)
