"""What was measured, row by row, and how many times as fast that is."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pag.bench.timing import Contestant, Timing

JOEYNMT, PLAIN = "joeynmt", "reference"


@dataclass(frozen=True)
class Row:
    section: str  # train, update, decode, replan, scaling or ragged
    task: str  # "forward + backward", "greedy", "beam 5", …
    model: str
    backend: str
    precision: str
    sizes: dict[str, Any]
    ms: float | None  # median; None where nothing ran, and the note says why
    low: float | None = None  # quartiles
    high: float | None = None
    times: list[float] = field(default_factory=list)  # every run's milliseconds, in order
    amount: float = 0.0  # target tokens or sentences of one run
    unit: str = ""  # of the amount
    peak_mib: float | None = None
    reserved_mib: float | None = None
    over_loop: float | None = None  # times as fast as the plain loop of the same model
    over_joeynmt: float | None = None  # times as fast as JoeyNMT
    over_pass: float | None = None  # an update's time divided by that of its forward + backward alone
    note: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def per_second(self) -> float | None:
        return None if self.ms is None else 1000 * self.amount / self.ms

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "per_second": self.per_second}


def row_of(
    contestant: Contestant, timing: Timing, section: str, task: str, precision: str, sizes: dict[str, Any],
    amount: float, unit: str,
) -> Row:  # fmt: skip
    row = Row(
        section, task, contestant.model, contestant.backend, precision, sizes, None, amount=amount, unit=unit,
        note=contestant.note,
    )  # fmt: skip
    if timing.error or not timing.times:
        return replace(row, note=timing.error)
    low, high = timing.quartiles
    return replace(
        row, ms=timing.median, low=low, high=high, times=[round(t, 3) for t in timing.times], peak_mib=timing.peak_mib,
        reserved_mib=timing.reserved_mib,
    )  # fmt: skip


def compare(rows: Sequence[Row]) -> list[Row]:
    """Fill in every ratio: of medians, against rows of the same race."""

    def ratio(row: Row, other: Callable[[Row], bool]) -> float | None:
        against = [r.ms for r in rows if _same_race(r, row) and other(r) and r.ms is not None]
        return against[0] / row.ms if against and row.ms else None

    return [
        replace(
            row,
            over_loop=ratio(row, lambda r, row=row: r.model == row.model and r.backend == PLAIN),  # type: ignore[misc]
            over_joeynmt=ratio(row, lambda r: r.model == JOEYNMT),
        )
        for row in rows
    ]


def _same_race(left: Row, right: Row) -> bool:
    def race(row: Row) -> tuple[Any, ...]:
        return row.section, row.task, row.precision, sorted(row.sizes.items())

    return race(left) == race(right)
