"""The results page and the README's table, from results files alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from pag.reproduce.claims import claims
from pag.reproduce.gallery import gallery_section
from pag.reproduce.pictures import pictures_of, words
from pag.reproduce.results import Results, read_results
from pag.reproduce.tables import Cell, Table, read_table, table_names
from pag.spread import mean_and_spread


def shown(value: float, percent: bool) -> str:
    return f"{100 * value:.1f} %" if percent else f"{value:.2f}"


def mean(values: Sequence[float], percent: bool) -> str:
    """`98.2 ± 1.3 %`, the spread being the standard deviation between runs."""
    if not values:
        return "—"
    middle, spread = mean_and_spread(values)
    if spread is None:
        return shown(middle, percent)
    return f"{100 * middle:.1f} ± {100 * spread:.1f} %" if percent else f"{middle:.2f} ± {spread:.2f}"


def section(name: str, table: Table, results: Results, folder: Path, figures: Path) -> str:
    """One table with its pictures, its command and its cost."""
    pictures = [
        f"![{what}](figures/{file})" for what, file in pictures_of(name, table).items() if (figures / file).is_file()
    ]
    parts = [f"## {table.title}", *pictures, rows(table, results), " ".join(table.about.split()), facts(table, results)]
    parts[-1:-1] = filter(None, [further(table, results)])
    made = [f"    {line}" for data in table.data.values() for line in data.make.strip().splitlines()]
    parts.append("\n".join([*made, f"    pag reproduce {name} --jobs {jobs(results)} --again"]))
    parts += filter(None, [gallery_section(name, table, folder, figures)])
    return "\n\n".join(parts) + "\n"


def rows(table: Table, results: Results) -> str:
    evaluations = [evaluation.name for evaluation in table.evaluate]
    planned = any(results.scores(cell, evaluations[0], "replan_rate") for cell in table.expanded())
    published = [name for name in evaluations if any(name in cell.paper for cell in table.expanded().values())]
    head = ["model"]
    for name in evaluations:
        head += [f"paper, {name}"] * (name in published) + [f"ours, {name}"]
    head += ["re-plan rate"] * planned + ["parameters", "runs"]
    lines = [head, ["---"] * len(head)]
    for name, cell in table.expanded().items():
        found = _row(results, cell, evaluations, published)
        rate = [mean(results.scores(name, evaluations[0], "replan_rate"), False)] * planned
        runs = results.runs(name)
        parameters = f"{runs[0]['summary']['parameters']:,}" if runs else "—"
        lines.append([name, *found, *rate, parameters, str(len(runs))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def further(table: Table, results: Results) -> str:
    """The other scores worth a look, of the first test set."""
    if not table.also:
        return ""
    name = table.evaluate[0].name
    lines = [["model", *map(words, table.also)], ["---"] * (1 + len(table.also))]
    for cell in filter(results.runs, table.expanded()):
        lines.append([cell, *(mean(results.scores(cell, name, metric), False) for metric in table.also)])
    return f"Further, on {name}:\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(results: Results, cell: Cell, evaluations: list[str], published: list[str]) -> list[str]:
    found = []
    for name in evaluations:
        if name in published:
            given = cell.paper.get(name)
            found.append("—" if given is None else shown(given / 100 if cell.percent else given, cell.percent))
        found.append(mean(results.scores(cell.name, name, cell.metric), cell.percent))
    return found


def facts(table: Table, results: Results) -> str:
    """What was measured, with what, when it was, and what it cost."""
    every = results.every
    kinds = {
        "on": {run["summary"]["device"] for run in every},
        "torch": {run["summary"]["torch"] for run in every},
        "commit": {run["commit"] or "unknown" for run in every},
    }
    said = ", ".join(f"{name} {' and '.join(sorted(values))}" for name, values in kinds.items())
    updates = sorted({run["summary"]["update"] for run in every})
    span = f"{updates[0]:,}" if len(updates) == 1 else f"{updates[0]:,} to {updates[-1]:,}"
    return (
        f"{table.label[0].upper()}{table.label[1:]}; mean ± standard deviation between runs. Each run made {span} "
        f"updates, {said}. All {len(every)} runs together took at most {results.minutes():.1f} minutes of one device:"
    )


def jobs(results: Results) -> int:
    """How many runs went on at once, at most. A run's seconds are a little too many, and reach into the next's."""
    edges = [(run["finished"] - 0.98 * sum(run["seconds"].values()), 1) for run in results.every]
    edges += [(run["finished"], -1) for run in results.every]
    most = now = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most


def anchor(title: str) -> str:
    """What a link to a heading is called."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def page(folder: Path, figures: Path) -> str:
    """What is where, the claims, every table that has results, and what is still to be measured."""
    tables = {name: read_table(name) for name in table_names()}
    found = {name: read_results(folder / f"{name}.json") for name in tables}
    measured = [name for name in tables if found[name].every]
    missing = [name for name in tables if name not in measured]
    contents = [f"- [{tables[name].title}](#{anchor(tables[name].title)})" for name in measured]
    parts = ["\n".join(contents) + "\n", claims(found)]
    parts += [section(name, tables[name], found[name], folder, figures) for name in measured]
    if missing:
        lines = [f"- {tables[name].title}: `pag reproduce {name}`" for name in missing]
        parts.append("## Not yet measured\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def readme(folder: Path) -> str:
    """The tables that the README shows, beside ours the paper's number where there is one."""
    lines = []
    for name in table_names():
        table, results = read_table(name), read_results(folder / f"{name}.json")
        if not table.readme or not results.every:
            continue
        evaluation = table.evaluate[-1].name
        published = [evaluation] * any(cell.paper for cell in table.expanded().values())
        head = [f"{table.title}, {table.label}", *["paper"] * len(published), "ours", "re-plan rate", "runs"]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for cell in (cell for cell in table.expanded().values() if cell.drawn):
            rate = mean(results.scores(cell.name, evaluation, "replan_rate"), False)
            found = [*_row(results, cell, [evaluation], published), rate, str(len(results.runs(cell.name)))]
            lines.append(f"| {cell.name} | {' | '.join(found)} |")
        lines.append("")
    return "\n".join(lines)
