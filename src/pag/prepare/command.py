"""`pag prepare translation`: files named on the command line, a progress bar, and the report at the end."""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pag.errors import DataError
from pag.prepare.reading import Corpus, Pairs
from pag.prepare.report import as_text
from pag.prepare.settings import PrepareSettings
from pag.prepare.translation import prepare
from pag.prepare.workers import usable_cores

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


def prepare_files(
    settings: Mapping[str, Any], splits: Mapping[str, Files], out: Path, workers: int | None, replace: bool
) -> None:
    """Prepare a folder, and print its report."""
    try:
        checked = PrepareSettings.model_validate(settings)
    except ValidationError as error:
        problems = "; ".join(
            f"{item['loc'][0]}: {item['msg'].lower()}, not {item['input']!r}" for item in error.errors()
        )
        raise DataError(f"cannot prepare: {problems}") from None
    corpora = {split: corpus for split, files in splits.items() if (corpus := files.corpus(split)) is not None}
    console = Console(stderr=True)
    with _tidy_when_stopped(), Meter.running(console) as meter:
        report = prepare(checked, corpora, out, workers or usable_cores(), meter.tell, replace)
    print(as_text(report), end="")
    console.print(f"{meter.rate(report):,.0f} pairs/s; prepared folder {out}", highlight=False, soft_wrap=True)


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

    def __init__(self, console: Console) -> None:
        self.console, self.live = console, console.is_terminal
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"))
        self.bar = Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console)
        self.started = self.spoke = time.monotonic()
        self.stage, self.since = "", self.started

    @classmethod
    @contextmanager
    def running(cls, console: Console) -> Any:
        meter = cls(console)
        if meter.live:
            meter.bar.start()
        try:
            yield meter
        finally:
            meter.bar.stop()

    def tell(self, stage: str, pairs: int, share: float) -> None:
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.since = stage, now
            self.task = self.bar.add_task(stage, total=1.0 if share else None, facts="")
        spent = now - self.since
        facts = f"{pairs:,} pairs" + (f", {pairs / spent:,.0f}/s" if spent > 0.5 else "") if pairs else ""
        self.bar.update(self.task, completed=share, total=1.0 if share else None, facts=facts)
        if not self.live and now - self.spoke > QUIET_SECONDS:
            self.spoke = now
            left = f", {spent * (1 - share) / share:.0f} s left" if share else ""
            self.console.print(f"{stage}: {facts}{left}", highlight=False, soft_wrap=True)

    def rate(self, report: Mapping[str, Any]) -> float:
        """Pairs read a second, over everything."""
        read = sum(facts["read"] for facts in report["splits"].values())
        return float(read / (time.monotonic() - self.started))
