"""Prepared translation data: ids in memory-mapped files, vocabularies, the held-out sets' own text."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pag.data.batch import Example
from pag.data.folder import Folder, Ragged
from pag.text.subwords import Subwords
from pag.text.vocabulary import Vocabulary

SIDES = ("source", "target")


def text_file(split: str, side: str) -> str:
    return f"{split}.{side}.txt"


def fingerprint(subwords: Any, characters: Sequence[str]) -> str:
    """Two folders, or a folder and a checkpoint, mean the same by their ids if and only if this agrees."""
    both = json.dumps([subwords, list(characters)], sort_keys=True)
    return hashlib.sha256(both.encode()).hexdigest()


class MappedDataset:
    """One split's examples, read from disk as they are asked for."""

    def __init__(self, folder: Path, split: str) -> None:
        self.sides = [Ragged(folder, f"{split}.{side}") for side in SIDES]
        self.lengths = np.stack([side.lengths for side in self.sides], axis=1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Example:
        source, target = (side[index].tolist() for side in self.sides)
        return Example(source, target)


class Prepared(Folder):
    task = "translation"

    @property
    def languages(self) -> tuple[str, str]:
        settings = self.manifest["settings"]
        return settings["source_language"], settings["target_language"]

    @cached_property
    def subwords(self) -> Subwords:
        return Subwords.from_json(self.verified("subwords.json"))

    @cached_property
    def characters(self) -> Vocabulary:
        return Vocabulary(self.verified("characters.json"))

    def examples(self, split: str) -> MappedDataset:
        self.known(split)
        return MappedDataset(self.folder, split)

    def lines(self, split: str, side: str) -> list[str] | None:
        """The text as it came, of a held-out split; None where only ids were kept."""
        self.known(split)
        path = self.folder / text_file(split, side)
        return path.read_bytes().decode().split("\n")[:-1] if path.is_file() else None
