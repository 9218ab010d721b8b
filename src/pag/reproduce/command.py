"""The command `pag reproduce`. What is slow to import is imported when it is needed."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pag.errors import DataError

if TYPE_CHECKING:
    from pag.reproduce.plan import Job
    from pag.reproduce.results import Results
    from pag.reproduce.tables import Table

EXAMPLE = "Example: pag reproduce euler --jobs 15; pag reproduce multi30k --data multi30k-de=data/m30k --dry-run"


def reproduce(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Which; without it, all are listed.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder for the runs, which go on where they stopped.")] = Path("runs"),
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time on one device.")] = 1,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each row; default: the table's.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only rows whose name begins so; may be repeated.")] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FOLDER", help="Prepared data; default: data/NAME.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of every run.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of results files, added to.")] = Path("benchmarks/results"),
    figures: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("docs/figures"),
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop and save after so long.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure what the results file holds already, too.")] = False,
    commit: Annotated[str, typer.Option(help="The commit measured; default: PAG_COMMIT, or what git says.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the commands and what they cost.")] = False,
) -> None:
    """Measure one of the paper's tables, or of our own: every recipe, seed and test set of it.

    Results are stored run by run; stopped, the same command goes on. A run that fails is told, the others go on, and
    the exit code is 1. `python docs/make.py` makes the results page from the files.
    """
    from pag.reproduce.plan import Asked, check_data, plan
    from pag.reproduce.results import read_results
    from pag.reproduce.run import Runner, commit_of
    from pag.reproduce.tables import read_table

    if table is None:
        _list(results)
        return
    declared, name = read_table(table), Path(table).stem
    path = results / f"{name}.json"
    asked = Asked(seeds, only or (), overrides or (), _named(data or ()), again)
    measured = read_results(path)
    todo = plan(declared, asked, measured, runs / name)
    print(_cost(declared, measured, todo, jobs))
    if dry_run:
        _commands(declared, todo)
        return
    check_data(declared, todo)
    runner = Runner(name, path, commit_of(commit), jobs, lambda text: print(text, flush=True))
    runner.run(todo, minutes)
    _draw(name, declared, path, runs / name, figures)
    if runner.left:
        print(f"{len(runner.left)} runs are left: the same command goes on with them")
    if runner.failed:
        print(f"failed: {'; '.join(runner.failed)}")
        raise typer.Exit(1)
    if runner.signal is not None:
        raise typer.Exit(128 + runner.signal)


def _named(given: list[str] | tuple[()]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for text, (name, equals, folder) in zip(given, pairs, strict=True):
        if not (name and equals and folder):
            raise DataError(f"--data {text}: expected NAME=FOLDER, as in multi30k-de=data/multi30k-de")
    return {name: folder for name, _, folder in pairs}


def _list(results: Path) -> None:
    from pag.reproduce.results import read_results
    from pag.reproduce.tables import read_table, table_names

    for name in table_names():
        table, measured = read_table(name), read_results(results / f"{name}.json")
        wanted = sum(cell.seeds for cell in table.expanded().values())
        print(f"{name:14} {len(measured.every):3} of {wanted:3} runs measured  {table.title}")


def _cost(table: "Table", measured: "Results", todo: "list[Job]", jobs: int) -> str:
    from pag.reproduce.plan import estimate

    minutes, unknown = estimate(table, measured, todo)
    known = len(todo) - unknown
    parts = [f"{len(todo)} runs to do, {len(measured.every)} in the results file"]
    if known:
        parts.append(f"{known} of them estimated at {minutes:.0f} minutes of training added up, {jobs} at a time")
    if unknown:
        parts.append(f"the cost of {unknown} is not known yet")
    return "; ".join(parts)


def _commands(table: "Table", todo: "list[Job]") -> None:
    for name, data in table.data.items():
        print(f"# {name}: {data.make}")
    for job in todo:
        print(shlex.join(job.train(["pag"])))
        for evaluation in job.evaluations:
            print(shlex.join(job.evaluate(evaluation, ["pag"])))


def _draw(name: str, table: "Table", path: Path, runs: Path, figures: Path) -> None:
    from pag.reproduce.gallery import make_gallery
    from pag.reproduce.pictures import draw
    from pag.reproduce.results import read_results

    drawn = draw(name, table, read_results(path), figures)
    for made in [*drawn, *make_gallery(name, table, runs, path.parent, figures)]:
        print(made)
