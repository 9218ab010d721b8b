"""A price on re-plans that yields: asked for in full, not at all, or by half, as validation says."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

import pag.train
from pag.checkpoint import Checkpoint
from pag.progress import Price, Progress
from pag.run import read_log
from pag.validate import Validation
from test_train import interrupt_at
from tiny import tiny, train


def prices(values: Sequence[float], direction: int = 1, guard: float = 0.1) -> list[float]:
    price, found = Price(), []
    for value in values:
        price = price.after(value, direction, guard, held=False)
        found.append(price.now)
    return found


def test_a_score_that_falls_too_far_makes_re_plans_free_until_it_is_back_and_then_half_as_dear() -> None:
    assert prices([0.5, 1.0, 0.91, 0.89, 0.2, 0.91, 0.89, 1.0]) == [1.0, 1.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.25]


def test_a_loss_that_rises_too_far_does_the_same() -> None:
    assert prices([2.0, 1.0, 1.09, 1.11, 1.09], direction=-1) == [1.0, 1.0, 1.0, 0.0, 0.5]


def test_just_as_much_as_is_allowed_is_not_too_much() -> None:
    assert prices([1.0, 0.98, 0.979], guard=0.02) == [1.0, 1.0, 0.0]


def test_what_a_model_with_its_switch_held_reached_is_the_goal_but_costs_it_nothing() -> None:
    price = Price().after(1.0, 1, 0.1, held=True).after(0.5, 1, 0.1, held=True)
    assert price == Price(goal=1.0)
    assert price.after(0.8, 1, 0.1, held=False) == Price(0.5, True, 1.0)


def test_a_run_saved_before_there_were_prices_goes_on() -> None:
    progress = Progress(update=3, price=Price(0.5, True, 0.9))
    kept = json.loads(json.dumps(asdict(progress)))
    assert Progress.read(json.dumps(kept).encode()) == progress
    del kept["price"]
    assert Progress.read(json.dumps(kept).encode()).price == Price()


GUARDED = tiny(
    train={"max_updates": 12, "validate_every": 2, "save_every": 2, "monitor": "exact"},
    attention={"hold_updates": 2},
    loss={"replan_rate": 0.1, "replan_weight": 0.4, "replan_guard": 0.1},
)


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """What validation finds at which update."""
    found = {2: 1.0, 4: 0.95, 6: 0.3, 8: 0.92, 10: 1.0, 12: 0.5}

    def validate(*given: object) -> Validation:
        update = trainers[-1].progress.update
        return Validation({"loss": 1.0, "exact": found[update]}, [], [])

    trainers: list[pag.train.Trainer] = []
    start = pag.train.Trainer.__init__
    monkeypatch.setattr(pag.train.Trainer, "__init__", lambda self, *a: (trainers.append(self), start(self, *a))[1])
    monkeypatch.setattr(pag.train, "validate", validate)
    return found


def test_a_guarded_run_keeps_the_last_model_that_is_good_enough(
    tmp_path: Path, scores: dict[int, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = [], []
    of, say = pag.train.Gradients.of, pag.train.Trainer.say
    monkeypatch.setattr(
        pag.train.Gradients, "of", lambda self, loaded, course: (asked.append(course), of(self, loaded, course))[1]
    )
    monkeypatch.setattr(pag.train.Trainer, "say", lambda self, text: (told.append(text), say(self, text))[1])
    train(tmp_path, GUARDED)
    assert [course.replan_weight for course in asked] == [0.0] * 2 + [0.4] * 4 + [0.0] * 2 + [0.2] * 4
    assert Checkpoint(tmp_path / "checkpoints" / "best").config["update"] == 10
    assert len(told) == 2 and told[0].startswith(
        "exact is more than 10 % worse than its best, 1: re-plans cost nothing"
    )


def test_a_model_without_a_plan_has_no_price_to_yield(tmp_path: Path, scores: dict[int, float]) -> None:
    plain = GUARDED.model_copy(update={"attention": GUARDED.attention.model_copy(update={"name": "baseline"})})
    train(tmp_path, plain)
    progress = json.loads((tmp_path / "checkpoints" / "last" / "progress.json").read_text())
    assert progress["price"] == asdict(Price())
    assert Checkpoint(tmp_path / "checkpoints" / "best").config["update"] == 2  # the first of the highest


def test_a_guarded_run_that_was_interrupted_goes_on_with_its_price(tmp_path: Path, scores: dict[int, float]) -> None:
    train(tmp_path / "whole", GUARDED)
    interrupt_at(7, tmp_path / "cut", GUARDED)
    train(tmp_path / "cut", GUARDED)
    whole, cut = (
        [(e["update"], e["replan_weight"], e["loss"]) for e in read_log(tmp_path / name) if e["kind"] == "train"]
        for name in ("whole", "cut")
    )
    assert whole == cut
