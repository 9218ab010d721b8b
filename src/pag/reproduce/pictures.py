"""A table's pictures: learning curves of all its runs, and quality against what a study varies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pag.reproduce.gallery import draw_kept
from pag.reproduce.results import Results, read_results
from pag.reproduce.tables import Table, read_table, table_names


def pictures_of(name: str, table: Table) -> dict[str, str]:
    """The files that `draw` makes: what they show → file name."""
    found = {f"learning curves{f', {task}' if task else ''}": file for task, file in curve_files(name, table).items()}
    if table.against:
        found[f"{table.label} against {words(table.against)}"] = scatter_file(name, table)
    if table.places:
        found["where in a word it re-plans"] = places_file(name)
    return found


def curve_files(name: str, table: Table) -> dict[str, str]:
    """One picture for each task of a table; that of a single one has no name."""
    tasks = dict.fromkeys(cell.task for cell in table.expanded().values())
    if len(tasks) == 1:
        return {"": f"{name}-curves.png"}
    return {task: f"{name}-curves-{task.rpartition('/')[2]}.png" for task in tasks}


def scatter_file(name: str, table: Table) -> str:
    return f"{name}-{table.against}.png"


def places_file(name: str) -> str:
    return f"{name}-places.png"


def redraw(results: Path, folder: Path) -> list[Path]:
    """Every picture of every table, from results files alone."""
    drawn = []
    for name in table_names():
        drawn += draw(name, read_table(name), read_results(results / f"{name}.json"), folder)
        drawn += draw_kept(name, results, folder)
    return drawn


def draw(name: str, table: Table, results: Results, folder: Path) -> list[Path]:
    if not results.every:
        return []
    from pag.plots import curves

    drawn = []
    for task, file in curve_files(name, table).items():
        cells = [cell for cell, facts in table.expanded().items() if results.runs(cell) and task in ("", facts.task)]
        known = {metric for cell in cells for run in results.runs(cell) for point in run["curve"] for metric in point}
        shown = [metric for metric in table.curves if metric in known] or ["loss"]
        named = [(cell, [_events(run) for run in results.runs(cell)]) for cell in cells]
        drawn += [curves(named, shown, folder / file)] if cells else []
    if table.against:
        drawn.append(scatter(table, results, folder / scatter_file(name, table)))
    if table.places:
        drawn.append(draw_places(table, results, folder / places_file(name)))
    return drawn


def _events(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"kind": "valid", **point} for point in run["curve"]]


@dataclass
class Panel:
    """One task of a study: what its metric is called, and the points of each model."""

    metric: str
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def panels(table: Table, results: Results) -> dict[str, Panel]:
    """By task; a model that does not plan looks anew at every step."""
    assert table.against is not None
    found: dict[str, Panel] = {}
    for name, cell in ((name, cell) for name, cell in table.expanded().items() if cell.drawn):
        metric = words(cell.metric) + (", %" if cell.percent else "")
        panel = found.setdefault(cell.task, Panel(metric))
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


def draw_places(table: Table, results: Results, path: Path) -> Path:
    """A panel per task: the re-plan rate at a blank and at each character of a word, a line per model."""
    import matplotlib.pyplot as plt

    from pag.plots import COLOURS, save

    found = by_place(table, results)
    figure, row = plt.subplots(1, max(1, len(found)), figsize=(5.2 * max(1, len(found)), 3.8), squeeze=False)
    for axes, (task, rates) in zip(row[0], found.items(), strict=False):
        for colour, (name, values) in zip(COLOURS, rates.items(), strict=False):
            axes.plot(values, label=name, color=colour, marker="o", markersize=4, linewidth=1.4)
        longest = max(map(len, rates.values()))
        axes.set_xticks(range(longest), ["blank", *map(str, range(1, longest - 1)), f"{longest - 1}…"])
        axes.set(title=task, xlabel="character of the word", ylabel="re-plan rate", ylim=(-0.03, 1.03))
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    figure.tight_layout()
    return save(figure, path)


def by_place(table: Table, results: Results) -> dict[str, dict[str, list[float]]]:
    """Task → row → the mean over its runs."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, cell in table.expanded().items():
        runs = [run["scores"][table.evaluate[0].name].get("replans_by_place") for run in results.runs(name)]
        if kept := [run for run in runs if run]:
            found.setdefault(cell.task, {})[name] = [_mean(place) for place in zip(*kept, strict=False)]
    return found


def _mean(rates: Sequence[float | None]) -> float:
    there = [rate for rate in rates if rate is not None]
    return sum(there) / len(there) if there else float("nan")


def words(name: str) -> str:
    return name.replace("replan", "re-plan").replace("_", " ")
