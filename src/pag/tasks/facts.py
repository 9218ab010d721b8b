"""Made-up facts and the questions they answer: question generation that needs no download.

"Malo Trenn founded Ovasketh in 1874. Sil Bredo was born in Karm." with the answer "1874" → "When did Malo Trenn found
Ovasketh?" The names are drawn from syllables, so nearly all are new at test time: they can only be copied, and which of
them to copy is told by the answer's place.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeVar

import numpy as np
from pydantic import Field

from pag.data.questions import PreparedQuestions
from pag.prepare.questions import prepare
from pag.prepare.settings import QuestionSettings
from pag.prepare.squad import Article, Asked, Paragraph
from pag.tasks.base import TaskSettings
from pag.tasks.questions import QuestionsTask

T = TypeVar("T")
STARTS = ("b", "br", "d", "f", "g", "k", "kr", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
MIDDLES = ("a", "e", "i", "o", "u", "ae", "ei")
ENDS = ("", "l", "m", "n", "nn", "r", "rk", "s", "sk", "t", "th")
SPLITS = ("test", "valid", "train")  # made in this order, so that the test set depends on nothing else
# a fact, and for each of its blanks the question whose answer fills it; {p} is a person, {x} a name, {y} a year
FACTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("{p} was born in {x}.", {"x": "Where was {p} born?", "p": "Who was born in {x}?"}),
    (
        "{p} founded {x} in {y}.",
        {"p": "Who founded {x}?", "x": "What did {p} found in {y}?", "y": "When did {p} found {x}?"},
    ),
    ("The river {x} flows through {z}.", {"x": "Which river flows through {z}?", "z": "Where does the {x} flow?"}),
    ("In {y}, {p} wrote a book about {x}.", {"x": "What did {p} write about?", "y": "When did {p} write a book?"}),
    (
        "{x} is the largest city of {z}.",
        {"x": "What is the largest city of {z}?", "z": "Of which country is {x} a city?"},
    ),
)


class FactsSettings(TaskSettings):
    name: Literal["facts"] = "facts"
    train: int = Field(6_000, ge=1)
    valid: int = Field(200, ge=1)
    test: int = Field(500, ge=1)
    facts: int = Field(3, ge=1, le=20, description="most facts in a document")
    seed: int = Field(1, ge=0, description="of the facts; train.seed is the model's")


def pick(chance: np.random.Generator, among: Sequence[T]) -> T:
    return among[int(chance.integers(len(among)))]


def name(chance: np.random.Generator, syllables: int) -> str:
    drawn = (pick(chance, part) for _ in range(syllables) for part in (STARTS, MIDDLES, ENDS))
    return "".join(drawn).capitalize()


def blanks(chance: np.random.Generator) -> dict[str, str]:
    return {
        "p": f"{name(chance, 1)} {name(chance, 2)}",
        "x": name(chance, 2),
        "z": name(chance, 2),
        "y": str(chance.integers(1000, 2000)),
    }


def draw(settings: FactsSettings, number: int, chance: np.random.Generator) -> Paragraph:
    """A document of some facts, with one question about one of them."""
    count = int(chance.integers(1, settings.facts + 1))
    told = [(pick(chance, FACTS), blanks(chance)) for _ in range(count)]
    place = int(chance.integers(count))
    sentences = [fact.format(**values) for (fact, _), values in told]
    (fact, questions), values = told[place]
    blank = pick(chance, sorted(questions))
    before = sum(len(sentence) + 1 for sentence in sentences[:place])
    start = before + len(fact[: fact.index("{" + blank + "}")].format(**values))
    asked = Asked(str(number), questions[blank].format(**values), [(values[blank], start)])
    return Paragraph(" ".join(sentences), [asked])


@cache
def prepared_facts(settings: FactsSettings) -> PreparedQuestions:
    """The facts through the same preparation as any questions, in a temporary folder."""
    place = TemporaryDirectory(prefix="pag-facts-")
    splits = {}
    for number, split in enumerate(SPLITS):
        chance = np.random.default_rng([settings.seed, number])
        splits[split] = [Article(split, [draw(settings, n, chance) for n in range(getattr(settings, split))])]
    asked = QuestionSettings(documents=100, shortlist=40)
    prepare(asked, {split: splits[split] for split in reversed(SPLITS)}, Path(place.name) / "prepared", picture=False)
    prepared = _Temporary(Path(place.name) / "prepared")
    prepared.keep = place
    return prepared


class _Temporary(PreparedQuestions):
    """A prepared folder that lives as long as this object."""

    keep: TemporaryDirectory[str]


class FactsTask(QuestionsTask):
    Settings = FactsSettings
    metrics = {**QuestionsTask.metrics, "exact": "max"}  # also of 0 to 100

    @classmethod
    def open(cls, settings: FactsSettings) -> PreparedQuestions:
        return prepared_facts(settings)

    def score(self, outputs: Sequence[str], inputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        same = [self._words(a) == self._words(b) for a, b in zip(outputs, references, strict=True)]
        return {**super().score(outputs, inputs, references), "exact": 100 * sum(same) / len(same)}
