"""A table's pictures: learning curves of all its runs, and quality against what a study varies."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pag.reproduce.results import Results
from pag.reproduce.tables import Table


def pictures_of(name: str, table: Table) -> dict[str, str]:
    """The files that `draw` makes: what they show → file name."""
    found = {"learning curves": f"{name}-curves.png"}
    if table.against:
        found[f"{table.label} against {words(table.against)}"] = f"{name}-{table.against}.png"
    return found


def draw(name: str, table: Table, results: Results, folder: Path) -> list[Path]:
    if not results.every:
        return []
    from pag.plots import curves

    files = list(pictures_of(name, table).values())
    named = [(cell, [_events(run) for run in results.runs(cell)]) for cell in table.expanded() if results.runs(cell)]
    known = {metric for run in results.every for point in run["curve"] for metric in point}
    shown = [metric for metric in table.curves if metric in known] or ["loss"]
    drawn = [curves(named, shown, folder / files[0])]
    if table.against:
        drawn.append(scatter(table, results, folder / files[1]))
    return drawn


def _events(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"kind": "valid", **point} for point in run["curve"]]


@dataclass
class Panel:
    """One task of a study: what its metric is called, and the points of each model."""

    metric: str
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def panels(table: Table, results: Results) -> dict[str, Panel]:
    """By the folder of the recipes; a model that does not plan looks anew at every step."""
    assert table.against is not None
    found: dict[str, Panel] = {}
    for name, cell in ((name, cell) for name, cell in table.expanded().items() if cell.drawn):
        metric = words(cell.metric) + (", %" if cell.percent else "")
        panel = found.setdefault(cell.recipe.rpartition("/")[0] or cell.recipe, Panel(metric))
        for run in results.runs(name):
            scores = run["scores"][table.evaluate[0].name]
            point = (scores.get(table.against, 1.0), scores[cell.metric] * (100 if cell.percent else 1))
            panel.points.setdefault(run["summary"]["recipe"]["attention"]["name"], []).append(point)
    return {title: panel for title, panel in found.items() if panel.points}


def scatter(table: Table, results: Results, path: Path) -> Path:
    """A panel per task, a colour per model, a point per run."""
    import matplotlib.pyplot as plt

    from pag.plots import COLOURS, save

    drawn = panels(table, results)
    figure, row = plt.subplots(1, len(drawn), figsize=(4.8 * len(drawn), 3.8), squeeze=False)
    for axes, (title, panel) in zip(row[0], drawn.items(), strict=True):
        for colour, (model, points) in zip(COLOURS, sorted(panel.points.items()), strict=False):
            axes.scatter(*zip(*points, strict=True), label=model, color=colour, s=28, alpha=0.8)
        axes.set(title=title, xlabel=words(table.against or ""), ylabel=panel.metric, xlim=(-0.03, 1.03))
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return save(figure, path)


def words(name: str) -> str:
    return name.replace("replan", "re-plan").replace("_", " ")
