"""The command `pag reproduce`. What is slow to import is imported when it is needed."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pag.errors import DataError

if TYPE_CHECKING:
    from pag.reproduce.plan import Asked, Job
    from pag.reproduce.results import Results
    from pag.reproduce.tables import Table

FIGURES = "figures"  # no table: all tables' pictures
EXAMPLE = "Example: pag reproduce euler --jobs 15; pag reproduce multi30k --data multi30k-de=data/m30k --dry-run"


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]",
            help="Which: a name, what several begin with (wmt15), a TOML file of one's own, or figures, which only "
            "draws what was measured. Without it, all are listed.",
        ),
    ] = None,
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
    from pag.reproduce.plan import Asked
    from pag.reproduce.run import commit_of
    from pag.reproduce.tables import tables_called

    if table is None or table == FIGURES:
        _list(results) if table is None else _figures(results, figures)
        return
    tables, folders = tables_called(table), _named(data or ())
    unknown = [name for name in folders if not any(name in each.data for each in tables.values())]
    if unknown:
        known = [name for each in tables.values() for name in each.data]
        raise DataError(f"--data {unknown[0]}: this table's data is {', '.join(known) or 'made by the recipes'}")
    asked = Asked(seeds, only or (), overrides or (), folders, again)
    places = Places(runs, results, figures, jobs, minutes, commit_of(commit))
    failed = [line for name, declared in tables.items() for line in _measure(name, declared, asked, places, dry_run)]
    if failed:
        print(f"failed: {'; '.join(failed)}")
        raise typer.Exit(1)


@dataclass(frozen=True)
class Places:
    """Where runs, results and pictures go, and how runs are made."""

    runs: Path
    results: Path
    figures: Path
    jobs: int
    minutes: float | None
    commit: str


def _measure(name: str, table: "Table", asked: "Asked", places: Places, dry_run: bool) -> list[str]:
    """One table; which runs failed."""
    from pag.reproduce.page import rows
    from pag.reproduce.plan import check_data, plan
    from pag.reproduce.results import read_results
    from pag.reproduce.run import Runner

    path = places.results / f"{name}.json"
    measured = read_results(path)
    todo = plan(table, asked, measured, places.runs / name)
    print(f"{table.title}: {_cost(table, measured, todo, places.jobs)}")
    if dry_run:
        _commands(table, todo)
        return []
    check_data(table, todo)
    runner = Runner(name, path, places.commit, places.jobs, lambda text: print(text, flush=True))
    runner.run(todo, places.minutes)
    _draw(name, table, path, places.runs / name, places.figures)
    print(f"\n{rows(table, read_results(path))}\n")
    if runner.left:
        print(f"{len(runner.left)} runs are left: the same command goes on with them")
    if runner.signal is not None:
        raise typer.Exit(128 + runner.signal)
    return runner.failed


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
        print(f"{name:17} {len(measured.every):3} of {wanted:3} runs measured  {table.title}")


def _cost(table: "Table", measured: "Results", todo: "list[Job]", jobs: int) -> str:
    from pag.reproduce.plan import estimate

    if not todo:
        return "nothing to do: the results file holds all; --again, or another --results folder, measures anew"
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


def _figures(results: Path, figures: Path) -> None:
    from pag.reproduce.pictures import redraw

    drawn = redraw(results, figures)
    print("\n".join(map(str, drawn)) or f"no results in {results} yet: measure a table first")


def _draw(name: str, table: "Table", path: Path, runs: Path, figures: Path) -> None:
    from pag.reproduce.gallery import make_gallery
    from pag.reproduce.pictures import beside, draw
    from pag.reproduce.results import read_results

    drawn = draw(name, table, read_results(path), figures, beside(table, path.parent))
    for made in [*drawn, *make_gallery(name, table, runs, path.parent, figures)]:
        print(made)
