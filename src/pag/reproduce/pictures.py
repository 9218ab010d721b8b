"""A table's pictures: learning curves of all its runs, and quality against what a study varies."""

from pathlib import Path
from typing import Any

from pag.reproduce.results import Results
from pag.reproduce.tables import Cell, Table


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


def scatter(table: Table, results: Results, path: Path) -> Path:
    """A panel per task, a colour per model, a point per run."""
    import matplotlib.pyplot as plt

    from pag.plots import COLOURS, save

    assert table.against is not None
    cells = {name: cell for name, cell in table.expanded().items() if results.runs(name)}
    panels = sorted({cell.recipe.rpartition("/")[0] for cell in cells.values()})
    figure, row = plt.subplots(1, len(panels), figsize=(4.8 * len(panels), 3.8), squeeze=False)
    for axes, panel in zip(row[0], panels, strict=True):
        groups: dict[str, list[tuple[float, float]]] = {}
        for cell in cells.values():
            where, _, model = cell.recipe.rpartition("/")
            if where == panel:
                groups.setdefault(model, []).extend(_points(table, cell, results))
                axes.set(ylabel=f"{words(cell.metric)}, %" if cell.percent else words(cell.metric))
        for colour, (model, points) in zip(COLOURS, groups.items(), strict=False):
            axes.scatter(*zip(*points, strict=True), label=model, color=colour, s=28, alpha=0.8)
        axes.set(title=panel, xlabel=words(table.against), xlim=(-0.03, 1.03))
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return save(figure, path)


def _points(table: Table, cell: Cell, results: Results) -> list[tuple[float, float]]:
    """Across, what the metric is drawn against; a model that does not plan looks anew at every step."""
    assert table.against is not None
    scores = [run["scores"][table.evaluate[0].name] for run in results.runs(cell.name)]
    return [(score.get(table.against, 1.0), score[cell.metric] * (100 if cell.percent else 1)) for score in scores]


def words(name: str) -> str:
    return name.replace("replan", "re-plan").replace("_", " ")
