"""Pictures: what the model looked at, what it planned to look at, and how it learned."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.font_manager import get_font_names
from matplotlib.patches import Rectangle

from pag.errors import InputError
from pag.generator import Output
from pag.textio import whole_file

SCRIPTS = (  # fonts for what the usual one lacks: the first of these that are installed
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC",
    "Hiragino Sans", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS",
)  # fmt: skip
REPLAN, FOLLOW = "#d1495b", "#30638e"
COLOURS = ("#30638e", "#d1495b", "#3c887e", "#edae49", "#7d5ba6", "#5c5c5c", "#9c6644", "#2a9d8f")
END_LABEL = "⏎"
WIDE = 40  # source positions that pictures side by side have room for
ABOVE = 18.0  # points that a title is moved up, over a line of its own for what else is said there
LETTERS = 13.0  # of a title, an inch


def families(installed: Iterable[str]) -> list[str]:
    """Fonts in the order in which a letter is looked for."""
    known = set(installed)
    return ["DejaVu Sans", *(name for name in SCRIPTS if name in known)]


matplotlib.rcParams["font.family"] = families(get_font_names())


def save(figure: Any, path: Path) -> Path:
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise InputError(f"{path}: pictures are .png, .svg or .pdf, not .{kind}")
    with whole_file(path) as place:
        figure.savefig(place, dpi=130, bbox_inches="tight", format=kind)
    plt.close(figure)
    return path


def labels(names: Sequence[str]) -> list[str]:
    """Axis labels: the end symbol as a sign, blanks made visible."""
    return [END_LABEL if name == "<end>" else (name.replace(" ", "␣") or "∅") for name in names]


def alignments(outputs: Sequence[tuple[str, Output]], path: Path) -> Path:
    """Heat maps of α, source across, output down; a tick at each step that re-planned."""
    heights = [max(1.6, 0.26 * len(output.tokens)) for _, output in outputs]
    width = min(24.0, 2.0 + 0.21 * max(len(output.source) for _, output in outputs))
    figure, rows = plt.subplots(
        len(outputs), 1, figsize=(width, sum(heights) + 1.1 * len(outputs)), squeeze=False, height_ratios=heights
    )
    for axes, (title, output) in zip(rows[:, 0], outputs, strict=True):
        _alignment(axes, title, output)
    figure.tight_layout()
    return save(figure, path)


def compare(outputs: Sequence[tuple[str, Output]], path: Path) -> Path:
    """The same source as several models read it: side by side, or where it is long one below the other."""
    if max(len(output.source) for _, output in outputs) > WIDE:
        return alignments(outputs, path)
    height = 1.6 + 0.2 * max(len(output.tokens) for _, output in outputs)
    width = sum(1.4 + 0.2 * len(output.source) for _, output in outputs)
    figure, row = plt.subplots(1, len(outputs), figsize=(width, height), squeeze=False)
    for axes, (title, output) in zip(row[0], outputs, strict=True):
        _alignment(axes, title, output)
    figure.tight_layout()
    return save(figure, path)


def _alignment(axes: Axes, title: str, output: Output) -> None:
    assert output.alignment is not None
    axes.imshow(output.alignment, aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    _names(axes, output.source)
    axes.set_yticks(range(len(output.tokens)), labels(output.tokens), fontsize=8)
    axes.set_title(_wrapped(title, axes), loc="left", fontsize=10, pad=ABOVE)
    axes.spines[:].set_visible(False)
    if output.switch is None:
        return
    steps = np.flatnonzero(output.switch > 0)
    axes.scatter(np.full(len(steps), -0.9), steps, marker=">", s=22, color=REPLAN, clip_on=False)
    axes.set_xlim(-1.5, len(output.source) - 0.5)
    rate = len(steps) / len(output.switch)
    told = f"▸ re-planned at {len(steps)} of {len(output.switch)} steps ({rate:.0%})"
    axes.annotate(told, (0, 1), (0, 5), "axes fraction", "offset points", fontsize=9, color=REPLAN)


def _wrapped(title: str, axes: Axes) -> str:
    """In lines about as wide as the picture is."""
    width = axes.get_position().width * axes.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    return fill(title, max(30, int(LETTERS * width)))


def _names(axes: Axes, names: Sequence[str]) -> None:
    size = 8 if len(names) <= 60 else 6
    axes.set_xticks(range(len(names)), labels(names), rotation=90, fontsize=size)
    axes.tick_params(length=0)


def plan(output: Output, path: Path, title: str = "", most: int = 16) -> Path:
    """The plan as a film strip: one frame per output step, k rows of intended attention in each.

    The top row is what is attended to now, the rows below are meant for the next steps. A frame's edge
    says whether the step made a new plan or followed the old one.
    """
    if output.plan is None or output.switch is None or output.commitment is None:
        raise InputError("this model keeps no plan to draw: its attention is not 'pag' (try `pag plot alignments`)")
    shown = min(most, len(output.tokens))
    k, positions = output.plan.shape[1:]
    size = (min(22.0, 4.0 + 0.2 * positions), 1.2 + shown * (0.35 + 0.085 * k))
    widths = [max(10, positions), max(3, 0.6 * k)]
    spaces = {"wspace": 0.03, "hspace": 0.45}
    figure, frames = plt.subplots(shown, 2, squeeze=False, figsize=size, width_ratios=widths, gridspec_kw=spaces)
    intended = softmax(output.plan[:shown])
    shade = PowerNorm(0.5, 0, float(intended.max()))  # so that faint intentions show too
    for t in range(shown):
        _frame(frames[t, 0], intended[t], shade, labels(output.tokens)[t], output.switch[t] > 0)
        _commitment(frames[t, 1], output, t, last=t == shown - 1)
    _names(frames[-1, 0], output.source)
    for axes in frames[:-1, 0]:
        axes.set_xticks([])
    left = len(output.tokens) - shown
    note = f"   ({left} more steps not shown)" if left else ""
    heading = f"{_wrapped(title + note, frames[0, 0])}\nwhat it means to look at, now (top row) and next"
    frames[0, 0].set_title(heading if title else "now (top row) and next", loc="left", fontsize=10, pad=ABOVE)
    frames[0, 1].set_title("commitment", loc="left", fontsize=9)
    return save(figure, path)


def softmax(logits: np.ndarray) -> np.ndarray:
    exponent = np.exp(logits - logits.max(-1, keepdims=True))
    return exponent / exponent.sum(-1, keepdims=True)


def _frame(axes: Axes, intended: np.ndarray, shade: PowerNorm, token: str, new: bool) -> None:
    axes.imshow(intended, aspect="auto", cmap="Purples", norm=shade, interpolation="nearest")
    axes.set_yticks([(len(intended) - 1) / 2], [f"{token}  {'re-plan' if new else 'follow'}"])
    axes.tick_params(length=0)
    axes.yaxis.get_ticklabels()[0].set(color=REPLAN if new else FOLLOW, fontsize=9)
    axes.spines[:].set(color=REPLAN if new else FOLLOW, linewidth=1.6)
    axes.add_patch(Rectangle((-0.5, -0.5), intended.shape[1], 1, fill=False, edgecolor="black", linewidth=0.8))


def _commitment(axes: Axes, output: Output, t: int, last: bool) -> None:
    assert output.commitment is not None
    values = output.commitment[t]
    colours = [REPLAN if i == 0 else "#9aa5b1" for i in range(len(values))]
    axes.bar(range(len(values)), values, color=colours)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_xticks(
        range(len(values)) if last else [], [str(i) for i in range(len(values))] if last else [], fontsize=7
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def curves(models: Sequence[tuple[str, Sequence[list[dict[str, Any]]]]], metrics: Sequence[str], path: Path) -> Path:
    """One panel per validation metric; a colour and dashes per model, a line per run of it."""
    figure, row = plt.subplots(1, len(metrics), figsize=(5.2 * len(metrics), 3.6), squeeze=False)
    for axes, metric in zip(row[0], metrics, strict=True):
        for look, (name, runs) in zip(_looks(len(models)), models, strict=True):
            for number, events in enumerate(runs):
                points = _points(events, metric)
                label = name if number == 0 else None
                if points:
                    axes.plot(*zip(*points, strict=True), label=label, linewidth=1.4, alpha=0.8, **look)
        axes.set(xlabel="updates", title=metric.replace("_", " "))
        axes.grid(alpha=0.25)
        if metric in ("loss", "perplexity"):
            widen(axes)
    figure.tight_layout()
    if len(models) <= 6:
        row[0, 0].legend(fontsize=8, frameon=False)
    else:  # they would hide the curves
        lines, names = row[0, 0].get_legend_handles_labels()
        figure.legend(lines, names, fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)
    return save(figure, path)


def widen(axes: Axes) -> None:
    """A scale of powers of ten where the values drawn span more than one."""
    values = [float(value) for line in axes.lines for value in np.asarray(line.get_ydata())]
    values += [float(y) for dots in axes.collections for y in np.asarray(dots.get_offsets())[:, 1]]
    if values and max(values) > 10 * min(values) > 0:
        axes.set_yscale("log")


def _points(events: list[dict[str, Any]], metric: str) -> list[tuple[int, float]]:
    """Validation by update; not the untrained model, beside which all others look alike, unless there is no other."""
    points = [(e["update"], e[metric]) for e in events if e["kind"] == "valid" and metric in e]
    return points[1:] if len(points) > 1 and points[0][0] == 0 else points


def _looks(count: int) -> list[dict[str, str]]:
    """A colour each; when they run out, the same ones dashed, and so on."""
    pairs = [(style, colour) for style in ("-", "--", ":", "-.") for colour in COLOURS]
    return [{"linestyle": style, "color": colour} for style, colour in itertools.islice(itertools.cycle(pairs), count)]
