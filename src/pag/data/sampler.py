"""Which examples make the next batch: bucketed by length, shuffled anew each epoch, resumable by two numbers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

POOL = 256  # batches' worth of examples that are sorted by length together
GROUP = 8  # batches' worth of similar targets within which sources are sorted


@dataclass(frozen=True)
class Position:
    epoch: int = 0
    batch: int = 0  # batches of this epoch already taken


class Sampler:
    """An endless stream of batches (arrays of example numbers). Its position says all about it."""

    def __init__(
        self, lengths: np.ndarray, size: int, by: Literal["sentences", "tokens"], seed: int, position: Position
    ) -> None:
        self.lengths, self.size, self.by, self.seed = lengths, size, by, seed
        self.position = position
        self._batches = self.epoch(position.epoch)

    def __next__(self) -> np.ndarray:
        if self.position.batch >= len(self._batches):
            self.position = Position(self.position.epoch + 1)
            self._batches = self.epoch(self.position.epoch)
        batch = self._batches[self.position.batch]
        self.position = Position(self.position.epoch, self.position.batch + 1)
        return batch

    def epoch(self, number: int) -> list[np.ndarray]:
        """All batches of one epoch, each example in exactly one."""
        chance = np.random.default_rng([self.seed, number])
        order = chance.permutation(len(self.lengths))
        width = POOL * self._sentences_per_batch()
        batches = [batch for at in range(0, len(order), width) for batch in self._cut(order[at : at + width])]
        return [batches[i] for i in chance.permutation(len(batches))]

    def _sentences_per_batch(self) -> int:
        if self.by == "sentences":
            return self.size
        return max(1, int(self.size / self.lengths[:, 1].mean()))

    def _cut(self, pool: np.ndarray) -> list[np.ndarray]:
        """Group a pool by target length, sort each group by source length, and cut it into batches."""
        source, target = self.lengths[pool].T
        rank = np.empty(len(pool), dtype=np.int64)
        rank[np.lexsort((source, target))] = np.arange(len(pool))
        pool = pool[np.lexsort((target, source, rank // (GROUP * self._sentences_per_batch())))]
        if self.by == "sentences":
            return [pool[at : at + self.size] for at in range(0, len(pool), self.size)]
        return self._cut_by_tokens(pool)

    def _cut_by_tokens(self, pool: np.ndarray) -> list[np.ndarray]:
        """As many neighbours at a time as keep rows × longest target within the size."""
        batches, start, longest = [], 0, 0
        for at, length in enumerate(self.lengths[pool, 1]):
            longest = max(longest, length)
            if at > start and (at + 1 - start) * longest > self.size:
                batches.append(pool[start:at])
                start, longest = at, length
        return [*batches, pool[start:]]
