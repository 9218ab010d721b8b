"""A step captured once and replayed: a CUDA graph launches all its kernels without asking Python again."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Generic, TypeVar

import torch

from pag.state import State, overwrite

S = TypeVar("S", bound=State)
G = TypeVar("G", bound=State)
Once = Callable[[], None]
Recorder = Callable[[Once], Once]  # takes work on fixed memory, gives back what repeats it


class Replay(Generic[S, G]):
    """`step` on fixed memory: each call reads `state`, overwrites it with the next one and returns what the step gave.

    What the step gives has the shapes of `example`. Only the state and a copy of what it gave outlive a call, so
    that graphs may share their working memory.
    """

    def __init__(self, step: Callable[[S], tuple[S, G]], state: S, example: G, record: Recorder) -> None:
        self.step = step
        self.state, self.given = state.map(torch.clone), example.map(torch.clone)
        self.run = record(self.once)

    def once(self) -> None:
        state, given = self.step(self.state)
        overwrite(self.state, state)
        overwrite(self.given, given)

    def __call__(self) -> G:
        self.run()
        return self.given.map(torch.clone)


class Graphs:
    """Records CUDA graphs on one device. They share one pool of memory, which the last of them keeps alive."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.lock = device, Lock()
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)
        self.last: torch.cuda.CUDAGraph | None = None

    def __call__(self, once: Once) -> Once:
        """The work must have run before: the first run of a kernel compiles it, which cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        with self.lock, torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
                try:
                    once()
                except BaseException:
                    with suppress(RuntimeError):  # what spoiled the capture matters, not that it was spoiled
                        graph.capture_end()
                    raise
                graph.capture_end()
            current.wait_stream(self.stream)
            self.last = graph
        return graph.replay


@cache
def graphs(device: torch.device) -> Graphs:
    return Graphs(device)
