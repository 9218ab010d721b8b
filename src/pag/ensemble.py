"""Several models that decode as one: the mean of their probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.data.batch import Batch
from pag.model import Seq2Seq
from pag.state import State


@dataclass(frozen=True)
class Several(State):
    """One part per model."""

    parts: tuple[State, ...]


class Ensemble:
    """Searched like a model. Alignments and plans shown are the first model's."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = models

    def begin(self, batch: Batch) -> tuple[Several, Several]:
        memories, states = zip(*(model.begin(batch) for model in self.models), strict=True)
        return Several(memories), Several(states)

    def step(
        self, before: Tensor, memory: Several, state: Several, held: bool = False
    ) -> tuple[Tensor, Glimpse, Several]:
        parts = zip(self.models, memory.parts, state.parts, strict=True)
        steps = [model.step(before, of_memory, of_state, held) for model, of_memory, of_state in parts]  # type: ignore[arg-type]
        return (
            mean([log_probs for log_probs, _, _ in steps]),
            steps[0][1],
            Several(tuple(after for _, _, after in steps)),
        )


def mean(log_probs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean probability."""
    return torch.stack(list(log_probs)).logsumexp(0) - math.log(len(log_probs))
