"""What a search leaves behind at every step, and the hypotheses that are read from it in the end."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.state import State

RECORDED = ("alignment", "plan", "gate", "switch", "commitment", "copying")


@dataclass(frozen=True)
class Hypothesis:
    """One output with its end symbol, and what the model looked at on the way."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    log_probs: tuple[float, ...] = ()  # of each token
    record: dict[str, np.ndarray] | None = None  # alignment [T, S], plan [T, k, S], switch [T], …


@dataclass(frozen=True)
class Step(State):
    """One step of the search; rows are sentences × slots as they were then."""

    tokens: Tensor  # chosen [R]
    parents: Tensor  # the row of this step's input that each continues [R]
    totals: Tensor  # log-probability of each so far [R]
    glimpse: Glimpse | None = None
    origin: Tensor | None = None  # the row of the previous step's output that each input row was, unless the same


@dataclass(frozen=True)
class Slots(State):
    """The hypotheses of each sentence, one row per sentence."""

    sentence: Tensor  # number in the batch [N]
    age: Tensor  # steps taken [N]
    totals: Tensor  # log-probability of each live hypothesis, -inf where a slot is not live [N, W]
    count: Tensor  # finished hypotheses [N]
    finished: Tensor  # their log-probabilities [N, W]
    step: Tensor  # the step at which each finished [N, W]
    row: Tensor  # and its row there [N, W]


@dataclass(frozen=True)
class Ending:
    """A finished hypothesis that is still to be followed back."""

    sentence: int
    step: int
    row: int
    log_prob: float
    score: float


class Backtrace:
    """Follows the best finished hypotheses back to their first token, all of them together."""

    def __init__(self, steps: Sequence[Step], done: Sequence[Slots], lengths: Sequence[int]) -> None:
        self.tokens = _on_host([step.tokens for step in steps])
        self.parents = _on_host([step.parents for step in steps])
        self.totals = _on_host([step.totals for step in steps])
        self.origins = [None if step.origin is None else step.origin.cpu().numpy() for step in steps]
        self.glimpses = [_arrays(step.glimpse) for step in steps if step.glimpse is not None]
        self.done, self.lengths = [slots.to("cpu") for slots in done], lengths

    def hypotheses(self, n_best: int, length_penalty: float) -> list[list[Hypothesis]]:
        """The n best of each sentence, best first."""
        found: list[list[Hypothesis]] = [[] for _ in self.lengths]
        endings = self.endings(n_best, length_penalty)
        for ending, ids, path, totals in zip(endings, *self.trace(endings), strict=True):
            length = ending.step + 1
            record = self.record(path[:length], self.lengths[ending.sentence]) if self.glimpses else None
            each = tuple(np.diff(totals[:length], prepend=0.0).tolist())
            hypothesis = Hypothesis(tuple(ids[:length].tolist()), ending.log_prob, ending.score, each, record)
            found[ending.sentence].append(hypothesis)
        return [sorted(of_one, key=lambda h: -h.score) for of_one in found]

    def endings(self, n_best: int, length_penalty: float) -> list[Ending]:
        """The n best of each sentence, those that ended last first."""
        kept: list[Ending] = []
        for slots in self.done:
            columns = (slots.sentence, slots.count, slots.step, slots.row, slots.finished)
            for sentence, count, *ends in zip(*(x.tolist() for x in columns), strict=True):
                of_one = [
                    Ending(sentence, step, row, log_prob, log_prob / (step + 1) ** length_penalty)
                    for step, row, log_prob in list(zip(*ends, strict=True))[:count]
                ]
                kept += sorted(of_one, key=lambda ending: -ending.score)[:n_best]
        return sorted(kept, key=lambda ending: -ending.step)

    def trace(self, endings: Sequence[Ending]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The token of every step, the row that its glimpse is in, and the log-probability up to it [endings, T]."""
        last = np.array([ending.step for ending in endings], dtype=np.int64)
        row = np.array([ending.row for ending in endings], dtype=np.int64)
        tokens = np.zeros((len(endings), last.max(initial=-1) + 1), dtype=np.int64)
        rows, totals = np.zeros_like(tokens), np.zeros(tokens.shape)
        for t in range(tokens.shape[1] - 1, -1, -1):
            alive = int(np.searchsorted(-last, -t, side="right"))  # those that ended at t or later come first
            tokens[:alive, t] = self.tokens[t][row[:alive]]
            totals[:alive, t] = self.totals[t][row[:alive]]
            rows[:alive, t] = parents = self.parents[t][row[:alive]]
            origin = self.origins[t]
            row[:alive] = parents if origin is None else origin[parents]
        return tokens, rows, totals

    def record(self, rows: np.ndarray, source_length: int) -> dict[str, np.ndarray]:
        names = self.glimpses[0]
        joined = {name: np.stack([self.glimpses[t][name][row] for t, row in enumerate(rows)]) for name in names}
        return {
            name: value[..., :source_length] if name in ("alignment", "plan", "gate") else value
            for name, value in joined.items()
        }


def to_copy(glimpse: Glimpse) -> Glimpse | None:
    """What says where an output was copied from; nothing where nothing can be."""
    if glimpse.copying is None:
        return None
    return Glimpse(glimpse.alignment, glimpse.context[:, :0].clone(), copying=glimpse.copying)


def _on_host(steps: Sequence[Tensor]) -> list[np.ndarray]:
    """Every step's rows, fetched from the device at once."""
    sizes = [len(step) for step in steps]
    return np.split(torch.cat(list(steps)).cpu().numpy(), np.cumsum(sizes)[:-1])


def _arrays(glimpse: Glimpse) -> dict[str, np.ndarray]:
    kept = {f.name: getattr(glimpse, f.name) for f in fields(glimpse) if f.name in RECORDED}
    return {name: value.float().cpu().numpy() for name, value in kept.items() if value is not None}
