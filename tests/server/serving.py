"""A server in this process, with small models that both follow and re-plan."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import torch
import uvicorn

from pag.config import read_recipe
from pag.generator import Generator
from pag.model import Seq2Seq
from pag.server.app import create_app
from pag.server.command import bind
from pag.server.limits import Limits
from pag.tasks.euler import EulerTask
from pag.tasks.facts import FactsTask
from tiny import tiny


def generator(attention: str, seed: int = 26) -> Generator:
    """Random weights, large enough that outputs differ and switches turn off."""
    recipe = tiny(attention={"name": attention})
    task = EulerTask.build(recipe.task)
    model = Seq2Seq(recipe, len(task.source), len(task.target))
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1.5 * torch.randn(weight.shape, generator=chance) / weight.shape[-1] ** 0.5
    return Generator(recipe, task, model, "cpu")


def asker() -> Generator:
    """A model that asks questions about made-up facts, untrained."""
    recipe = read_recipe("questions/tiny", ["task.train=30", "task.valid=2", "task.test=4", "generate.max_length=8"])
    task = FactsTask.build(recipe.task)
    return Generator(recipe, task, Seq2Seq(recipe, len(task.source), len(task.target)), "cpu")


@dataclass(frozen=True)
class Serving:
    url: str
    generators: dict[str, Generator]

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False, verify=False, **options)

    def inputs(self) -> list[str]:
        return list(next(iter(self.generators.values())).task.inputs("test"))


@contextmanager
def serving(generators: dict[str, Generator], limits: Limits | None = None, **more: Any) -> Iterator[Serving]:
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(create_app(generators, limits, **more), log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield Serving(f"http://127.0.0.1:{listening.getsockname()[1]}", generators)
    finally:
        server.should_exit = True
        thread.join()


class Gate:
    """A model whose every step waits until it is let through."""

    def __init__(self) -> None:
        self.generator = generator("pag")
        self.reached, self.steps, self.permits = threading.Event(), 0, threading.Semaphore(0)
        step = self.generator.model.step

        def wait(*given: Any, **more: Any) -> Any:
            self.steps += 1
            self.reached.set()
            assert self.permits.acquire(timeout=60)
            return step(*given, **more)

        self.generator.model.step = wait  # type: ignore[method-assign]

    def let(self, steps: int) -> None:
        self.permits.release(steps)


@contextmanager
def gated(limits: Limits) -> Iterator[tuple[Serving, Gate]]:
    gate = Gate()
    with serving({"pag": gate.generator}, limits) as server:
        try:
            yield server, gate
        finally:
            gate.let(1000)
