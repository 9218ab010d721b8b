"""Which examples make the next batch: bucketed by length, shuffled anew each epoch, resumable by two numbers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

POOL = 64  # batches' worth of examples that are sorted by length together


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
        """Sort a pool by target, then source length, and cut it into batches."""
        pool = pool[np.lexsort((self.lengths[pool, 0], self.lengths[pool, 1]))]
        if self.by == "sentences":
            return [pool[at : at + self.size] for at in range(0, len(pool), self.size)]
        batches, start = [], 0
        for end in range(1, len(pool) + 1):  # the longest target comes last, so it decides the padded size
            full = end == len(pool) or (end + 1 - start) * self.lengths[pool[end], 1] > self.size
            if full:
                batches.append(pool[start:end])
                start = end
        return batches
