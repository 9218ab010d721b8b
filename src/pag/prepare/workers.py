"""Work spread over processes: results in order, and never many blocks in memory at once."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from pag.errors import DataError

Result = TypeVar("Result")
AHEAD = 3  # blocks in flight for each process


class Workers:
    """`count` processes; with one, the work is done in this process."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_set_up) if count > 1 else None

    def map(self, work: Callable[..., Result], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
        """`work(*arguments)` for each, in order; the iterable is read only a little ahead."""
        if self.pool is None:
            yield from (work(*given) for given in arguments)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for given in arguments:
                waiting.append(self.pool.submit(work, *given))
                if len(waiting) >= AHEAD * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise DataError("a worker process died (out of memory?): try fewer with --workers") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=kind is None, cancel_futures=True)


def _set_up() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C means
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
