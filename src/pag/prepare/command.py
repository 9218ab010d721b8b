"""`pag prepare`: files named on the command line, a progress bar, and the report at the end."""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pag.config import Settings
from pag.errors import DataError
from pag.prepare import question_report, questions, squad
from pag.prepare.reading import Corpus, Pairs
from pag.prepare.report import as_text
from pag.prepare.settings import PrepareSettings, QuestionSettings
from pag.prepare.translation import prepare
from pag.prepare.workers import usable_cores

Checked = TypeVar("Checked", bound=Settings)
QUIET_SECONDS = 10.0  # between lines where there is no live display


@dataclass(frozen=True)
class Files:
    """One split as it is named on the command line: two lists of files, or files of pairs."""

    source: Sequence[Path] = ()
    target: Sequence[Path] = ()
    pairs: Sequence[Path] = ()

    def corpus(self, split: str) -> Corpus | None:
        if self.pairs and (self.source or self.target):
            raise DataError(f"{split}: give either pairs, or a source and a target, not both")
        if self.pairs:
            return Pairs(self.pairs)
        if not self.source and not self.target:
            return None
        return Corpus(self.source, self.target)

    @classmethod
    def parse(cls, text: str) -> tuple[str, Self]:
        """`newstest2014=news.en,news.de`: another held-out set, by its name."""
        name, equals, files = text.partition("=")
        both = files.split(",")
        if not equals or not name.isidentifier() or len(both) != 2:
            raise DataError(f"--also {text}: expected NAME=SOURCE,TARGET, as in newstest2014=news.en,news.de")
        return name, cls([Path(both[0])], [Path(both[1])])


def further_sets(also: Sequence[str]) -> dict[str, Files]:
    """Held-out sets beside those that have options of their own."""
    found: dict[str, Files] = {}
    for text in also:
        name, files = Files.parse(text)
        if name in ("train", "valid", "test", *found):
            raise DataError(f"--also {text}: there is already a set of that name; choose another")
        found[name] = files
    return found


def sizes(asked: Sequence[str]) -> dict[str, int]:
    """`valid=2000`: sets to be held out of the training pairs."""
    found: dict[str, int] = {}
    for text in asked:
        name, _, pairs = text.partition("=")
        if not name.isidentifier() or not pairs.isdecimal() or int(pairs) == 0 or name in ("train", *found):
            raise DataError(f"--hold-out {text}: expected NAME=PAIRS, as in valid=2000, each name once, and not train")
        found[name] = int(pairs)
    return found


def prepare_files(
    settings: Mapping[str, Any], splits: Mapping[str, Files], out: Path, workers: int | None, replace: bool
) -> None:
    """Prepare a folder, and print its report."""
    checked = _checked(PrepareSettings, settings)
    paths = {split: (*files.source, *files.target, *files.pairs) for split, files in splits.items()}
    _refuse_sharing_input([path for several in paths.values() for path in several])
    if checked.hold_out and Path("-") in paths["train"]:
        raise DataError("--hold-out reads the training pairs twice, but standard input (-) is read once: give a file")
    corpora = {split: corpus for split, files in splits.items() if (corpus := files.corpus(split)) is not None}
    console = Console(stderr=True)
    with _tidy_when_stopped(), Meter.running(console) as meter:
        report = prepare(checked, corpora, out, workers or usable_cores(), meter.tell, replace)
    print(as_text(report), end="")
    console.print(f"{meter.rate(report):,.0f} pairs/s; prepared folder {out}", highlight=False, soft_wrap=True)


def prepare_questions(
    settings: Mapping[str, Any], splits: Mapping[str, Sequence[Path]], lists: Sequence[str], out: Path, replace: bool
) -> None:
    """Prepare a folder of questions, and print its report; `lists` are SPLIT=FILE with titles of articles."""
    checked = _checked(QuestionSettings, settings)
    _refuse_sharing_input([path for paths in splits.values() for path in paths])
    console = Console(stderr=True)
    with _tidy_when_stopped(), Meter.running(console, "questions") as meter:
        articles = {split: [a for path in paths for a in squad.read(path)] for split, paths in splits.items() if paths}
        if lists:
            articles = dict(questions.share_out([a for group in articles.values() for a in group], _titles(lists)))
        if "train" not in articles:
            raise DataError("no training questions: give SQuAD's files with --train, or a list with --articles train=…")
        report = questions.prepare(checked, articles, out, meter.tell, replace)
    print(question_report.as_text(report), end="")
    console.print(f"{meter.rate(report):,.0f} questions/s; prepared folder {out}", highlight=False, soft_wrap=True)


def _refuse_sharing_input(paths: Sequence[Path]) -> None:
    """Two readers of one stream would each get some of it."""
    asked = sum(str(path) == "-" for path in paths)
    if asked > 1:
        raise DataError(
            f"standard input (-) is asked for {asked} times, but can be read once: give it for one file "
            "(--train-pairs - takes both sides, a tab between)"
        )


def _titles(lists: Sequence[str]) -> dict[str, list[str]]:
    """Each split's titles; several lists of one split are one."""
    found: dict[str, dict[str, None]] = {}
    for text in lists:
        split, equals, path = text.partition("=")
        if not equals or not split.isidentifier():
            raise DataError(f"--articles {text}: expected SPLIT=FILE, as in train=doclist-train.txt")
        found.setdefault(split, {}).update(dict.fromkeys(squad.titles(Path(path))))
    return {split: list(named) for split, named in found.items()}


def _checked(kind: type[Checked], settings: Mapping[str, Any]) -> Checked:
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        problems = "; ".join(
            f"{item['loc'][0]}: {item['msg'].lower()}, not {item['input']!r}" for item in error.errors()
        )
        raise DataError(f"cannot prepare: {problems}") from None


@contextmanager
def _tidy_when_stopped() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: what is unfinished is removed."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Meter:
    """How far the preparation is: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, unit: str) -> None:
        self.console, self.live, self.unit = console, console.is_terminal, unit
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"))
        self.bar = Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console)
        self.started = self.spoke = time.monotonic()
        self.stage, self.since = "", self.started

    @classmethod
    @contextmanager
    def running(cls, console: Console, unit: str = "pairs") -> Any:
        meter = cls(console, unit)
        if meter.live:
            meter.bar.start()
        try:
            yield meter
        finally:
            if meter.live:
                meter.bar.stop()

    def tell(self, stage: str, pairs: int, share: float) -> None:
        now = time.monotonic()
        if stage != self.stage:
            for before in self.bar.task_ids[-1:]:
                self.bar.update(before, completed=1.0, total=1.0)
            self.stage, self.since = stage, now
            self.task = self.bar.add_task(stage, total=1.0 if share else None, facts="")
        spent = now - self.since
        facts = f"{pairs:,} {self.unit}" + (f", {pairs / spent:,.0f}/s" if spent > 0.5 else "") if pairs else ""
        self.bar.update(self.task, completed=share, total=1.0 if share else None, facts=facts)
        if not self.live and now - self.spoke > QUIET_SECONDS:
            self.spoke = now
            left = f", {spent * (1 - share) / share:.0f} s left" if share else ""
            self.console.print(f"{stage}: {facts}{left}", highlight=False, soft_wrap=True)

    def rate(self, report: Mapping[str, Any]) -> float:
        """Pairs read a second, over everything."""
        read = sum(facts["read"] for facts in report["splits"].values())
        return float(read / (time.monotonic() - self.started))
