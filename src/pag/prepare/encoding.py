"""Tokenised lines as ids: subwords of the source, characters of the target. What a worker does second."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from pag.prepare.cleaning import Dropped, unpacked
from pag.prepare.settings import PrepareSettings
from pag.text.subwords import Subwords
from pag.text.vocabulary import END, UNKNOWN

REMEMBERED = 500_000  # words whose ids are kept; past that all are forgotten
CODES = 0x110000


@dataclass(frozen=True)
class Flat:
    """Sequences of ids one after another, each with its end symbol."""

    ids: np.ndarray
    lengths: np.ndarray  # [N]


@dataclass(frozen=True)
class Encoded:
    source: Flat
    target: Flat
    dropped: Dropped


@dataclass(frozen=True)
class Vocabularies:
    """What ids stand for, as text that travels to worker processes."""

    subwords: str  # JSON
    characters: str  # JSON list of symbols, the specials first


class Encoder:
    def __init__(self, vocabularies: Vocabularies) -> None:
        self.subwords = Subwords.from_json(json.loads(vocabularies.subwords))
        symbols = json.loads(vocabularies.characters)
        self.source_type = id_type(len(self.subwords.vocabulary))
        self.table = np.full(CODES, UNKNOWN, id_type(len(symbols)))  # code point → id
        for index, symbol in enumerate(symbols):
            if len(symbol) == 1:
                self.table[ord(symbol)] = index
        self.table[ord("\n")] = END
        self.known: dict[str, list[int]] = {}

    def source(self, lines: Sequence[str]) -> list[list[int]]:
        """Each line's ids, without an end symbol."""
        rows = [line.split() for line in lines]
        self._meet(set().union(*rows))
        find = self.known.__getitem__
        return [list(chain.from_iterable(map(find, row))) for row in rows]

    def _meet(self, words: set[str]) -> None:
        if len(self.known) > REMEMBERED:
            self.known.clear()
        new = sorted(words - self.known.keys())
        self.known |= dict(zip(new, self.subwords.encode_words(new), strict=True))

    def target(self, lines: Sequence[str]) -> Flat:
        """Each character's id, and the end symbol in place of the line's end."""
        text = "".join(f"{line}\n" for line in lines)
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        return Flat(self.table[codes], np.array([len(line) + 1 for line in lines], np.int64))


def id_type(size: int) -> type[np.unsignedinteger]:
    return np.uint16 if size <= 1 << 16 else np.uint32


@lru_cache(maxsize=1)
def encoder(vocabularies: Vocabularies) -> Encoder:
    return Encoder(vocabularies)


def encode(
    name: str,
    numbers: np.ndarray,
    source: bytes,
    target: bytes,
    settings: PrepareSettings | None,
    vocabularies: Vocabularies,
) -> Encoded:
    """Ids of a block's lines. With settings, pairs whose source is too long are dropped; without, all are kept."""
    tool, dropped = encoder(vocabularies), Dropped()
    rows, kept = tool.source(unpacked(source)), unpacked(target)
    if settings is not None:
        fits = [len(row) <= settings.max_source for row in rows]
        for number, fit in zip(numbers.tolist(), fits, strict=True):
            if not fit:
                dropped.add("too_long", name, number)
        rows = [row for row, fit in zip(rows, fits, strict=True) if fit]
        kept = [line for line, fit in zip(kept, fits, strict=True) if fit]
    for row in rows:
        row.append(END)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.fromiter(chain.from_iterable(rows), tool.source_type, int(lengths.sum()))
    return Encoded(Flat(ids, lengths), tool.target(kept), dropped)
