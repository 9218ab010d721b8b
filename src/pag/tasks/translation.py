"""Translation from subwords to characters (paper, section 4.3; Chung et al., a character-level decoder).

The source is normalised, tokenised and split by BPE; the target is the characters of the tokenised
text. Text that a user sees is plain: `encode` takes raw lines and `decode` gives detokenised ones.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from pydantic import Field

from pag.data.batch import Example
from pag.data.dataset import Dataset
from pag.data.prepared import Prepared, fingerprint
from pag.errors import DataError, InputError
from pag.tasks.base import Task, TaskSettings
from pag.text import bleu
from pag.text.moses import Moses, moses
from pag.text.subwords import START, Subwords, label
from pag.text.vocabulary import END, SPECIALS, UNKNOWN, Vocabulary

LOST = "\ufffd"  # an output character that the model could not name


class TranslationSettings(TaskSettings):
    name: Literal["translation"] = "translation"
    data: str | None = Field(None, description="a folder made by `pag prepare translation`")
    source_language: str | None = Field(None, min_length=2, max_length=3, description="default: that of the data")
    target_language: str | None = Field(None, min_length=2, max_length=3, description="default: that of the data")


class TranslationTask(Task):
    Settings: ClassVar[type[TaskSettings]] = TranslationSettings
    metrics = {"bleu": "max", "sacrebleu": "max", "chrf": "max", "exact": "max"}  # all of 0 to 100
    shares = False
    spells = True

    def __init__(self, settings: Any, subwords: Subwords, characters: Vocabulary, languages: Sequence[str]) -> None:
        self.settings, self.subwords, self.languages = settings, subwords, tuple(languages)
        self.source, self.target = subwords.vocabulary, characters

    @classmethod
    def build(cls, settings: Any) -> Self:
        data = cls.open(settings, (settings.source_language, settings.target_language))
        task = cls(settings, data.subwords, data.characters, data.languages)
        task.__dict__["data"] = data
        return task

    @classmethod
    def load(cls, settings: Any, files: dict[str, Any]) -> Self:
        languages = files.get("languages.json", (settings.source_language, settings.target_language))
        subwords, characters = Subwords.from_json(files["subwords.json"]), Vocabulary(files["characters.json"])
        return cls(settings, subwords, characters, languages)

    def files(self) -> dict[str, Any]:
        return {
            "subwords.json": self.subwords.to_json(),
            "characters.json": self.target.symbols,
            "languages.json": list(self.languages),
        }

    # data

    @classmethod
    def open(cls, settings: Any, languages: Sequence[str | None]) -> Prepared:
        """The prepared folder that the settings name; it must be of these languages, where they are given."""
        if settings.data is None:
            text = " ".join(filter(None, ("-".join(filter(None, languages)), "text")))
            raise DataError(
                f"task.data is not set: prepare {text} with `pag prepare translation`, then give the folder with "
                "--set task.data=FOLDER"
            )
        prepared = Prepared(Path(settings.data).expanduser())
        wanted = tuple(asked or found for asked, found in zip(languages, prepared.languages, strict=True))
        if wanted != prepared.languages:
            raise DataError(
                f"{prepared.folder} holds {'-'.join(prepared.languages)} text, but the recipe translates "
                f"{'-'.join(wanted)}: give another folder, or set task.source_language and task.target_language"
            )
        return prepared

    @cached_property
    def data(self) -> Prepared:
        """Only training and scoring a split need it; generating does not."""
        return self.open(self.settings, self.languages)

    def with_data(self, folder: str) -> Self:
        """The same model's task with its splits from another folder."""
        settings = self.settings.model_copy(update={"data": folder})
        return type(self)(settings, self.subwords, self.target, self.languages)

    @property
    def splits(self) -> tuple[str, ...]:
        return self.data.splits

    def examples(self, split: str) -> Dataset:
        if self.data.fingerprint != fingerprint(self.subwords.to_json(), self.target.symbols):
            raise DataError(
                f"the vocabularies of {self.data.folder} ({len(self.data.subwords.vocabulary):,} subwords, "
                f"{len(self.data.characters):,} characters) are not this model's ({len(self.source):,}, "
                f"{len(self.target):,}): its ids mean something else; use the folder that the model was trained on"
            )
        return self.data.examples(split)

    def inputs(self, split: str) -> Sequence[str]:
        lines = self.data.lines(split, "source")
        return Decoded(self.data.examples(split), self._typed) if lines is None else lines

    def references(self, split: str) -> Sequence[str]:
        lines = self.data.lines(split, "target")
        return Decoded(self.data.examples(split), self._right) if lines is None else lines

    def _typed(self, example: Example) -> str:
        return self._reader.detokenise(self.data.subwords.decode(example.source))

    def _right(self, example: Example) -> str:
        return self._writer.detokenise("".join(self.data.characters.decode(example.target or ())))

    # text

    @property
    def _reader(self) -> Moses:
        return moses(self.languages[0])

    @property
    def _writer(self) -> Moses:
        return moses(self.languages[1])

    def encode(self, text: str) -> Example:
        ids = self.subwords.encode(self._reader.clean(text))
        if not ids:
            raise InputError("nothing is left of the line once control characters are taken out")
        starts = self.source.ids.get(START, UNKNOWN)
        if all(index in (UNKNOWN, starts) for index in ids):
            raise InputError(
                f"no character of '{text.strip()[:40]}' is known to the model, which reads {self.languages[0]}"
            )
        return Example([*ids, END])

    def encode_output(self, text: str) -> list[int]:
        return self.target.encode(self._writer.clean(text))

    def decode(self, ids: Sequence[int], example: Example | None = None, copied: Sequence[int] | None = None) -> str:
        symbols = self.target.decode(ids)
        return self._writer.detokenise("".join(LOST if symbol in SPECIALS else symbol for symbol in symbols))

    def score(self, outputs: Sequence[str], inputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """BLEU of the tokens as multi-bleu computes it; sacreBLEU and chrF of the plain text; lines that are right.

        BLEU needs four tokens in a row, which short lines do not have: for them `exact` is surer.
        """
        clean = self._writer.clean
        return {
            "bleu": bleu.multi_bleu([clean(text) for text in outputs], [clean(text) for text in references]),
            "sacrebleu": bleu.sacre_bleu(outputs, references),
            "chrf": bleu.chrf(outputs, references),
            "exact": 100 * sum(map(_same, outputs, references)) / max(len(outputs), 1),
        }

    @property
    def signatures(self) -> dict[str, str]:
        """What the scores need beside them to be compared with others'."""
        return bleu.signatures()

    def source_labels(self, ids: Sequence[int], example: Example | None = None) -> list[str]:
        return [label(self.source.symbols[index]) for index in ids]


def _same(output: str, reference: str) -> bool:
    """Are the lines equal, however their words are spaced?"""
    return output.split() == reference.split()


class Decoded(Sequence[str]):
    """Text of examples, decoded as it is asked for."""

    def __init__(self, data: Dataset, show: Any, numbers: np.ndarray | None = None) -> None:
        self.data, self.show = data, show
        self.numbers = np.arange(len(data)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Decoded": ...
    def __getitem__(self, index: int | slice) -> "str | Decoded":
        if isinstance(index, slice):
            return Decoded(self.data, self.show, self.numbers[index])
        return str(self.show(self.data[int(self.numbers[index])]))
