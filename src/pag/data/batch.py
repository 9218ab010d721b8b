"""Examples of different lengths made into one batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from pag.state import State
from pag.text.vocabulary import END, PAD


@dataclass(frozen=True)
class Example:
    """Token ids; both sides end with the end symbol. A target may be missing at inference."""

    source: Sequence[int]
    target: Sequence[int] | None = None

    def cut(self, most: int) -> Self:
        """The first `most` source tokens, the last of them the end symbol."""
        return replace(self, source=[*self.source[: most - 1], END])


@dataclass(frozen=True)
class Pointing(State):
    """What copying from the source needs to know. Outputs are numbered: the shortlist's V words, then the E words
    that this source alone adds."""

    words: Tensor  # the output that each source position holds [B, S]
    extra: Tensor  # the added words' source ids, PAD where a row has fewer [B, E]
    answer: Tensor  # True on the answer [B, S]
    locations: Tensor | None = None  # where each target token is to be copied from, −1 where it is written [B, T]

    def source_ids(self, extra: Tensor) -> Tensor:
        """Source ids of added words, by their numbers [B, n]; any number that is none gives some id."""
        return self.extra.gather(1, extra.clamp(0, self.extra.shape[1] - 1))


@dataclass(frozen=True)
class Batch(State):
    source: Tensor  # [B, S], padded at the end
    source_lengths: Tensor  # [B]
    target: Tensor | None = None  # [B, T], padded at the end
    target_lengths: Tensor | None = None  # [B]
    pointing: Pointing | None = None  # where outputs may be copied from the source

    def to(self, device: torch.device | str) -> Self:
        """Lengths stay where they are: packing wants them on the host."""
        moved = super().to(device)
        return replace(moved, source_lengths=self.source_lengths, target_lengths=self.target_lengths)

    @property
    def source_mask(self) -> Tensor:
        return mask(self.source_lengths, self.source.shape[1]).to(self.source.device)

    @property
    def target_mask(self) -> Tensor:
        assert self.target is not None and self.target_lengths is not None
        return mask(self.target_lengths, self.target.shape[1]).to(self.target.device)


def mask(lengths: Tensor, longest: int) -> Tensor:
    """True on real positions [B, longest]."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def pad(sequences: Sequence[Sequence[int]], longest: int = 0) -> tuple[Tensor, Tensor]:
    """Ids [B, longest] padded at the end, and lengths [B]."""
    lengths = [len(sequence) for sequence in sequences]
    ids = np.full((len(sequences), max(longest, *lengths)), PAD, dtype=np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids), torch.tensor(lengths)


def collate(examples: Sequence[Example]) -> Batch:
    source, source_lengths = pad([example.source for example in examples])
    targets = [example.target for example in examples if example.target is not None]
    if not targets:
        return Batch(source, source_lengths)
    assert len(targets) == len(examples)
    return Batch(source, source_lengths, *pad(targets))
