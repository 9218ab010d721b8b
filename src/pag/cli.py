"""The command line: one short function per command. What is slow to import is imported when it is needed."""

import errno
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from pag.bench.command import bench
from pag.drawing import plot
from pag.errors import PagError
from pag.options import Beam, Device, Split
from pag.prepare.cli import FETCH_EXAMPLE, QUESTIONS_EXAMPLE, TRANSLATION_EXAMPLE, fetch, questions, translation
from pag.reproduce.command import EXAMPLE as REPRODUCE_EXAMPLE
from pag.reproduce.command import reproduce
from pag.server.cli import serve

app = typer.Typer(
    name="pag",
    help="Planning attention for sequence-to-sequence models: train, decode, and see the plan.",
    epilog="Start with: pag train quickstart --out runs/quickstart",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(plot, name="plot", epilog="Example: pag plot plan runs/quickstart --out plan.png")

prepare = typer.Typer(help="Make raw data ready for training.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(prepare, name="prepare", epilog=TRANSLATION_EXAMPLE)
prepare.command("translation", epilog=TRANSLATION_EXAMPLE)(translation)
prepare.command("questions", epilog=QUESTIONS_EXAMPLE)(questions)
app.command(epilog=FETCH_EXAMPLE)(fetch)

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name, or the path of a TOML file.")]
RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="A run or checkpoint folder.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated.")
]
Ensemble = Annotated[
    list[str] | None, typer.Option(metavar="RUN", help="A further run that decodes together with it; may be repeated.")
]


def main() -> None:
    """Run the command line. A PagError is one line on standard error and exit code 2."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except PagError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone
        _write_no_more()
        sys.exit(141)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _write_no_more()
        print("error: no space left on the disk", file=sys.stderr)
        sys.exit(2)


def _write_no_more() -> None:
    """What standard output still holds goes nowhere, instead of failing again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"pag {version('plan-attend-generate')}")
        raise typer.Exit


@app.callback()
def begin(
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            envvar="PAG_IMPORT",
            help="Import a module of yours first, one that registers an attention or a task; may be repeated.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    _import_all(modules or ())


def _import_all(modules: Iterable[str]) -> None:
    """A user's own modules, from the current folder too; the processes that this one starts import them as well."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise  # it is there, and imports something that is not
            raise PagError(
                f"--import {module}: no such module in this folder or among the installed ones; for a file mine.py "
                "give mine"
            ) from None
    os.environ["PAG_IMPORT"] = " ".join(modules)


@app.command(epilog="Example: pag recipes")
def recipes() -> None:
    """List the recipes that come with the package."""
    from pag.config import recipe_names

    names = recipe_names()
    width = max(len(name) for name in names)
    for name, description in names.items():
        print(f"{name:{width}}  {description}")


@app.command(epilog="Example: pag check euler/pag --set attention.k=5")
def check(recipe: RecipeName, overrides: Overrides = None) -> None:
    """Validate a recipe; print it with every default filled in, and its parameter count."""
    from pag.config import read_recipe, to_toml
    from pag.model import Seq2Seq
    from pag.registry import TASKS, find

    resolved = read_recipe(recipe, overrides or [])
    task = find(TASKS, resolved.task.name, "task").build(resolved.task)
    model = Seq2Seq(resolved, len(task.source), len(task.target))
    print(to_toml(resolved))
    print(f"# {sum(weights.numel() for weights in model.parameters()):,} parameters")


@app.command(epilog="Example: pag train euler/pag --out runs/pag --set train.seed=1")
def train(
    recipe: RecipeName,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder; default: runs/RECIPE.")] = None,
    overrides: Overrides = None,
    resume: Annotated[str, typer.Option(help="auto: go on where the folder's run stopped; never: refuse to.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Devices, one process each.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train a recipe. Stopped or killed, the same command goes on exactly where the last checkpoint was."""
    from pag.config import read_recipe

    resolved = read_recipe(recipe, overrides or [])
    if resume not in ("auto", "never"):
        raise PagError(f"--resume must be auto or never, not {resume}")
    from rich.console import Console

    from pag.run import Machine, leads, train_run

    console = Console(stderr=True)
    folder = out or Path("runs") / Path(recipe).with_suffix("")
    outcome = train_run(resolved, folder, resume, Machine(accelerator, devices, nodes), console)
    console.quiet = not leads()
    console.print(f"{outcome.reason}; run folder {outcome.folder}", highlight=False, soft_wrap=True)
    if outcome.signal is not None:
        console.print("stopped; the same command goes on from here", highlight=False)
        raise typer.Exit(128 + outcome.signal)


@app.command(epilog="Example: pag evaluate runs/quickstart --split test --beam 5")
def evaluate(
    run: RunFolder,
    split: Split = "test",
    beam: Beam = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    data: Annotated[Path | None, typer.Option(help="Another prepared folder to take the split from.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ensemble: Ensemble = None,
    device: Device = "auto",
) -> None:
    """Score a trained model on its task's data."""
    import json

    import pag
    from pag.evaluate import as_lines
    from pag.evaluate import evaluate as scores_of

    model = pag.load(run, device, ensemble or ())
    if data is not None:
        model.task = model.task.with_data(str(data))
    with _progress(f"evaluating {split}") as tick:
        found = scores_of(model, split, beam, limit, tick)
    if as_json:
        print(json.dumps(found))
        return
    print("\n".join(as_lines(found, model.task.metrics if model.task.shares else ())))


@app.command(epilog="Example: pag compare runs/baseline runs/pag-* --metric exact")
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="Validation metrics; default: the monitored one, loss and re-plan rate.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Compare the last validations, not those of the best.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a row.")] = False,
) -> None:
    """Runs side by side: the settings in which they differ, and what validation found.

    Runs that differ in their seed alone share a row: mean ± standard deviation.
    """
    import json

    from pag.compare import as_text, read_run, records, table

    found = [read_run(run, last) for run in runs]
    if as_json:
        print("\n".join(json.dumps(row, ensure_ascii=False) for row in records(found, metric or ())))
    else:
        print(as_text(table(found, metric or ())))


@app.command(epilog="Example: pag generate runs/quickstart --beam 5 < graphs.txt > circuits.txt")
def generate(
    run: RunFolder,
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[INPUT]", help="Input lines, plain or packed (.gz, .xz); default: standard input."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Output file; default: standard output.")] = None,
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(min=1, help="Outputs per input; more than one implies --json.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, with scores.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Alignments, plans, switches and commitments: .jsonl, .npz or .pharaoh.")
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(metavar="SIDE", help="For .pharaoh of translations: count words on the source, target or both."),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="Power of the length that scores are divided by.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Longest output, in tokens.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1)] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw outputs instead of searching for the best.")] = False,
    temperature: Annotated[float, typer.Option(help="For --sample.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="For --sample: only the k likeliest tokens.")] = 0,
    top_p: Annotated[
        float, typer.Option(min=0, max=1, help="For --sample: only the likeliest tokens that hold p.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="For --sample.")] = 0,
    ensemble: Ensemble = None,
    device: Device = "auto",
) -> None:
    """Outputs for input lines: one line out per line in, in order.

    An empty line gives an empty line. A line that the model cannot take gives an empty line and a message on
    standard error; the others are still done, and the exit code is 2. A line that is too long is cut, with a warning.
    """
    from contextlib import ExitStack

    import pag
    from pag.textio import RecordWriter, read_lines

    model = pag.load(run, device, ensemble or ())
    options = model.options(
        beam=beam, n_best=n_best, record=save is not None, max_length=max_length, length_penalty=length_penalty,
        sample=sample, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
    )  # fmt: skip
    if words and not (save and model.task.spells):
        raise PagError("--words is for --save FILE.pharaoh of a translation: other models' positions are whole words")
    with ExitStack() as stack:
        writer = stack.enter_context(RecordWriter(save, words)) if save else None
        results = model.stream(read_lines(source), options, batch_size)
        refused = _print_results(results, out, as_json or n_best > 1, writer)
    if refused:
        raise typer.Exit(2)


def _print_results(results: Any, out: Path | None, as_json: bool, writer: Any) -> int:
    """Print each result as it comes; how many inputs were refused."""
    import json

    from pag.textio import as_json as jsonable
    from pag.textio import output_file

    refused = 0
    with output_file(out) as file:
        for number, result in enumerate(results):
            print(
                json.dumps(jsonable(result, False), ensure_ascii=False) if as_json else result.text,
                file=file,
                flush=True,
            )
            if result.error or result.warning:
                kind = "error" if result.error else "warning"
                print(f"{kind}: line {number + 1}: {result.error or result.warning}", file=sys.stderr)
                refused += bool(result.error)
            if writer is not None:
                writer.write(result)
    return refused


@app.command(epilog="Example: pag score runs/quickstart graphs.txt circuits.txt")
def score(
    run: RunFolder,
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Input lines.")],
    target: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Output lines to score, one per input.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, with each token's.")] = False,
    ensemble: Ensemble = None,
    device: Device = "auto",
) -> None:
    """Log-probabilities of given outputs (forced decoding), one per line."""
    import json
    from dataclasses import asdict

    import pag
    from pag.textio import strict_lines

    model = pag.load(run, device, ensemble or ())
    for found in model.score(strict_lines(source), strict_lines(target)):
        print(json.dumps(asdict(found), ensure_ascii=False) if as_json else f"{found.log_prob:.6f}")


@app.command(epilog="Example: pag average runs/pag --last 5 --out runs/pag-averaged")
def average(
    run: RunFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="Checkpoint folder to make.")],
    last: Annotated[int, typer.Option(min=2, help="How many of the latest checkpoints; see train.keep.")] = 5,
) -> None:
    """Average the weights of a run's last checkpoints into one model."""
    from pag.checkpoint import average as average_of

    updates = average_of(Path(run), last, out)
    print(f"{out}: the mean of updates {', '.join(map(str, updates))}")


@app.command(epilog="Example: pag export runs/en-de models/en-de --weights int8 --about about.md --examples some.en")
def export(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Model folder to make.")],
    weights: Annotated[str, typer.Option(help="How weights are stored: float32, float16 or int8.")] = "float16",
    about: Annotated[Path | None, typer.Option(help="Markdown for the model card: data, purpose, limits.")] = None,
    licence: Annotated[str, typer.Option(help="Of the model, for its card.")] = "",
    scores: Annotated[Path | None, typer.Option(help="What `pag evaluate --json` printed, for the card.")] = None,
    examples: Annotated[Path | None, typer.Option(help="Inputs whose outputs are kept, one a line.")] = None,
) -> None:
    """Make a small folder to hand on: the best model, a model card, and example outputs to check it by."""
    from pag.export import Card, export, read_scores
    from pag.textio import strict_lines

    text = "\n".join(strict_lines(about)) if about else ""
    card = Card(text, licence, read_scores(scores) if scores else None)
    print(export(run, out, weights, card, strict_lines(examples) if examples else []))


app.command(epilog="Example: pag bench --preset smoke --out runs/bench")(bench)
app.command(epilog=REPRODUCE_EXAMPLE)(reproduce)
app.command(epilog="Example: pag serve baseline=runs/baseline pag=runs/pag --port 8000")(serve)


def _progress(title: str) -> Any:
    """A progress bar on standard error; its value is called with how much is done, and of how much."""
    from pag.runlog import ticking

    return ticking(title)


if __name__ == "__main__":
    main()
