"""Eulerian circuits in random graphs (paper, section 4.1; Li et al., gated graph sequence networks).

A graph is one cycle, the circuit, and one distractor cycle beside it, with permuted node names.
Every edge is written in both directions and in random order, then the query names the first two
nodes of the circuit, which makes the answer unique:

    3 connected-to 1 1 connected-to 3 … eulerian-circuit 3 1   →   3 1 4 2 3
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice, pairwise
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from pag.data.batch import Example
from pag.data.dataset import ListDataset
from pag.errors import DataError, InputError
from pag.tasks.base import Task, TaskSettings
from pag.text.vocabulary import SPECIALS, Vocabulary

EDGE, QUERY = "connected-to", "eulerian-circuit"
SPLITS = ("test", "valid", "train")  # made in this order, so that the test set depends on nothing else


class EulerSettings(TaskSettings):
    name: Literal["euler"] = "euler"
    nodes: int = Field(7, ge=3, description="nodes of the circuit")
    distractors: int = Field(4, ge=0, description="nodes of the other cycle; 0 for none, else at least 3")
    train: int = Field(10_000, ge=1, description="training graphs")
    valid: int = Field(500, ge=1)
    test: int = Field(1_000, ge=1)
    seed: int = Field(1, ge=0, description="of the graphs; train.seed is the model's")

    @model_validator(mode="after")
    def _a_cycle_has_three_nodes(self) -> Self:
        if 0 < self.distractors < 3:
            raise ValueError(f"distractors must be 0 or at least 3: no cycle has {self.distractors} nodes")
        return self


@dataclass(frozen=True)
class Graph:
    """A circuit and a distractor, as node names in order, and the order in which edges are told."""

    circuit: tuple[int, ...]
    distractor: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def edges(self) -> frozenset[frozenset[int]]:
        return frozenset(frozenset(pair) for cycle in (self.circuit, self.distractor) for pair in _around(cycle))

    def question(self) -> str:
        pairs = [*_around(self.circuit), *_around(self.distractor)]
        told = [*pairs, *((b, a) for a, b in pairs)]
        edges = " ".join(f"{a} {EDGE} {b}" for a, b in (told[i] for i in self.order))
        return f"{edges} {QUERY} {self.circuit[0]} {self.circuit[1]}"

    def answer(self) -> str:
        return " ".join(str(node) for node in (*self.circuit, self.circuit[0]))


def _around(cycle: Sequence[int]) -> list[tuple[int, int]]:
    return [(a, b) for a, b in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True)]


def draw(settings: EulerSettings, chance: np.random.Generator) -> Graph:
    n, m = settings.nodes, settings.distractors
    names = [int(name) + 1 for name in chance.permutation(n + m)]
    order = tuple(int(i) for i in chance.permutation(2 * (n + m)))
    return Graph(tuple(names[:n]), tuple(names[n:]), order)


def possible(settings: EulerSettings) -> int:
    """How many different graphs there are: choices of names times orders of each cycle.

    Two cycles of one length are the same graph whichever of them is the circuit.
    """
    n, m = settings.nodes, settings.distractors
    names = math.comb(n + m, n) // (2 if n == m else 1)
    other = math.factorial(m - 1) // 2 if m else 1
    return names * (math.factorial(n - 1) // 2) * other


@cache
def graphs(settings: EulerSettings) -> dict[str, list[Graph]]:
    """Every split, no graph in two of them and none twice in one."""
    wanted = {split: getattr(settings, split) for split in SPLITS}
    asked, there_are = sum(wanted.values()), possible(settings)
    if asked > there_are:
        raise DataError(
            f"task.train + task.valid + task.test = {asked} graphs, but only {there_are} different ones have "
            f"{settings.nodes} nodes and {settings.distractors} distractors: ask for fewer, or for more nodes"
        )
    seen: set[frozenset[frozenset[int]]] = set()
    return {split: list(islice(_new(settings, number, seen), wanted[split])) for number, split in enumerate(SPLITS)}


def _new(settings: EulerSettings, number: int, seen: set[frozenset[frozenset[int]]]) -> Iterator[Graph]:
    chance = np.random.default_rng([settings.seed, number])
    while True:
        graph = draw(settings, chance)
        if graph.edges not in seen:
            seen.add(graph.edges)
            yield graph


class EulerTask(Task):
    Settings = EulerSettings
    metrics = {"exact": "max", "valid": "max", "sorted": "max", "token": "max"}

    def __init__(self, settings: EulerSettings, vocabulary: Vocabulary) -> None:
        self.settings = settings
        self.source = self.target = vocabulary

    @classmethod
    def build(cls, settings: EulerSettings) -> "EulerTask":
        nodes = [str(node + 1) for node in range(settings.nodes + settings.distractors)]
        return cls(settings, Vocabulary.of([EDGE, QUERY, *nodes]))

    @classmethod
    def load(cls, settings: EulerSettings, files: dict[str, Any]) -> "EulerTask":
        return cls(settings, Vocabulary(files["vocabulary.json"]["source"]))

    @cached_property
    def graphs(self) -> dict[str, list[Graph]]:
        return graphs(self.settings)

    def inputs(self, split: str) -> list[str]:
        return [graph.question() for graph in self.graphs[split]]

    def references(self, split: str) -> list[str]:
        return [graph.answer() for graph in self.graphs[split]]

    def examples(self, split: str) -> ListDataset:
        both = zip(self.inputs(split), self.references(split), strict=True)
        return ListDataset([Example(self.source.encode(q.split()), self.target.encode(a.split())) for q, a in both])

    def encode(self, text: str) -> Example:
        return Example(self.encode_output(spelled_out(text)))

    def encode_output(self, text: str) -> list[int]:
        symbols = text.split()
        for place, symbol in enumerate(symbols):
            if symbol not in self.source or symbol in SPECIALS:
                known = f"'{EDGE}', '{QUERY}' and the nodes 1 to {self.settings.nodes + self.settings.distractors}"
                raise InputError(f"symbol {place + 1}, '{symbol[:40]}', is not in the vocabulary ({known} are)")
        return self.source.encode(symbols)

    def decode(self, ids: Sequence[int], example: Example | None = None, copied: Sequence[int] | None = None) -> str:
        return " ".join(self.target.decode(ids))

    def score(self, outputs: Sequence[str], inputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        triples = list(zip(outputs, inputs, references, strict=True))
        return {
            "exact": _share(output == reference for output, _, reference in triples),
            "valid": _share(is_circuit(output, question) for output, question, _ in triples),
            "sorted": _share(sorted(output.split()) == sorted(reference.split()) for output, _, reference in triples),
            "token": _token_accuracy(outputs, references),
        }


def spelled_out(text: str) -> str:
    """The short form "1-2 2-3 3-1 start 1 2" in the task's own words; any other text as it is."""
    words = text.split()
    pairs = [word.split("-") for word in words[:-3]]
    if words[-3:-2] != ["start"] or any(len(pair) != 2 for pair in pairs):
        return text
    told = [f"{a} {EDGE} {b} {b} {EDGE} {a}" for a, b in pairs]
    return " ".join([*told, QUERY, *words[-2:]])


def is_circuit(output: str, question: str) -> bool:
    """Does the output walk every edge of the queried node's component exactly once, and return?"""
    *told, first, second = question.split()
    pairs = zip(told[:-1:3], told[2:-1:3], strict=True)
    edges = {frozenset(pair) for pair in pairs}
    component = {first}
    while grown := {n for edge in edges if edge & component for n in edge} - component:
        component |= grown
    walk = output.split()
    steps = Counter(frozenset(pair) for pair in pairwise(walk))
    wanted = Counter(edge for edge in edges if edge & component)
    return walk[:2] == [first, second] and walk[-1] == first and steps == wanted


def _share(truths: Iterator[bool] | Any) -> float:
    values = list(truths)
    return sum(values) / len(values)


def _token_accuracy(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Share of reference positions at which the output has the same symbol."""
    pairs = [(output.split(), reference.split()) for output, reference in zip(outputs, references, strict=True)]
    right = sum(a == b for output, reference in pairs for a, b in zip(output, reference, strict=False))
    return right / sum(len(reference) for _, reference in pairs)
