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
    from pag.reproduce.projection import projection

    parts = ["# Results\n\nMade from `benchmarks/results/*.json` by `make docs`; each table names its command.\n"]
    parts += [page(RESULTS, FIGURES), projection(RESULTS)]
    parts.append(_newstest(json.loads((RESULTS / "newstest-h200.json").read_text())))
    samples = RESULTS / "questions-samples.json"
    if samples.exists():
        parts.append(_asked(json.loads(samples.read_text("utf-8"))))
    return "\n".join(parts)


def _asked(found: dict[str, Any]) -> str:
    """Generated questions, what was copied in bold."""
    from pag.tasks.questions import around

    parts = [
        f"""## Questions asked

{len(found["rows"])} examples of SQuAD's {found["split"]} set, beam {found["beam"]} (`questions-samples.json`).
{found.get("note", "")}
**Bold** words were copied from the document, the others written; <u>underlined</u> is the answer.
"""
    ]
    for row in found["rows"]:
        given = row["input"]
        said = [f"- {name}: {_marked(output)}" for name, output in row["outputs"].items()]
        start = given["answer_start"]
        shown = around(given["document"], start, start + len(given["answer"]), 160, ("<u>", "</u>"))
        parts.append("\n".join([f"> {shown}\n", f"- reference: {row['reference']}", *said, ""]))
    return "\n".join(parts)


def _marked(output: dict[str, Any]) -> str:
    words = list(zip(output["tokens"], output["copied"], strict=True))[:-1]
    return " ".join(f"**{word}**" if place >= 0 else word for word, place in words)


def readme() -> str:
    """The README with its table of results renewed."""
    from pag.reproduce.page import readme as tables

    return _renewed("README.md", "results", tables(RESULTS))


def serve() -> str:
    """The page about the server with its table of load renewed."""
    load, page = (json.loads((RESULTS / f"{name}-cpu.json").read_text()) for name in ("serve", "page"))
    return _renewed("docs/serve.md", "load", _load(load, page))


def _renewed(page: str, name: str, table: str) -> str:
    """A page with what stands between two marks replaced."""
    before, _, rest = (ROOT / page).read_text("utf-8").partition(f"<!-- {name} -->\n")
    _, _, after = rest.partition(f"<!-- /{name} -->")
    return f"{before}<!-- {name} -->\n{table}<!-- /{name} -->{after}"


def _load(found: dict[str, Any], page: dict[str, Any]) -> str:
    steady = json.loads((ROOT / "benchmarks" / "results" / "serve-memory.json").read_text())["mib"]
    names = {"batching": "`pag serve`", "one at a time": "`pag serve --batch 1`", "LitServe": "LitServe, same model"}
    rows = []
    for name, row in found["rows"].items():
        latency = " / ".join(f"{row[f'p{p}_ms']:,.0f}" for p in (50, 95, 99))
        batch = "—" if row["mean_batch"] is None else f"{row['mean_batch']:.0f}"
        cells = [names[name], f"{row['answers']:,}", f"{row['answers_per_second']:,.0f}", latency, batch]
        rows.append(f"| {' | '.join([*cells, *(str(row[name]) for name in ('wrong', 'lost', 'late_408'))])} |")
    batching = found["rows"]["batching"]
    memory = ", ".join(f"{m['after_10_s']:.0f} to {m['last']:.0f} MiB" for m in batching["memory_mib"])
    columns = ["server", "answers", "per second", "latency in ms, p50 / p95 / p99", "requests a batch"]
    head = f"| {' | '.join([*columns, 'wrong', 'lost', 'over 30 s'])} |"
    return f"""{head}
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

{found["clients"]} clients that ask again as soon as they are answered, {batching["seconds"]:.0f} s, {found["run"]}
model, {found["cores"]} cores that server and clients share: batching
answers **{found["batching_over_one_at_a_time"]:.1f} ×** as many. Every answer was compared with the model's own. At
most {batching["longest_queue"]} requests waited; the server's memory went from {memory} between the tenth second and
the last, and lay between {min(steady)} and {max(steady)} MiB in a run of 160 s
(`serve-memory.json`, sampled by hand). torch {found["torch"]}. From a typed graph to its picture in the browser took
{page["median_ms"]} ms in the median of {page["inputs"]} tries and {page["most_ms"]} ms at most, on the same cores.

    python benchmarks/serve.py runs/quickstart --litserve --out benchmarks/results/serve-cpu.json
    python benchmarks/page.py runs/quickstart --out benchmarks/results/page-cpu.json

LitServe was tried because it batches too. The server here needs no second process and no copy of its requests, streams
what a search has so far, and stops a search that nobody waits for, so it is built on FastAPI with a batcher of its own.
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
    from pag.reproduce.pictures import redraw

    mechanism(FIGURES / "mechanism.png")
    redraw(RESULTS, FIGURES)


PAGES = {
    "docs/cli.md": cli,
    "docs/settings.md": settings,
    "docs/results.md": results,
    "docs/serve.md": serve,
    "README.md": readme,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), "utf-8")
    figures()


if __name__ == "__main__":
    main()
