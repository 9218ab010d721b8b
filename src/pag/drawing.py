"""The commands `pag plot …`; what is slow to import is imported when they run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pag.errors import PagError
from pag.options import Beam, Device, Split

plot = typer.Typer(help="Draw pictures of runs.", no_args_is_help=True, rich_markup_mode=None)

Picture = Annotated[Path | None, typer.Option("--out", "-o", help="Picture file: .png, .svg or .pdf.")]
Drawn = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run or checkpoint folder, or what `pag generate --save FILE.jsonl` wrote."),
]
Page = Annotated[
    Path | None, typer.Option("--html", help="Instead of a picture, one HTML file to look at step by step.")
]


@plot.command("alignments", epilog="Example: pag plot alignments runs/quickstart --number 2 --out alignments.png")
def plot_alignments(
    run: Drawn,
    text: Annotated[str | None, typer.Option(help="Input to draw; default: the first of the split.")] = None,
    split: Split = "test",
    number: Annotated[int, typer.Option(min=1, help="Draw this many examples of the split.")] = 1,
    beam: Beam = None,
    out: Picture = None,
    page: Page = None,
    device: Device = "auto",
) -> None:
    """Heat maps of where the model looked, with a mark at each step that re-planned."""
    results = _drawn(run, text, split, number, beam, device)
    if page is not None:
        print(_write_page(results, page, run))
        return
    from pag import plots

    found = [(result.text, result.outputs[0]) for result in results]
    print(plots.alignments(found, out or _beside(run, "alignments.png")))


@plot.command("plan", epilog="Example: pag plot plan runs/quickstart --html plan.html")
def plot_plan(
    run: Drawn,
    text: Annotated[str | None, typer.Option(help="Input to draw; default: the first of the split.")] = None,
    split: Split = "test",
    steps: Annotated[int, typer.Option(min=1, help="At most this many steps.")] = 16,
    beam: Beam = None,
    out: Picture = None,
    page: Page = None,
    device: Device = "auto",
) -> None:
    """The plan as a film strip: what the model means to look at, step by step, and where it re-planned."""
    [result] = _drawn(run, text, split, 1, beam, device)
    if page is not None:
        print(_write_page([result], page, run))
        return
    from pag import plots

    print(plots.plan(result.outputs[0], out or _beside(run, "plan.png"), result.text, steps))


@plot.command("curves", epilog="Example: pag plot curves runs/baseline runs/pag --metric exact --out curves.png")
def plot_curves(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="Validation metrics; default: the loss and the monitored one.")
    ] = None,
    out: Picture = None,
) -> None:
    """Learning curves of several runs."""
    from pag import plots
    from pag.run import read_log, shown_metrics

    found = [(run.name, [read_log(run)]) for run in runs]
    metrics = shown_metrics(runs[0], found[0][1][0], metric)
    print(plots.curves(found, metrics, out or runs[0] / "curves.png"))


@plot.command("mechanism", epilog="Example: pag plot mechanism --out mechanism.png")
def plot_mechanism(out: Picture = None) -> None:
    """Draw how planning attention works."""
    from pag.figures import mechanism

    print(mechanism(out or Path("mechanism.png")))


def _drawn(run: str, text: str | None, split: str, number: int, beam: int | None, device: str) -> Any:
    """Results with alignments: stored ones, or those of a given input or of the first of a split."""
    if run.endswith(".jsonl"):
        from pag.textio import read_records

        results = read_records(Path(run))[:number]
    else:
        import pag

        model = pag.load(run, device)
        inputs = [text] if text is not None else model.inputs(number, split)
        results = model.generate(inputs, beam=beam, alignments=True)
    if not results or not all(result.outputs for result in results):
        raise PagError("nothing to draw: the input is empty")
    return results


def _beside(run: str, name: str) -> Path:
    """Where a picture goes that is not told where: into the run, or beside the records."""
    return Path(run).parent / name if run.endswith(".jsonl") else Path(run) / name


def _write_page(results: Any, page: Path, run: str) -> Path:
    from pag.viewer import write_page

    return write_page(results, page, Path(run).resolve().name.removesuffix(".jsonl"))
