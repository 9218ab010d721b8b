"""The command `pag bench`. What is slow to import is imported when it is needed."""

from pathlib import Path
from typing import Annotated

import typer

Size = Annotated[int | None, typer.Option(min=1, help="Default: the preset's.")]


def bench(
    preset: Annotated[str, typer.Option(help="cpu, h200, smoke, or auto: the device's own.")] = "auto",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for bench.json and the pictures.")] = Path(
        "runs/bench"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    only: Annotated[
        list[str] | None, typer.Option(help="train, update, decode, replan, scaling or ragged; may be repeated.")
    ] = None,
    variant: Annotated[list[str] | None, typer.Option(help="baseline, rpag or pag; may be repeated.")] = None,
    precision: Annotated[list[str] | None, typer.Option(help="float32 or bfloat16; may be repeated.")] = None,
    beam: Annotated[list[int] | None, typer.Option(min=1, help="Beam width; may be repeated.")] = None,
    batch: Size = None,
    source: Annotated[int | None, typer.Option(min=2, help="Source length.")] = None,
    target: Annotated[int | None, typer.Option(min=2, help="Target length.")] = None,
    units: Annotated[int | None, typer.Option(min=1, help="Of embedding, encoder and decoder.")] = None,
    k: Annotated[int | None, typer.Option(min=2, help="Steps planned ahead.")] = None,
    vocabulary: Annotated[int | None, typer.Option(min=12, help="Symbols of source and target.")] = None,
    attention: Annotated[
        int | None, typer.Option(min=1, help="Units of our alignment MLP; default: twice --units. JoeyNMT's: --units.")
    ] = None,
    layer_norm: Annotated[bool, typer.Option("--layer-norm", help="Layer normalisation in our models.")] = False,
    sentences: Annotated[int | None, typer.Option(min=1, help="Sentences searched at once.")] = None,
    length: Annotated[int | None, typer.Option(min=1, help="Length of the outputs found.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Timed runs of each contestant.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    clock: Annotated[str, typer.Option(help="wall, or cpu: processor time, for a CPU that others use too.")] = "wall",
    data: Annotated[
        Path | None, typer.Option(help="Prepared text whose lengths make the batches of --only ragged.")
    ] = None,
    joeynmt: Annotated[Path | None, typer.Option(help="Folder that JoeyNMT was installed into.")] = None,
) -> None:
    """Time training and decoding: every variant and backend, the plain loop and JoeyNMT in the same run."""
    from rich.console import Console

    from pag.bench.run import run_bench
    from pag.bench.settings import choose_preset, override

    settings, said = choose_preset(preset, device)
    settings = override(
        settings, sections=only, variants=variant, precisions=precision, beams=beam, batch=batch, source=source,
        target=target, units=units, k=k, vocabulary=vocabulary, attention=attention, layer_norm=layer_norm or None,
        sentences=sentences, length=length, rounds=rounds, threads=threads, clock=clock,
        data=str(data) if data else None,
    )  # fmt: skip
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(said, highlight=False)
    run_bench(settings, out, console, joeynmt)
