"""What a task is: examples, symbols, scores, and how to show an output."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from pag.config import Settings
from pag.data.batch import Batch, Example, collate
from pag.data.dataset import Dataset
from pag.errors import DataError, nearest
from pag.text.vocabulary import Vocabulary


class TaskSettings(Settings):
    """The section [task] of a recipe; each task adds its own keys."""

    name: str


class Task(ABC):
    """Built from its settings for training; a checkpoint keeps `files()` so that `load` needs no data."""

    Settings: ClassVar[type[TaskSettings]]
    metrics: ClassVar[dict[str, str]]  # metric → "max" or "min"
    shares: ClassVar[bool] = True  # are the metrics shares of 1 (shown in %), or numbers of their own?
    points: ClassVar[bool] = False  # may outputs be copied from the source? then the readout must be one that copies
    spells: ClassVar[bool] = False  # are inputs pieces of words, and outputs their characters?
    source: Vocabulary
    target: Vocabulary

    @classmethod
    @abstractmethod
    def build(cls, settings: Any) -> Self:
        """Make the task from its settings: find or make the data, build vocabularies."""

    @classmethod
    @abstractmethod
    def load(cls, settings: Any, files: dict[str, Any]) -> Self:
        """Make the task from what a checkpoint kept."""

    @classmethod
    def monitors(cls) -> dict[str, str]:
        """What `train.monitor` can name → "max" or "min"."""
        return {"loss": "min", "perplexity": "min", **cls.metrics}

    def files(self) -> dict[str, Any]:
        """What a checkpoint must keep: file name → JSON value."""
        return {"vocabulary.json": {"source": self.source.symbols, "target": self.target.symbols}}

    @abstractmethod
    def examples(self, split: str) -> Dataset:
        """The encoded examples of "train", "valid" or "test"."""

    @abstractmethod
    def inputs(self, split: str) -> Sequence[str]:
        """The same examples as lines that a user could type."""

    @abstractmethod
    def references(self, split: str) -> Sequence[str]:
        """The right outputs, as text."""

    @abstractmethod
    def encode(self, text: str) -> Example:
        """One input line; InputError says what is wrong with it."""

    @abstractmethod
    def encode_output(self, text: str) -> list[int]:
        """One output line, for scoring it; InputError says what is wrong with it."""

    def pair(self, text: str, output: str) -> Example:
        """An input with an output to be scored after it."""
        return replace(self.encode(text), target=self.encode_output(output))

    @abstractmethod
    def decode(self, ids: Sequence[int], example: Example | None = None, copied: Sequence[int] | None = None) -> str:
        """Output ids as text; `example` is the input that they belong to, and `copied` the source position that each
        was copied from (−1 where it was not), for tasks whose outputs may be copied."""

    @abstractmethod
    def score(self, outputs: Sequence[str], inputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """Each of `metrics` but the loss, for outputs beside their references."""

    @property
    def splits(self) -> Sequence[str]:
        """The splits there are; prepared data may hold more test sets."""
        return ("train", "valid", "test")

    def check_split(self, name: str) -> None:
        if name not in self.splits:
            raise DataError(f"unknown split '{name}'{nearest(name, self.splits)}")

    def with_data(self, folder: str) -> Self:
        """The same task with its splits from another folder of prepared data."""
        raise DataError(f"{type(self).__name__} makes its own data: --data is for tasks with prepared data")

    @property
    def signatures(self) -> dict[str, str]:
        """How each metric was computed, where that has a signature (sacreBLEU's)."""
        return {}

    def collate(self, examples: Sequence[Example]) -> Batch:
        return collate(examples)

    def brief(self, text: str, most: int = 48) -> str:
        """An input for people to see: where it is long, its end."""
        return text if len(text) <= most else "… " + text[-most:]

    def source_labels(self, ids: Sequence[int], example: Example | None = None) -> list[str]:
        """Names of the source positions in a picture."""
        return [self.source.symbols[i] for i in ids]

    def target_labels(self, ids: Sequence[int], example: Example | None = None) -> list[str]:
        return [self.target.symbols[i] for i in ids]
