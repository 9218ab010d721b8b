"""Regenerate what the docs take from the code: `make docs`.

docs/cli.md      from the command line's own help
docs/settings.md from the recipe's fields
docs/figures/    from the figures' code
docs/results.md  from benchmarks/results, and the README's table
"""

import argparse
import json
import statistics
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
    euler = ROOT / "benchmarks" / "results" / "euler.json"
    if euler.exists():
        parts.append(_euler(json.loads(euler.read_text())))
    return "\n".join(parts)


def readme() -> str:
    """The README with its table of results renewed."""
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, rest = text.partition("<!-- results -->\n")
    _, _, after = rest.partition("<!-- /results -->")
    euler = ROOT / "benchmarks" / "results" / "euler.json"
    table = _euler_table(json.loads(euler.read_text())) if euler.exists() else ""
    return f"{before}<!-- results -->\n{table}<!-- /results -->{after}"


def _euler_table(found: dict[str, Any]) -> str:
    lines = ["| Eulerian circuits, 7 nodes | paper | ours, exact circuits | seeds |", "|---|---|---|---|"]
    for recipe, runs in found["runs"].items():
        name, exact = recipe.split("/")[1], [run["test"]["exact"] for run in runs]
        lines.append(
            f"| {name} | {PAPER[name]} | {statistics.mean(exact):.2%} (least {min(exact):.2%}) | {len(runs)} |"
        )
    return "\n".join(lines) + "\n"


def _euler(found: dict[str, Any]) -> str:
    rows = []
    for recipe, runs in found["runs"].items():
        name = recipe.split("/")[1]
        exact = [run["test"]["exact"] for run in runs]
        rates = [run["test"].get("replan_rate") for run in runs]
        shown = "—" if rates[0] is None else ", ".join(f"{rate:.2f}" for rate in rates)
        first = [next((p["update"] for p in run["curve"] if p.get("exact", 0) >= 0.99), None) for run in runs]
        reached = ", ".join("never" if update is None else str(update) for update in first)
        mean = f"{statistics.mean(exact):.2%} (least {min(exact):.2%})"
        parameters = runs[0]["summary"]["parameters"]
        rows.append(f"| {name} | {PAPER[name]} | {mean} | {len(runs)} | {shown} | {reached} | {parameters:,} |")
    summary = next(iter(found["runs"].values()))[0]["summary"]
    minutes = sum(run["summary"]["seconds"] for runs in found["runs"].values() for run in runs) / 60
    return f"""## Eulerian circuits, 7 nodes and 4 distractors

![learning curves](figures/euler-curves.png)

| model | paper | exact circuits, ours | seeds | re-plan rate, by seed | updates to 99 % on validation | parameters |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}

1,000 test graphs, greedy search, {summary["update"]:,} updates of 32 graphs, hidden 360, k = 10, the best checkpoint on
500 validation graphs. {summary["device"]}, torch {summary["torch"]}, {summary["recipe"]["train"]["precision"]}, commit
{found["commit"] or "unknown"}. The runs took {minutes:.0f} minutes in all, many at the same time.

    python benchmarks/seeds.py euler/baseline euler/pag euler/rpag --seeds 5 --jobs 15 \\
        --out benchmarks/results/euler.json

The paper's 90.4 % for the baseline does not reproduce: with weights drawn at 1/√fan-in the baseline solves this size as
well as the planners do. The size does not separate the models.
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
