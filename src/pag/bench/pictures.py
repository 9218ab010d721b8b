"""The bar chart and the scaling plots of a benchmark."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from pag.bench.rows import Row
from pag.plots import COLOURS, save

AXES = {"target": "target length", "source": "source length", "batch": "batch", "k": "steps planned ahead, k"}
MODELS = ("joeynmt", "baseline", "rpag", "pag")
FAR = 20  # times as slow
COLOUR = dict(zip(MODELS, ("#8d99a6", COLOURS[0], COLOURS[2], COLOURS[1]), strict=True))


def bars(rows: Sequence[Row], path: Path) -> Path | None:
    """Milliseconds of every row that is no scaling row, one panel per section, precision and task."""
    panels: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.section != "scaling" and row.ms is not None:
            panels.setdefault((row.section, row.task, row.precision), []).append(row)
    if not panels:
        return None
    heights = [0.5 + 0.26 * len(panel) for panel in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(8, sum(heights) + 0.4 * len(panels)), squeeze=False, height_ratios=heights
    )
    for axis, (names, panel) in zip(axes[:, 0], panels.items(), strict=True):
        _bars(axis, panel)
        axis.set_title(", ".join(names), loc="left", fontsize=9)
    axes[-1, 0].set_xlabel("ms", fontsize=8)
    figure.tight_layout()
    return save(figure, path)


def _bars(axes: Axes, rows: Sequence[Row]) -> None:
    times = [row.ms or 0.0 for row in rows]
    spread = [
        [time - (row.low or time) for row, time in zip(rows, times, strict=True)],
        [(row.high or time) - time for row, time in zip(rows, times, strict=True)],
    ]
    colours = [COLOUR.get(row.model, COLOURS[5]) for row in rows]
    axes.barh(range(len(rows)), times, color=colours, xerr=spread, ecolor="#444444", error_kw={"lw": 0.8})
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25 * max(max(row.high or 0.0, time) for row, time in zip(rows, times, strict=True)))
    for at, (row, time) in enumerate(zip(rows, times, strict=True)):
        faster = "" if row.over_joeynmt is None or row.model == "joeynmt" else f"  {row.over_joeynmt:.1f} × JoeyNMT"
        axes.annotate(
            f"{_number(time)} ms{faster}", (max(row.high or 0.0, time), at), (4, 0), textcoords="offset points",
            va="center", fontsize=7,
        )  # fmt: skip
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _number(time: float) -> str:
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"


def _label(row: Row) -> str:
    if "replan_rate" in row.facts:
        return f"{row.model}, {row.facts['replan_rate']:.2f} re-planned"
    return row.model if row.backend == "search" else f"{row.model}, {row.backend}"


def scaling(rows: Sequence[Row], path: Path) -> Path | None:
    """Time against each size that was varied."""
    found = [row for row in rows if row.section == "scaling" and row.ms is not None]
    varied = list(dict.fromkeys(row.facts["axis"] for row in found))
    if not varied:
        return None
    figure, axes = plt.subplots(1, len(varied), figsize=(3.4 * len(varied), 3.2), squeeze=False)
    for axis, name in zip(axes[0], varied, strict=True):
        _lines(axis, [row for row in found if row.facts["axis"] == name])
        axis.set_xlabel(AXES[name], fontsize=9)
    axes[0, 0].set_ylabel("forward + backward, ms", fontsize=9)
    axes[0, 0].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return save(figure, path)


def _lines(axes: Axes, rows: Sequence[Row]) -> None:
    for model in [m for m in MODELS if any(row.model == m for row in rows)]:
        mine = [row for row in rows if row.model == model]
        label = f"{model}, {mine[0].backend}" if model != "joeynmt" else model
        axes.plot(
            [row.facts["value"] for row in mine], [row.ms or 0.0 for row in mine], "o-", ms=3.5, lw=1.4,
            color=COLOUR[model], label=label,
        )  # fmt: skip
    axes.set_xlim(left=0)
    times = [row.ms or 0.0 for row in rows]
    if max(times) > FAR * min(times):  # on one scale with the slowest, the others would be one line at the bottom
        axes.set_yscale("log")
        axes.set_ylim(bottom=10 ** math.floor(math.log10(min(times))))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:,.0f}"))
    else:
        axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
