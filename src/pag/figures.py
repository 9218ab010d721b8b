"""Figures of the documentation that show the mechanism itself and need no trained model.

`mechanism` draws one step of PAG, after the paper's Figure 1: the plan so far is followed or
re-planned, as the commitment's switch says; its first row is the alignment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

# The figure brings its own light card, so that it reads the same on a light and on a dark page.
CARD, INK, QUIET = "#fbfaf7", "#22303c", "#65727e"
REPLAN, FOLLOW = "#d1495b", "#30638e"
HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#9cc0dc", "#1f4e79"])
WIDTH, HEIGHT = 151.5, 74.0
CELL = 2.8

Point = tuple[float, float]
Rows = Sequence[Sequence[float]]

# Plans over six source positions, as shades; the last step re-plans, so A_t is the re-planned one.
BEFORE: Rows = [
    [0.20, 0.90, 0.25, 0.05, 0.00, 0.00],
    [0.05, 0.35, 0.95, 0.20, 0.05, 0.00],
    [0.00, 0.10, 0.45, 0.85, 0.20, 0.05],
    [0.05, 0.05, 0.20, 0.55, 0.50, 0.20],
]
SHIFTED: Rows = [*BEFORE[1:], [0.0] * 6]
RENEWED: Rows = [
    [0.05, 0.10, 0.40, 0.95, 0.15, 0.05],
    [0.00, 0.05, 0.10, 0.35, 1.00, 0.15],
    [0.05, 0.00, 0.05, 0.15, 0.75, 0.45],
    [0.00, 0.00, 0.00, 0.05, 0.25, 0.95],
]
ALIGNMENT = (0.03, 0.05, 0.18, 0.62, 0.08, 0.04)
COMMITMENT = (0.62, 0.08, 0.20, 0.10)


@dataclass(frozen=True)
class Pen:
    """Draws on one pair of axes, in the figure's own units."""

    axes: Axes

    def text(self, at: Point, words: str, size: float = 11, colour: str = INK, **more: Any) -> None:
        style: dict[str, Any] = {"fontsize": size, "color": colour, "ha": "center", "va": "center"}
        self.axes.text(*at, words, **style | more)

    def box(self, corner: Point, width: float, height: float, edge: str = QUIET, face: str = "white") -> None:
        style = "round,pad=0,rounding_size=1.3"
        self.axes.add_patch(
            FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=face, edgecolor=edge, linewidth=1.3)
        )

    def pill(self, centre: Point, words: str) -> None:
        """Something kept from the step before."""
        x, y = centre
        self.axes.add_patch(
            FancyBboxPatch(
                (x - 3.4, y - 1.7), 6.8, 3.4, boxstyle="round,pad=0,rounding_size=1.7",
                facecolor="#f0eee8", edgecolor=QUIET, linewidth=1.0, linestyle=(0, (3, 2)),
            )
        )  # fmt: skip
        self.text(centre, words, 10.5)

    def arrow(self, *points: Point, colour: str = INK, head: bool = True, width: float = 1.5) -> None:
        """A line through the points; its head touches the last one."""
        if len(points) > 2 or not head:
            until = points[:-1] if head else points
            self.axes.plot(*zip(*until, strict=True), color=colour, linewidth=width, solid_joinstyle="round")
        if head:
            style = {"arrowstyle": "-|>,head_width=0.26,head_length=0.5", "color": colour, "linewidth": width}
            self.axes.annotate("", xy=points[-1], xytext=points[-2], arrowprops=style | {"shrinkA": 0, "shrinkB": 0})

    def cells(self, corner: Point, rows: Rows, first: bool = True) -> None:
        """A matrix of shades whose lower left corner is `corner`; a frame marks the first row."""
        x, y = corner
        for i, row in enumerate(reversed(rows)):
            for j, shade in enumerate(row):
                self.axes.add_patch(
                    Rectangle((x + j * CELL, y + i * CELL), CELL, CELL, facecolor=HEAT(shade), edgecolor="#c9d1d8",
                              linewidth=0.7)
                )  # fmt: skip
        if first:
            top = y + (len(rows) - 1) * CELL
            self.axes.add_patch(
                Rectangle((x, top), len(rows[0]) * CELL, CELL, fill=False, edgecolor=INK, linewidth=1.8)
            )


def mechanism(path: Path) -> Path:
    """Draw one step of the planning mechanism to a picture file and return where it is."""
    with matplotlib.rc_context({"mathtext.fontset": "dejavusans", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(WIDTH / 10, HEIGHT / 10), facecolor=CARD)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT), frame_on=False, xticks=[], yticks=[])
        pen = Pen(axes)
        for part in PARTS:
            part(pen)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    return path


def _annotations(pen: Pen) -> None:
    pen.box((36, 3.6), 28, 9.4, edge="#c9d1d8")
    for j in range(6):
        x = 38.4 + j * 4.0
        pen.box((x, 7.4), 3.2, 4.4, face="#e4eef5", edge=FOLLOW)
        pen.text((x + 1.6, 9.6), f"$h_{j + 1}$", 10.5)
        pen.text((x + 1.6, 5.6), f"$x_{j + 1}$" if j < 5 else "end", 9, QUIET)
    pen.text((34.6, 9.6), "annotations", 11.5, weight="bold", ha="right")
    pen.text((34.6, 5.6), "bidirectional encoder", 9, QUIET, ha="right")
    pen.arrow((50, 13), (50, 17.5))
    pen.arrow((64, 9.6), (112, 9.6), (112, 34.8))


def _before(pen: Pen) -> None:
    pen.cells((4, 36), BEFORE, first=False)
    pen.text((12.4, 52.2), "plan so far", 11.5, weight="bold")
    pen.text((12.4, 49.3), "$A_{t-1}$", 12)
    pen.text((12.4, 34.0), "rows: the next $k$ steps", 9, QUIET)
    pen.text((12.4, 31.6), "columns: source positions", 9, QUIET)
    pen.arrow((20.8, 41.6), (26, 41.6), head=False)
    pen.arrow((26, 41.6), (26, 58), (36, 58), colour=FOLLOW)
    pen.arrow((26, 41.6), (26, 28.5), (36, 28.5), colour=REPLAN)
    pen.text((27, 59.8), r"shift $\rho$", 10, FOLLOW, ha="left")
    pen.text((27, 30.4), r"read $\beta_j$", 10, REPLAN, ha="left")


def _follow(pen: Pen) -> None:
    pen.box((36, 47), 28, 22, edge=FOLLOW)
    pen.text((50, 66.2), "follow", 11.5, FOLLOW, weight="bold")
    pen.text((50, 63.2), r"$\rho(A_{t-1})$", 11.5)
    pen.cells((41.6, 49.5), SHIFTED)


def _replan(pen: Pen) -> None:
    pen.box((36, 17.5), 28, 22, edge=REPLAN)
    pen.text((50, 36.7), "re-plan", 11.5, REPLAN, weight="bold")
    pen.text((50, 33.7), r"$(1-u_t)\odot A_{t-1}+u_t\odot\bar{A}_t$", 11)
    pen.cells((41.6, 20), RENEWED)
    for x, words in ((7.4, "$s_{t-1}$"), (15.4, "$y_{t-1}$"), (23.4, r"$\psi_{t-1}$")):
        pen.pill((x, 22.6), words)
    for left, right in ((10.8, 12.0), (18.8, 20.0)):
        pen.arrow((left, 22.6), (right, 22.6), head=False)
    pen.arrow((26.8, 22.6), (36, 22.6))
    pen.text((15.4, 19.2), "kept from the step before", 9, QUIET)


def _commitment(pen: Pen) -> None:
    pen.cells((75.6, 62.0), [COMMITMENT], first=False)
    pen.axes.add_patch(Rectangle((75.6, 62.0), CELL, CELL, fill=False, edgecolor=INK, linewidth=1.8))
    pen.text((81.2, 70.4), "commitment plan  $c_t$", 11.5, weight="bold")
    pen.text((81.2, 67.2), "recomputed or shifted, like the plan", 9, QUIET)
    pen.pill((69.2, 63.4), "$s_{t-1}$")
    pen.arrow((72.6, 63.4), (75.6, 63.4))
    pen.arrow((77, 62.0), (77, 39.9))
    pen.text((78.2, 59.2), r"$g_t=\bar{c}_t[0]$", 11.5, ha="left")


def _switch(pen: Pen) -> None:
    """Two contacts on the left, the lever's pivot on the right; the lever lies on re-planning."""
    up, down, pivot = (72.5, 46.5), (72.5, 36.7), (80.5, 41.6)
    pen.arrow((64, 58), (68, 58), (68, up[1]), up, colour=FOLLOW, head=False)
    pen.arrow((64, 28.5), (68, 28.5), (68, down[1]), down, colour=REPLAN, head=False)
    pen.arrow(down, pivot, head=False, width=3.2)
    for at, colour in ((up, FOLLOW), (down, REPLAN), (pivot, INK)):
        pen.axes.add_patch(Circle(at, 0.9, facecolor=colour, edgecolor="white", linewidth=1, zorder=3))
    pen.text((69.2, 48.8), "$g_t=0$", 10, FOLLOW, ha="left")
    pen.text((69.2, 34.4), "$g_t=1$", 10, REPLAN, ha="left")


def _plan(pen: Pen) -> None:
    pen.arrow((81.4, 41.6), (86, 41.6))
    pen.cells((86, 36), RENEWED)
    pen.text((94.4, 33.6), "plan  $A_t$", 11.5, weight="bold")
    for i, words in enumerate(("now", "$t+1$", "$t+2$", "$t+3$")):
        pen.text((103.6, 45.8 - i * CELL), words, 9, INK if i == 0 else QUIET, ha="left")


def _alignment(pen: Pen) -> None:
    pen.arrow((94.4, 47.2), (94.4, 50.6))
    pen.text((95.6, 48.8), "softmax", 9, QUIET, ha="left")
    pen.axes.add_patch(Rectangle((86, 50.6), 6 * CELL, 6.6, facecolor="white", edgecolor=QUIET, linewidth=1.2))
    for j, weight in enumerate(ALIGNMENT):
        pen.axes.add_patch(Rectangle((86.3 + j * CELL, 50.6), CELL - 0.6, 9 * weight, facecolor="#1f4e79"))
    pen.text((94.4, 59.2), r"alignment  $\alpha_t$", 11.5, weight="bold")
    pen.arrow((102.8, 53.9), (112, 53.9), (112, 39.2))


def _context(pen: Pen) -> None:
    pen.axes.add_patch(Circle((112, 37), 2.2, facecolor="white", edgecolor=INK, linewidth=1.5, zorder=3))
    pen.text((112, 36.9), r"$\Sigma$", 13, zorder=4)
    pen.text((110.6, 27.4), "context", 11.5, weight="bold", ha="right")
    pen.text((110.6, 24.2), r"$\psi_t=\Sigma_j\,\alpha_{tj}\,h_j$", 11.5, ha="right")
    pen.arrow((114.2, 37), (119, 37), head=False)
    pen.arrow((119, 22), (119, 52), head=False)
    for y in (22.0, 37.0, 52.0):
        pen.arrow((119, y), (123, y))
    pen.text((116.7, 38.9), r"$\psi_t$", 11)


def _decoder(pen: Pen) -> None:
    for y, words, name in ((18.0, "$s'_t$", "lower GRU"), (33.0, "$s_t$", "upper GRU")):
        pen.box((123, y), 15, 8, edge=INK, face="#eef3ea")
        pen.text((130.5, y + 5.2), words, 12.5)
        pen.text((130.5, y + 2.0), name, 9, QUIET)
    pen.box((123, 48), 15, 8, edge=INK, face="#f6efdc")
    pen.text((130.5, 53.2), "deep output", 11, weight="bold")
    pen.text((130.5, 50.0), r"of $s'_t,\,s_t,\,y_{t-1},\,\psi_t$", 9, QUIET)
    pen.text((130.5, 64.2), "$p(y_t)$", 12.5)
    for below, above in ((13.0, 18.0), (26.0, 33.0), (41.0, 48.0), (56.0, 62.0)):
        pen.arrow((130.5, below), (130.5, above))
    pen.pill((130.5, 11.3), "$y_{t-1}$")
    for y, words in ((22.0, "$s'_{t-1}$"), (37.0, "$s_{t-1}$")):
        pen.pill((144.6, y), words)
        pen.arrow((141.2, y), (138, y))


PARTS = (_annotations, _before, _follow, _replan, _commitment, _switch, _plan, _alignment, _context, _decoder)
