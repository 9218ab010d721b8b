"""What a run says: a JSON line per event, TensorBoard, and a live display."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from pag.checkpoint import cannot_write

QUIET_SECONDS = 10.0  # between lines where there is no live display


class RunLog:
    """`log.jsonl` and `tensorboard/` of a run folder."""

    def __init__(self, folder: Path, update: int) -> None:
        """Lines past `update` (written after the checkpoint that is resumed) are dropped; −1 drops all."""
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "log.jsonl"
        self._rewind(update)
        self.file = self.path.open("a", encoding="utf-8")
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=update + 1)

    def _rewind(self, update: int) -> None:
        if not self.path.exists():
            return
        kept = [line for line in self.path.read_text("utf-8").split("\n") if _update_of(line) <= update]
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text("".join(f"{line}\n" for line in kept), "utf-8")
        os.replace(unfinished, self.path)

    def write(self, kind: str, update: int, values: dict[str, Any]) -> None:
        try:
            self.file.write(json.dumps({"kind": kind, "update": update, **values}, ensure_ascii=False) + "\n")
            self.file.flush()
        except OSError as error:
            raise cannot_write(self.path, error) from None
        for name, value in values.items():
            if isinstance(value, int | float):
                self.board.add_scalar(f"{kind}/{name}", value, update)

    def histogram(self, name: str, update: int, counts: list[int]) -> None:
        """Counts of the values 1, 2, …"""
        if not sum(counts):
            return
        self.board.add_histogram_raw(
            name,
            min=1,
            max=len(counts),
            num=sum(counts),
            sum=sum((i + 1) * c for i, c in enumerate(counts)),
            sum_squares=sum((i + 1) ** 2 * c for i, c in enumerate(counts)),
            bucket_limits=[i + 1.5 for i in range(len(counts))],
            bucket_counts=counts,
            global_step=update,
        )

    def close(self) -> None:
        self.file.close()
        self.board.close()


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a line cut short by a kill


class Display:
    """Live progress on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        self.console, self.total = console, total
        self.live = console.is_terminal
        self.progress = Progress(
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console,
        )  # fmt: skip
        self.task = self.progress.add_task("training", total=total, completed=done, facts="")
        self.started, self.start, self.spoke = time.monotonic(), done, time.monotonic()

    def __enter__(self) -> Self:
        if self.live:
            self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.progress.stop()

    def show(self, update: int, facts: dict[str, float]) -> None:
        text = "  ".join(f"{name} {_short(value)}" for name, value in facts.items())
        if self.live:
            self.progress.update(self.task, completed=update, facts=text)
        elif time.monotonic() - self.spoke > QUIET_SECONDS or update == self.total:
            self.spoke = time.monotonic()
            rate = (update - self.start) / max(1e-9, self.spoke - self.started)
            left = (self.total - update) / max(1e-9, rate)
            self.say(f"update {update}/{self.total}  {text}  {clock(left)} left")

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def samples(self, rows: list[tuple[str, str, str]]) -> None:
        """Input, output and reference of a few validation examples."""
        if not rows:
            return
        table = Table("input", "output", "right one", box=None, pad_edge=False, header_style="dim")
        for source, output, reference in rows:
            mark = "" if output == reference else "  ✗"
            table.add_row(source, output + mark, reference)
        self.console.print(table)


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@contextmanager
def ticking(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with rate and time left on a terminal; silent elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
