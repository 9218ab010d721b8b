"""Batches made one step ahead of their use, in a thread of their own."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pag.data.batch import Batch
from pag.data.sampler import Position, Sampler

AHEAD = 3


@dataclass(frozen=True)
class Loaded:
    numbers: np.ndarray  # of the examples, all processes' together
    batch: Batch | None  # this process's share; None where it has none


class Loader:
    """Its position is that of the batches handed out, not of those made ahead."""

    def __init__(self, sampler: Sampler, make: Callable[[np.ndarray], Batch | None]) -> None:
        self.sampler, self.make = sampler, make
        self.position = sampler.position
        self.pool = ThreadPoolExecutor(1)
        self.queue: deque[tuple[np.ndarray, Position, Future[Batch | None]]] = deque()

    def __next__(self) -> Loaded:
        while len(self.queue) < AHEAD:
            numbers = next(self.sampler)
            self.queue.append((numbers, self.sampler.position, self.pool.submit(self.make, numbers)))
        numbers, self.position, made = self.queue.popleft()
        return Loaded(numbers, made.result())

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
