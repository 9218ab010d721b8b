"""Races and ratios, with times worked out by hand."""

import time
from typing import Any

import pytest

from pag.bench.rows import Row, compare, row_of
from pag.bench.sections import with_rate, with_share
from pag.bench.timing import Contestant, Timing, race


class Course:
    """A clock that only contestants move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def contestant(self, name: str, seconds: float, **more: Any) -> Contestant:
        def run() -> None:
            self.order.append(name)
            self.now += seconds

        return Contestant(name, "", run, **more)


def test_contestants_take_turns_after_two_runs_to_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(monkeypatch)
    fast, slow = race([course.contestant("a", 0.5), course.contestant("b", 2)], "cpu", 3, 100)
    assert "".join(course.order) == "aabb" + "ababab"
    assert fast.times == (500, 500, 500) and slow.times == (2000, 2000, 2000)


def test_a_slow_contestant_sits_out_once_it_has_run_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(monkeypatch)
    fast, slow = race([course.contestant("a", 1), course.contestant("b", 60)], "cpu", 10, 20)
    assert (len(fast.times), len(slow.times)) == (10, 3)


def test_resetting_is_not_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(monkeypatch)

    def reset() -> None:
        course.now += 1000

    [timing] = race([course.contestant("a", 1, reset=reset)], "cpu", 2, 100)
    assert timing.times == (1000, 1000)


def test_the_cpu_clock_reads_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(monkeypatch)
    monkeypatch.setattr(time, "process_time", lambda: 2 * course.now)
    [timing] = race([course.contestant("a", 1)], "cpu", 2, 100, "cpu")
    assert timing.times == (2000, 2000)


def test_a_contestant_that_cannot_run_says_why_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(monkeypatch)

    def fail() -> None:
        raise RuntimeError("no such kernel\nand a long story")

    broken = Contestant("x", "", fail)
    failed, fine = race([broken, course.contestant("a", 1)], "cpu", 2, 100)
    assert failed == Timing(error="failed: RuntimeError: no such kernel") and len(fine.times) == 2
    row = row_of(broken, failed, "train", "t", "float32", {}, 1, "tokens")
    assert row.ms is None and row.per_second is None and row.note == "failed: RuntimeError: no such kernel"


def test_median_and_quartiles() -> None:
    timing = Timing((50.0, 10.0, 20.0, 40.0, 30.0))
    assert timing.median == 30 and timing.quartiles == (20, 40)
    assert Timing((7.0,)).quartiles == (7, 7)


def row(model: str, backend: str, ms: float | None, precision: str = "float32", **sizes: int) -> Row:
    return Row("train", "forward + backward", model, backend, precision, sizes, ms, amount=960, unit="target tokens")


def test_ratios_are_of_medians_within_one_race() -> None:
    rows = compare(
        [
            row("joeynmt", "as it comes", 200, batch=16),
            row("joeynmt", "wider", 250, batch=16),
            row("pag", "reference", 300, batch=16),
            row("pag", "fused", 100, batch=16),
            row("baseline", "fused", 50, batch=16),
            row("pag", "fused", 10, "bfloat16", batch=16),
            row("pag", "fused", 10, batch=4),
        ]
    )
    assert [r.over_joeynmt for r in rows] == [1, 0.8, 200 / 300, 2, 4, None, None]
    assert [r.over_loop for r in rows] == [None, None, 1, 3, None, None, None]
    assert rows[3].per_second == 9600


def test_a_row_without_a_time_is_compared_with_nothing() -> None:
    first, second = compare([row("joeynmt", "", None), row("pag", "fused", 10)])
    assert first.over_joeynmt is None and second.over_joeynmt is None


def test_an_update_and_a_rate_are_given_as_shares() -> None:
    assert with_share(row("pag", "fused", 120), row("pag", "fused", 100)).over_pass == 1.2
    often, seldom = row("rpag", "search", 90), row("rpag", "search", 60)
    assert with_rate(seldom, 0.1, often).facts == {"replan_rate": 0.1, "over_always": 1.5}
