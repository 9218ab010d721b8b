"""A finite, indexable set of examples whose lengths are known beforehand."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pag.data.batch import Example


class Dataset(Protocol):
    """Anything with examples and their lengths; prepared data on disk keeps the same promise."""

    @property
    def lengths(self) -> np.ndarray:
        """Source and target lengths [N, 2]."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Example: ...


class ListDataset:
    """Examples held in memory."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self.lengths = np.array([(len(e.source), len(e.target or ())) for e in examples]).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Example:
        return self.examples[index]
