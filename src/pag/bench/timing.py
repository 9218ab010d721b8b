"""A race: contestants take turns, so that what else the machine does hits all of them alike."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

LEAST = 3  # runs of each contestant, however slow
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": lambda: time.perf_counter(),
    "cpu": lambda: time.process_time(),  # all threads' processor time: what others do on the machine hardly shows
}


def nothing() -> None:
    pass


@dataclass(frozen=True)
class Contestant:
    """Something to be timed. `reset` puts it back before each run, outside the clock."""

    model: str  # baseline, rpag, pag or joeynmt
    backend: str
    run: Callable[[], Any]
    reset: Callable[[], Any] = nothing
    note: str = ""
    absent: str = ""  # why it cannot take part


@dataclass(frozen=True)
class Timing:
    times: tuple[float, ...] = ()  # milliseconds
    peak_mib: float | None = None  # allocated on the GPU, beyond weights and inputs
    reserved_mib: float | None = None  # what the first run made PyTorch reserve: captured graphs included
    error: str = ""  # why it could not run

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.times) < 2:
            return self.times[0], self.times[0]
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high


def race(
    contestants: Sequence[Contestant], device: str, rounds: int, patience: float, clock: str = "wall"
) -> list[Timing]:
    """Warm everyone up, then let them take turns; a slow one sits out once its time is spent."""
    lanes = [_Lane(contestant, torch.device(device), CLOCKS[clock]) for contestant in contestants]
    for lane in lanes:
        lane.warm_up()
    for _ in range(rounds):
        for lane in lanes:
            if lane.goes_on(patience):
                lane.run()
    return [lane.timing() for lane in lanes]


class _Lane:
    """One contestant's runs."""

    def __init__(self, contestant: Contestant, device: torch.device, clock: Callable[[], float]) -> None:
        self.contestant, self.clock = contestant, clock
        self.device, self.cuda = device, device.type == "cuda"
        self.times: list[float] = []
        self.peak = self.kept = self.reserved = 0
        self.error = contestant.absent

    def goes_on(self, patience: float) -> bool:
        return not self.error and (len(self.times) < LEAST or sum(self.times) < 1000 * patience)

    def warm_up(self) -> None:
        """The first run compiles, captures and allocates; one that cannot run says why and sits out."""
        if self.error:
            return
        if self.cuda:
            torch.cuda.empty_cache()
            allocated, reserved = torch.cuda.memory_allocated(self.device), torch.cuda.memory_reserved(self.device)
        try:
            self.contestant.run()
            self.contestant.reset()
            self.contestant.run()
        except Exception as error:
            first = (str(error).strip() or "no message").splitlines()[0]
            self.error = f"failed: {type(error).__name__}: {first}"
        self.contestant.reset()
        if self.cuda:
            torch.cuda.synchronize(self.device)
            self.kept = torch.cuda.memory_allocated(self.device) - allocated
            self.reserved = torch.cuda.memory_reserved(self.device) - reserved

    def run(self) -> None:
        self.contestant.reset()
        self.times.append(self._on_cuda() if self.cuda else self._on_cpu())

    def _on_cpu(self) -> float:
        started = self.clock()
        self.contestant.run()
        return 1000 * (self.clock() - started)

    def _on_cuda(self) -> float:
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self.contestant.run()
        end.record()
        torch.cuda.synchronize(self.device)
        self.peak = max(self.peak, torch.cuda.max_memory_allocated(self.device) - before + self.kept)
        return start.elapsed_time(end)

    def timing(self) -> Timing:
        if not self.cuda:
            return Timing(tuple(self.times), error=self.error)
        return Timing(tuple(self.times), self.peak / 2**20, self.reserved / 2**20, self.error)
