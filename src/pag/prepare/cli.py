"""The commands `pag prepare` and `pag fetch`. What is slow to import is imported when it is needed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

TRANSLATION_EXAMPLE = (
    "Example: pag prepare translation data/en-de --train-source train.en.gz --train-target train.de.gz "
    "--valid-source valid.en --valid-target valid.de"
)
QUESTIONS_EXAMPLE = "Example: pag prepare questions data/squad --train train-v1.1.json --test dev-v1.1.json"
FETCH_EXAMPLE = "Example: pag fetch wmt15/en-de --out data/wmt15-en-de"
Paths = list[Path] | None


def translation(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Prepared folder to make.")],
    train_source: Annotated[Paths, typer.Option(help="Text, plain, .gz or .xz; may be repeated.")] = None,
    train_target: Annotated[Paths, typer.Option(help="Its translation, line by line; as many files.")] = None,
    train_pairs: Annotated[Paths, typer.Option(help="Or both with a tab between; - is standard input.")] = None,
    valid_source: Annotated[Paths, typer.Option(help="Held-out text that training is watched on.")] = None,
    valid_target: Annotated[Paths, typer.Option(help="Its translation.")] = None,
    valid_pairs: Annotated[Paths, typer.Option(help="Or both with a tab between.")] = None,
    test_source: Annotated[Paths, typer.Option(help="Held-out text for the final score.")] = None,
    test_target: Annotated[Paths, typer.Option(help="Its translation.")] = None,
    test_pairs: Annotated[Paths, typer.Option(help="Or both with a tab between.")] = None,
    also: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SOURCE,TARGET", help="Another held-out set; may be repeated.")
    ] = None,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PAIRS", help="A set taken from the training pairs, as valid=2000; may be repeated."),
    ] = None,
    source_language: Annotated[str, typer.Option(help="Two-letter code.")] = "en",
    target_language: Annotated[str, typer.Option(help="Two-letter code.")] = "de",
    subwords: Annotated[int, typer.Option(help="Size of the source vocabulary (BPE).")] = 24_000,
    characters: Annotated[int, typer.Option(help="Most frequent target characters that are kept.")] = 300,
    max_source: Annotated[int, typer.Option(help="Longest training source, in subwords.")] = 50,
    max_target: Annotated[int, typer.Option(help="Longest training target, in characters.")] = 500,
    max_ratio: Annotated[float, typer.Option(help="Largest ratio of the sides' numbers of words.")] = 9.0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Write a prepared folder anew.")] = False,
) -> None:
    """Raw parallel text into a prepared folder, with a report of what is in it.

    Training pairs that are empty, too long, out of proportion or not UTF-8 are dropped, and counted in the report.
    Held-out sets are kept whole.
    """
    from pag.prepare.command import Files, further_sets, prepare_files, sizes

    settings = {
        "source_language": source_language, "target_language": target_language, "subwords": subwords,
        "characters": characters, "max_source": max_source, "max_target": max_target, "max_ratio": max_ratio,
        "hold_out": sizes(hold_out or ()),
    }  # fmt: skip
    splits = {
        "train": Files(train_source or (), train_target or (), train_pairs or ()),
        "valid": Files(valid_source or (), valid_target or (), valid_pairs or ()),
        "test": Files(test_source or (), test_target or (), test_pairs or ()),
        **further_sets(also or ()),
    }
    prepare_files(settings, splits, out, workers, replace)


def questions(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Prepared folder to make.")],
    train: Annotated[Paths, typer.Option(help="SQuAD's JSON, plain, .gz or .xz; may be repeated.")] = None,
    valid: Annotated[Paths, typer.Option(help="Held-out questions; default: taken from the training articles.")] = None,
    test: Annotated[Paths, typer.Option(help="Held-out questions for the final score.")] = None,
    articles: Annotated[
        list[str] | None,
        typer.Option(metavar="SPLIT=FILE", help="Titles of a split's articles, to share out all files anew."),
    ] = None,
    documents: Annotated[int, typer.Option(help="Size of the document vocabulary.")] = 64_000,
    shortlist: Annotated[int, typer.Option(help="Question words that need not be copied.")] = 2_000,
    max_document: Annotated[int, typer.Option(help="Longest document, in words.")] = 660,
    max_question: Annotated[int, typer.Option(help="Longest training question, in words.")] = 60,
    valid_questions: Annotated[
        int, typer.Option(help="Training questions held out where --valid is not given.")
    ] = 2_000,
    lower_case: Annotated[bool, typer.Option(help="Words that differ in case only are the same.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of validation articles.")] = 1,
    replace: Annotated[bool, typer.Option("--replace", help="Write a prepared folder anew.")] = False,
) -> None:
    """Documents, answers and questions into a prepared folder, with a report of what is in it.

    Questions that cannot be used are dropped, and counted in the report; validation shares no article with training.
    """
    from pag.prepare.command import prepare_questions

    settings = {
        "documents": documents, "shortlist": shortlist, "max_document": max_document, "max_question": max_question,
        "valid": valid_questions, "lower_case": lower_case, "seed": seed,
    }  # fmt: skip
    files = {"train": train or (), "valid": valid or (), "test": test or ()}
    prepare_questions(settings, files, articles or (), out, replace)


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="squad, wmt15/en-de, wmt15/en-cs or wmt15/en-fi.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder; default: data/NAME.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be downloaded.")] = False,
) -> None:
    """Download public data, verify and unpack it. Stopped, the same command goes on."""
    from pag import fetch as fetching

    found, folder = fetching.collection(name), out or Path("data") / name
    print("\n".join(fetching.plan(found, folder)))
    if found.note:
        print(found.note)
    if dry_run:
        return
    with _bars() as bars:
        fetching.fetch(found, folder, lambda title: _bar(bars, title))
    print(f"Now:\n{found.command(folder)}")


def _bars() -> "Progress":
    """Megabytes, rate and time left of each file, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    return Progress(
        *columns, TextColumn("left"), TimeRemainingColumn(), console=console, disable=not console.is_terminal
    )


def _bar(bars: "Progress", title: str) -> Callable[[int, int | None], None]:
    task = bars.add_task(title, total=None)
    return lambda done, total: bars.update(task, completed=done, total=total)
