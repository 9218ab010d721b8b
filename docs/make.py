"""Regenerate what the docs take from the code: `make docs`.

docs/cli.md      from the command line's own help
docs/settings.md from the recipe's fields
docs/figures/    from the figures' code
docs/results.md  from benchmarks/results, and the README's table
"""

import argparse
import json
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

ROOT = Path(__file__).parent.parent
RESULTS, FIGURES = ROOT / "benchmarks" / "results", ROOT / "docs" / "figures"


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
    from pag.reproduce.page import page

    parts = ["# Results\n\nMade from `benchmarks/results/*.json` by `make docs`; each table names its command.\n"]
    parts.append(page(RESULTS, FIGURES))
    parts.append(_newstest(json.loads((RESULTS / "newstest-h200.json").read_text())))
    return "\n".join(parts)


def readme() -> str:
    """The README with its table of results renewed."""
    from pag.reproduce.page import readme as tables

    text = (ROOT / "README.md").read_text("utf-8")
    before, _, rest = text.partition("<!-- results -->\n")
    _, _, after = rest.partition("<!-- /results -->")
    return f"{before}<!-- results -->\n{tables(RESULTS)}<!-- /results -->{after}"


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
    from pag.reproduce.pictures import draw
    from pag.reproduce.results import read_results
    from pag.reproduce.tables import read_table, table_names

    mechanism(FIGURES / "mechanism.png")
    for name in table_names():
        draw(name, read_table(name), read_results(RESULTS / f"{name}.json"), FIGURES)


PAGES = {"docs/cli.md": cli, "docs/settings.md": settings, "docs/results.md": results, "README.md": readme}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), "utf-8")
    figures()


if __name__ == "__main__":
    main()
