"""Sums spelled out in English and written in digits: pairs that need no download.

"twelve thousand and six plus ninety-one" → "12,006 + 91". A word may write no character (and), one, or
several (a thousand writes a comma and sometimes zeros), so where to look next has to be learned.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from pag.data.prepared import Prepared
from pag.prepare.reading import Corpus
from pag.prepare.settings import PrepareSettings
from pag.prepare.translation import prepare
from pag.tasks.base import TaskSettings
from pag.tasks.translation import TranslationTask

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SIGNS = {"plus": "+", "minus": "-", "times": "×"}
SPLITS = ("test", "valid", "train")  # made in this order, so that the test set depends on nothing else


class NumbersSettings(TaskSettings):
    name: Literal["numbers"] = "numbers"
    source_language: ClassVar[str] = "en"
    target_language: ClassVar[str] = "en"
    train: int = Field(20_000, ge=1)
    valid: int = Field(500, ge=1)
    test: int = Field(1_000, ge=1)
    terms: int = Field(4, ge=1, le=10, description="most numbers in a line")
    digits: int = Field(6, ge=1, le=9, description="of the largest number")
    subwords: int = Field(200, ge=8)
    seed: int = Field(1, ge=0, description="of the numbers; train.seed is the model's")


def spell(number: int) -> str:
    """British: nine hundred and two thousand and one."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, one = divmod(number, 10)
        return TENS[tens - 2] + (f"-{ONES[one]}" if one else "")
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            head, rest = divmod(number, size)
            link = " and " if rest < 100 else " "
            return f"{spell(head)} {name}" + (link + spell(rest) if rest else "")
    raise AssertionError(number)


def draw(settings: NumbersSettings, chance: np.random.Generator) -> tuple[str, str]:
    """A line and its translation; every number of digits is as likely as any other."""
    words, written = [], []
    for term in range(int(chance.integers(1, settings.terms + 1))):
        if term:
            name = str(chance.choice(list(SIGNS)))
            words.append(name)
            written.append(SIGNS[name])
        number = int(chance.integers(10 ** int(chance.integers(1, settings.digits + 1))))
        words.append(spell(number))
        written.append(f"{number:,}")
    return " ".join(words), " ".join(written)


def pairs(settings: NumbersSettings) -> dict[str, list[tuple[str, str]]]:
    """Every split; no line of a held-out one is in another."""
    seen: set[str] = set()
    made: dict[str, list[tuple[str, str]]] = {}
    for number, split in enumerate(SPLITS):
        chance = np.random.default_rng([settings.seed, number])
        made[split] = list(islice(_new(settings, chance, frozenset(seen)), getattr(settings, split)))
        seen |= {source for source, _ in made[split]}
    return made


def _new(settings: NumbersSettings, chance: np.random.Generator, seen: frozenset[str]) -> Iterator[tuple[str, str]]:
    while True:
        pair = draw(settings, chance)
        if pair[0] not in seen:
            yield pair


class _Temporary(Prepared):
    """A prepared folder that goes when the process does."""

    keep: TemporaryDirectory[str]


@cache
def prepared_numbers(settings: NumbersSettings) -> Prepared:
    """The pairs through the same preparation as any text, in a temporary folder."""
    place = TemporaryDirectory(prefix="pag-numbers-")
    root = Path(place.name)
    corpora = {split: _written(root, split, lines) for split, lines in pairs(settings).items()}
    asked = PrepareSettings(
        source_language="en", target_language="en", subwords=settings.subwords, max_source=1000, max_ratio=100.0
    )
    prepare(asked, corpora, root / "prepared")
    prepared = _Temporary(root / "prepared")
    prepared.keep = place
    return prepared


def _written(root: Path, split: str, lines: list[tuple[str, str]]) -> Corpus:
    files = [root / f"{split}.words", root / f"{split}.digits"]
    for file, side in zip(files, zip(*lines, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side), "utf-8")
    return Corpus(files[:1], files[1:])


class NumbersTask(TranslationTask):
    Settings = NumbersSettings

    @classmethod
    def open(cls, settings: NumbersSettings, languages: Sequence[str | None] = ()) -> Prepared:
        return prepared_numbers(settings)
