"""How far runs differ, and whether a difference between two sides is more than that."""

import statistics
from collections.abc import Sequence

T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)  # Student's t, two-sided, by degrees of freedom


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the standard deviation between runs where there are several."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def compared(first: Sequence[float], second: Sequence[float]) -> tuple[float, float | None]:
    """The difference of the means, and its standard error where both sides have several runs."""
    difference = statistics.fmean(first) - statistics.fmean(second)
    if min(len(first), len(second)) < 2:
        return difference, None
    squares = sum(statistics.variance(side) * (len(side) - 1) for side in (first, second))
    pooled = squares / (len(first) + len(second) - 2)
    return difference, (pooled * (1 / len(first) + 1 / len(second))) ** 0.5


def sure(difference: float, error: float, runs: int) -> bool:
    """Student's t test at 95 %, for so many runs on both sides together."""
    return abs(difference) > T95[min(runs - 2, len(T95)) - 1] * error
