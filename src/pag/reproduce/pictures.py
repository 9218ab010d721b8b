"""A table's pictures: learning curves of all its runs, and quality against what a study varies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pag.reproduce.gallery import draw_kept
from pag.reproduce.results import Results, read_results
from pag.reproduce.tables import Cell, Table, read_table, table_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Study = tuple[Table, Results]
Points = dict[str, list[tuple[float, float]]]


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
        table = read_table(name)
        drawn += draw(name, table, read_results(results / f"{name}.json"), folder, beside(table, results))
        drawn += draw_kept(name, results, folder)
    return drawn


def beside(table: Table, results: Path) -> list[Study]:
    """Another table whose runs are drawn among its own, where it names one."""
    if table.beside is None:
        return []
    return [(read_table(table.beside), read_results(results / f"{table.beside}.json"))]


def draw(name: str, table: Table, results: Results, folder: Path, others: Sequence[Study] = ()) -> list[Path]:
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
        drawn.append(scatter([(table, results), *others], folder / scatter_file(name, table)))
    if table.places:
        drawn.append(draw_places(table, results, folder / places_file(name)))
    return drawn


def _events(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"kind": "valid", **point} for point in run["curve"]]


@dataclass
class Panel:
    """One task of a study: what its metric is called, the points of each model, and the same with the loss."""

    metric: str
    points: Points = field(default_factory=dict)
    losses: Points = field(default_factory=dict)


def panels(*studies: Study) -> dict[str, Panel]:
    """By task of the first, on what all were evaluated on; a model that does not plan looks anew at every step."""
    table, _ = studies[0]
    names = [{evaluation.name for evaluation in study.evaluate} for study, _ in studies]
    shared = [one.name for one in table.evaluate if all(one.name in known for known in names)]
    evaluation = (shared or [table.evaluate[0].name])[0]
    found = {cell.task: Panel(words(cell.metric) + (", %" if cell.percent else "")) for cell in _drawn(table).values()}
    for study, results in studies:
        for name, cell in _drawn(study).items():
            runs = results.runs(name) if cell.task in found else []
            for run in (run for run in runs if evaluation in run["scores"]):
                scores, panel = run["scores"][evaluation], found[cell.task]
                model, rate = _model(results, name), scores.get(table.against, 1.0)
                value = scores[cell.metric] * (100 if cell.percent else 1)
                panel.points.setdefault(model, []).append((rate, value))
                if cell.metric != "loss" and "loss" in scores:  # it varies less between runs
                    panel.losses.setdefault(model, []).append((rate, scores["loss"]))
    return {title: panel for title, panel in found.items() if panel.points}


def _drawn(table: Table) -> dict[str, Cell]:
    return {name: cell for name, cell in table.expanded().items() if cell.drawn}


def scatter(studies: Sequence[Study], path: Path) -> Path:
    """A column per task, its metric and its loss; a colour per model, a point per run, a line at the baseline's."""
    import matplotlib.pyplot as plt

    from pag.plots import save

    drawn = panels(*studies)
    rows = 2 if any(panel.losses for panel in drawn.values()) else 1
    figure, grid = plt.subplots(rows, len(drawn), figsize=(4.8 * len(drawn), 3.4 * rows), squeeze=False, sharex=True)
    for column, (title, panel) in zip(grid.T, drawn.items(), strict=True):
        _cloud(column[0], panel.points, panel.metric)
        column[0].set_title(title)
        if panel.losses:
            _cloud(column[1], panel.losses, "loss")
        column[-1].set(xlabel=words(studies[0][0].against or ""), xlim=(-0.03, 1.03))
    grid[0, 0].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return save(figure, path)


def _cloud(axes: "Axes", points: Points, label: str) -> None:
    from pag.plots import widen

    for model, colour in colours_of(points).items():
        rates, values = zip(*points[model], strict=True)
        axes.scatter(rates, values, label=model, color=colour, s=28, alpha=0.8)
        if model == "baseline":
            axes.axhline(fmean(values), color=colour, linewidth=1.0, linestyle="--", alpha=0.6)
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)
    if label == "loss":
        widen(axes)


def colours_of(models: Iterable[str]) -> dict[str, str]:
    """The same for a model in every picture."""
    from pag.plots import COLOURS

    shown = set(models)
    known = dict.fromkeys(("baseline", "pag", "rpag", *sorted(shown)))
    return {model: colour for model, colour in zip(known, cycle(COLOURS), strict=False) if model in shown}


def _model(results: Results, cell: str) -> str:
    return str(results.runs(cell)[0]["summary"]["recipe"]["attention"]["name"])


def draw_places(table: Table, results: Results, path: Path) -> Path:
    """A panel per task: the re-plan rate at a blank and at each character of a word, a line per row of the table."""
    import matplotlib.pyplot as plt

    from pag.plots import save

    found = by_place(table, results)
    figure, row = plt.subplots(1, max(1, len(found)), figsize=(5.2 * max(1, len(found)), 3.8), squeeze=False)
    for axes, (task, rates) in zip(row[0], found.items(), strict=False):
        colours = colours_of(_model(results, name) for name in rates)
        styles = {model: cycle(("-", "--", ":", "-.")) for model in colours}
        for name, values in rates.items():
            model = _model(results, name)
            look = {"color": colours[model], "linestyle": next(styles[model])}
            axes.plot(values, label=name, marker="o", markersize=3, linewidth=1.4, **look)
        longest = max(map(len, rates.values()))
        axes.set_xticks(range(longest), ["blank", *map(str, range(1, longest - 1)), f"{longest - 1}…"])
        axes.set(title=task, xlabel="character of the word", ylabel="re-plan rate", ylim=(-0.03, 1.03))
        axes.grid(alpha=0.25)
        axes.legend(
            fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, handlelength=3.5
        )
    figure.tight_layout()
    return save(figure, path)


def by_place(table: Table, results: Results) -> dict[str, dict[str, list[float]]]:
    """Task → row → the mean over its runs."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, cell in _drawn(table).items():
        runs = [run["scores"][table.evaluate[0].name].get("replans_by_place") for run in results.runs(name)]
        if kept := [run for run in runs if run]:
            found.setdefault(cell.task, {})[name] = [_mean(place) for place in zip(*kept, strict=False)]
    return found


def _mean(rates: Sequence[float | None]) -> float:
    there = [rate for rate in rates if rate is not None]
    return sum(there) / len(there) if there else float("nan")


def words(name: str) -> str:
    return name.replace("replan", "re-plan").replace("_", " ")
