"""Regenerate what the docs take from the code: `make docs`.

docs/cli.md      from the command line's own help
docs/settings.md from the recipe's fields
docs/figures/    from the figures' code
docs/results.md  from benchmarks/results, and the README's table
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

ROOT = Path(__file__).parent.parent
PAPER = {"baseline": "90.4 %", "pag": "100 %", "rpag": "—"}


def cli() -> str:
    """Every command's help, in the order of `pag --help`."""
    from pag.cli import app

    parts = ["# Command line\n\nMade from `pag COMMAND --help` by `make docs`.\n"]
    root = get_command(app)
    for names, command in _commands(root, ["pag"]):
        context = typer.Context(command, info_name=" ".join(names), terminal_width=100, max_content_width=100)
        parts.append(f"## {' '.join(names)}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, names: list[str]) -> Any:
    yield names, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, [*names, name])


def settings() -> str:
    """Every setting of a recipe with its default."""
    from pag.config import Recipe, Settings
    from pag.registry import TASKS, find

    sections: dict[str, Any] = {f"task (name = {name})": find(TASKS, name, "task").Settings for name in sorted(TASKS)}
    kinds = {name: field.annotation for name, field in Recipe.model_fields.items()}
    sections |= {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Settings)}
    lines = ["# Settings\n\nEvery key of a recipe, made from the code by `make docs`.\n"]
    for section, kind in sections.items():
        lines += [f"## {section}\n", "| key | default | meaning |", "|---|---|---|"]
        for key, field in kind.model_fields.items():
            default = "" if field.is_required() else f"`{json.dumps(field.default)}`"
            lines.append(f"| `{key}` | {default} | {field.description or ''} |")
        lines.append("")
    return "\n".join(lines)


def results() -> str:
    """The tables, from results files alone."""
    parts = ["# Results\n\nMade from `benchmarks/results/*.json` by `make docs`; each table names its command.\n"]
    for name, table in {"euler": _euler, "newstest-h200": _newstest}.items():
        file = ROOT / "benchmarks" / "results" / f"{name}.json"
        if file.exists():
            parts.append(table(json.loads(file.read_text())))
    return "\n".join(parts)


def readme() -> str:
    """The README with its table of results renewed."""
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, rest = text.partition("<!-- results -->\n")
    _, _, after = rest.partition("<!-- /results -->")
    euler = ROOT / "benchmarks" / "results" / "euler.json"
    table = _euler_table(json.loads(euler.read_text())) if euler.exists() else ""
    return f"{before}<!-- results -->\n{table}<!-- /results -->{after}"


@dataclass(frozen=True)
class Cell:
    """One recipe's runs in figures, by seed."""

    name: str
    exact: list[float]  # exact circuits among the test graphs
    rates: list[float | None]  # re-plan rate on them
    last: list[float]  # exact circuits at the last validation
    reached: list[int | None]  # first update with 99 % of the validation graphs
    parameters: int

    @classmethod
    def of(cls, recipe: str, runs: list[dict[str, Any]]) -> "Cell":
        scored = [[point for point in run["curve"] if "exact" in point] for run in runs]
        return cls(
            recipe.split("/")[1],
            [run["test"]["exact"] for run in runs],
            [run["test"].get("replan_rate") for run in runs],
            [points[-1]["exact"] for points in scored],
            [next((p["update"] for p in points if p["exact"] >= 0.99), None) for points in scored],
            runs[0]["summary"]["parameters"],
        )


def _by_seed(values: list[Any], form: str) -> str:
    return ", ".join("—" if value is None else format(value, form) for value in values)


def _euler_table(found: dict[str, Any]) -> str:
    lines = ["| Eulerian circuits, 7 nodes | paper | ours, by seed | re-plan rate |", "|---|---|---|---|"]
    for cell in (Cell.of(recipe, runs) for recipe, runs in found["runs"].items()):
        rates = "—" if cell.rates[0] is None else _by_seed(cell.rates, ".2f")
        lines.append(f"| {cell.name} | {PAPER[cell.name]} | {_by_seed(cell.exact, '.1%')} | {rates} |")
    return "\n".join([*lines, "", "Exact circuits among 1,000 test graphs, greedy search.", ""])


def _euler(found: dict[str, Any]) -> str:
    rows = []
    for cell in (Cell.of(recipe, runs) for recipe, runs in found["runs"].items()):
        rates = "—" if cell.rates[0] is None else _by_seed(cell.rates, ".2f")
        exact, last, reached = _by_seed(cell.exact, ".1%"), _by_seed(cell.last, ".1%"), _by_seed(cell.reached, "d")
        rows.append(
            f"| {cell.name} | {PAPER[cell.name]} | {exact} | {rates} | {last} | {reached} | {cell.parameters:,} |"
        )
    one = next(iter(found["runs"].values()))[0]
    summary, precision = one["summary"], one["summary"]["recipe"]["train"]["precision"]
    minutes = sum(run["summary"]["seconds"] for runs in found["runs"].values() for run in runs) / 60
    return f"""## Eulerian circuits, 7 nodes and 4 distractors

![learning curves](figures/euler-curves.png)

| model | paper | ours, by seed | re-plan rate | at the last validation | updates to 99 % | parameters |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Exact circuits among {one["test"]["examples"]:,} test graphs, greedy search, from the first checkpoint with the most
exact circuits of 500 validation graphs after the switch was let go. {summary["update"]:,} updates of 32 graphs,
hidden 360, k = 10, {precision}. {summary["device"]}, torch {summary["torch"]}, commit {found["commit"]}. The runs took
{minutes:.0f} minutes added up, all at the same time on one GPU.

    python benchmarks/seeds.py euler/baseline euler/pag euler/rpag --seeds 5 --jobs 15 \\
        --out benchmarks/results/euler.json

The paper's 90.4 % for the baseline does not reproduce: with weights drawn at 1/√fan-in (embeddings at 1) the baseline
solves this size as fast as the planners do. The size does not separate the models.
"""


def _newstest(found: dict[str, Any]) -> str:
    seconds = {(row["attention"], row["beam"], row["way"]): row["seconds"] for row in found["rows"]}
    rows = []
    for name, beam in dict.fromkeys(key[:2] for key in seconds):
        slow, fast = seconds[name, beam, "step by step"], seconds[name, beam, "captured"]
        rows.append(f"| {name} | {beam} | {slow:.2f} | {fast:.2f} | {found['sentences'] / fast:,.0f} |")
    return f"""## Decoding newstest2014

| model | beam | seconds, step by step | seconds, step captured in a CUDA graph | sentences/s |
|---|---|---|---|---|
{chr(10).join(rows)}

{found["sentences"]:,} sentences, random weights, {found["units"]} units, bfloat16, real lengths: each output ends at
its reference's length in characters. Both ways give the same outputs. {found["device"]}, torch {found["torch"]}, commit
{found["commit"]}.

    python benchmarks/newstest.py newstest2014.en newstest2014.de --out benchmarks/results/newstest-h200.json
"""


def figures() -> None:
    """The pictures of the docs."""
    from pag.figures import mechanism
    from pag.plots import curves

    mechanism(ROOT / "docs" / "figures" / "mechanism.png")
    euler = ROOT / "benchmarks" / "results" / "euler.json"
    if euler.exists():
        runs = json.loads(euler.read_text())["runs"]
        named = [(recipe.split("/")[1], [run["curve"] for run in of_recipe]) for recipe, of_recipe in runs.items()]
        curves(named, ["exact", "loss", "replan_rate"], ROOT / "docs" / "figures" / "euler-curves.png")


PAGES = {"docs/cli.md": cli, "docs/settings.md": settings, "docs/results.md": results, "README.md": readme}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), "utf-8")
    figures()


if __name__ == "__main__":
    main()
