"""Histograms of lengths, drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

LENGTHS = "lengths.png"
LONGEST = 1000  # longer ones are counted with this one


def counted(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """How often each length occurs, up to the longest [LONGEST + 1]."""
    return np.bincount(np.minimum(np.asarray(lengths, np.int64), LONGEST), minlength=LONGEST + 1)


def draw_lengths(counts: Mapping[str, tuple[np.ndarray, np.ndarray]], units: tuple[str, str], path: Path) -> None:
    """Both sides' lengths, one row a split."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.6 + 1.8 * len(counts)))
    rows = figure.subplots(len(counts), 2, squeeze=False, gridspec_kw={"hspace": 0.6, "wspace": 0.25})
    for axes, (split, sides) in zip(rows, counts.items(), strict=True):
        for place, side, unit in zip(axes, sides, units, strict=True):
            place.stairs(*_histogram(side), fill=True, color="#30638e")
            place.set_title(f"{split}: {unit}", loc="left", fontsize=9)
            place.locator_params(nbins=5)
            place.tick_params(labelsize=8)
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})


def _histogram(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """About fifty bins: counts, and one edge more."""
    longest = int(np.flatnonzero(lengths).max(initial=0))
    width = max(1, (longest + 1) // 50)
    starts = np.arange(0, longest + 1, width)
    return np.add.reduceat(lengths[: longest + 1], starts), np.append(starts, starts[-1] + width)
