"""Requests that arrive together are searched together.

One thread per model takes the oldest request and every other that has the same options, waits a few
milliseconds for more, and runs them as one batch. No output depends on the batch around it.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pag.generator import Generator, Result, Score
from pag.hypotheses import Slots, Step
from pag.search import Options
from pag.server.limits import Limits, Refusal
from pag.server.metrics import Metrics
from pag.watch import Prefix, prefix

logger = logging.getLogger("pag.server")


@dataclass(eq=False)
class Job:
    """One accepted request. Its answer is a Result, a Score or an exception."""

    text: str
    options: Options | None  # of a search; None for scoring a given output
    output: str = ""
    show: Callable[[Prefix], None] | None = None  # is told, in the event loop, what the search has so far
    answer: "asyncio.Future[Result | Score]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    gone: bool = False  # nobody waits for it any more

    @property
    def width(self) -> int:
        return max(self.options.beam, self.options.n_best) if self.options else 1


class Abandoned(Exception):  # noqa: N818
    """Everyone who asked for a batch has gone."""


class Batcher:
    """The queue and the thread of one model."""

    def __init__(self, name: str, generator: Generator, limits: Limits, metrics: Metrics) -> None:
        self.name, self.generator, self.limits, self.metrics = name, generator, limits, metrics
        self.waiting: deque[Job] = deque()
        self.changed = threading.Condition()
        self.closing = False
        self.rate = 0.0  # jobs per second, as last seen
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self._work, name=f"pag {name}", daemon=True)

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread.start()

    def close(self) -> None:
        """Finish what was accepted; take nothing more."""
        with self.changed:
            self.closing = True
            self.changed.notify()
        self.thread.join()

    def submit(self, job: Job) -> None:
        with self.changed:
            if self.closing:
                raise Refusal(503, "closing", "the server is shutting down", 1)
            if len(self.waiting) >= self.limits.queue:
                self.waiting = deque(waiting for waiting in self.waiting if not waiting.gone)
            if len(self.waiting) >= self.limits.queue:
                wait = self._seconds_to_wait()
                message = f"{len(self.waiting)} requests are waiting, which is the limit: try again in {wait} s"
                raise Refusal(429, "busy", message, wait)
            self.waiting.append(job)
            if len(self.waiting) == 1 or len(self.waiting) * job.width >= self.limits.batch:
                self.changed.notify()  # the thread sleeps until there is one, or enough

    def _seconds_to_wait(self) -> int:
        return max(1, min(60, math.ceil(len(self.waiting) / self.rate))) if self.rate else 1

    def _work(self) -> None:
        while jobs := self._collect():
            started = time.monotonic()
            self._deliver(jobs, self._answers(jobs))
            seconds = time.monotonic() - started
            self.rate = len(jobs) / max(seconds, 1e-6)
            self.metrics.batch(self.name, len(jobs), seconds)

    def _collect(self) -> list[Job]:
        """The oldest job and those that can run with it; none when the server closes and all is done."""
        with self.changed:
            while not self.waiting and not self.closing:
                self.changed.wait()
            until = time.monotonic() + self.limits.window
            while self.waiting and not self.closing and not self._enough():
                left = until - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    break
            return self._take() if self.waiting else []

    def _enough(self) -> bool:
        return len(self.waiting) * self.waiting[0].width >= self.limits.batch

    def _take(self) -> list[Job]:
        first = self.waiting[0]
        jobs: list[Job] = []
        others: list[Job] = []
        room = max(1, self.limits.batch // first.width)
        while self.waiting and len(jobs) < room:
            job = self.waiting.popleft()
            (jobs if job.options == first.options else others).append(job)
        self.waiting.extendleft(reversed(others))
        return jobs

    def _answers(self, jobs: Sequence[Job]) -> dict[Job, Any]:
        wanted = [job for job in jobs if not job.gone]
        if not wanted:
            return {}
        try:
            found = self._search(wanted) if wanted[0].options else self._score(wanted)
        except Abandoned:
            return {}
        except Exception:
            logger.exception("a batch of %s failed", self.name)
            found = [Refusal(500, "internal", "the server failed; its log says why")] * len(wanted)
        return dict(zip(wanted, found, strict=True))

    def _search(self, jobs: Sequence[Job]) -> Sequence[Any]:
        def watch(numbers: Sequence[int], steps: Sequence[Step], slots: Slots) -> None:
            self._watch([jobs[number] for number in numbers], steps, slots)

        options = jobs[0].options
        assert options is not None
        return list(self.generator.stream([job.text for job in jobs], options, len(jobs), watch))

    def _score(self, jobs: Sequence[Job]) -> Sequence[Any]:
        return self.generator.score([job.text for job in jobs], [job.output for job in jobs], len(jobs))

    def _watch(self, jobs: Sequence[Job], steps: Sequence[Step], slots: Slots) -> None:
        if all(job.gone for job in jobs):
            raise Abandoned
        for i, sentence in enumerate(slots.sentence.tolist() if any(job.show for job in jobs) else ()):
            job = jobs[sentence]
            if job.show and not job.gone and job.options:
                self._tell(job.show, prefix(steps, slots, i, job.options.length_penalty))

    def _deliver(self, jobs: Sequence[Job], answers: dict[Job, Any]) -> None:
        self._tell(_resolve, [(job, answers.get(job)) for job in jobs])

    def _tell(self, listener: Callable[[Any], None], news: Any) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(listener, news)


def _resolve(answers: Sequence[tuple[Job, Any]]) -> None:
    for job, answer in answers:
        if job.answer.done():
            continue
        if answer is None:  # nobody waits for it
            job.answer.cancel()
        elif isinstance(answer, BaseException):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)
