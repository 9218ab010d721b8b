"""Tokenised lines kept on disk between the two passes over the text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pag.prepare.cleaning import Cleaned, unpacked


@dataclass(frozen=True)
class Kept:
    """A block of the spool: which lines it holds and how many bytes each side takes."""

    name: str
    lines: np.ndarray
    source: int
    target: int


@dataclass(frozen=True)
class Lines:
    name: str
    lines: np.ndarray
    source: bytes
    target: bytes


class Spool:
    """Two files of text and an index in memory."""

    def __init__(self, folder: Path, split: str) -> None:
        self.paths = [folder / f"{split}.{side}.spool" for side in ("source", "target")]
        self.files = [path.open("w+b") for path in self.paths]
        self.blocks: list[Kept] = []

    def __len__(self) -> int:
        return sum(len(block.lines) for block in self.blocks)

    def append(self, cleaned: Cleaned) -> None:
        if not len(cleaned.lines):
            return
        for file, text in zip(self.files, (cleaned.source, cleaned.target), strict=True):
            file.write(text)
        self.blocks.append(Kept(cleaned.name, cleaned.lines, len(cleaned.source), len(cleaned.target)))

    def read(self) -> Iterator[Lines]:
        for file in self.files:
            file.seek(0)
        source, target = self.files
        for block in self.blocks:
            yield Lines(block.name, block.lines, source.read(block.source), target.read(block.target))

    def sources(self, most: int) -> Iterator[str]:
        """At most this many source lines, evenly spread."""
        step = max(1, -(-len(self) // most))
        number = 0
        for block in self.read():
            yield from unpacked(block.source)[-number % step :: step]
            number += len(block.lines)

    def remove(self) -> None:
        for file, path in zip(self.files, self.paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)
