"""Question generation: a document and an answer in it → a question (paper, section 4.2; Yuan et al. 2017).

A word of the question is written from a shortlist or copied from the document. An input is a line of JSON,

    {"document": "…", "answer": "Denver Broncos", "answer_start": 177}

where the answer's first character may be left out (its first occurrence as whole words is taken), or the
answer (the word there is taken).
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from pag.data.batch import Batch, Example
from pag.data.dataset import Dataset
from pag.data.document import WRITTEN, Document, collate_documents, pointed
from pag.data.questions import VOCABULARY, Lexicon, Lines, PreparedQuestions
from pag.errors import DataError, InputError
from pag.tasks.base import Task, TaskSettings
from pag.text import overlap
from pag.text.vocabulary import END, SPECIALS, UNKNOWN, Vocabulary
from pag.text.words import Token, covering, half_character, join, occurrences, sentence_at, tokenise, words_of

LOST = "\ufffd"  # a word that the model could not name
FUNCTION_WORDS = frozenset(
    ("the", "a", "an", "of", "in", "on", "at", "to", "and", "or", "for", "by", "with", "from", "as", "is", "was", "are")
)


class QuestionsSettings(TaskSettings):
    name: Literal["questions"] = "questions"
    data: str | None = Field(None, description="a folder made by `pag prepare questions`")


class QuestionsTask(Task):
    Settings: ClassVar[type[TaskSettings]] = QuestionsSettings
    metrics = {
        **{f"bleu{order}": "max" for order in overlap.ORDERS},
        "rouge_l": "max",
        "bleu4_of_sentence": "max",  # all of 0 to 100
        "answer_leaks": "min",
    }
    shares = False
    points = True

    def __init__(self, settings: Any, lexicon: Lexicon, max_document: int) -> None:
        self.settings, self.lexicon, self.max_document = settings, lexicon, max_document
        self.source, self.target = lexicon.source, lexicon.shortlist

    @classmethod
    def build(cls, settings: Any) -> Self:
        data = cls.open(settings)
        task = cls(settings, data.lexicon, data.max_document)
        task.__dict__["data"] = data
        return task

    @classmethod
    def load(cls, settings: Any, files: dict[str, Any]) -> Self:
        kept = files[VOCABULARY]
        lexicon = Lexicon(Vocabulary(kept["source"]), Vocabulary(kept["target"]), kept["lower_case"])
        return cls(settings, lexicon, kept["max_document"])

    def files(self) -> dict[str, Any]:
        kept = {"source": self.source.symbols, "target": self.target.symbols}
        return {VOCABULARY: {**kept, "lower_case": self.lexicon.lower_case, "max_document": self.max_document}}

    # data

    @classmethod
    def open(cls, settings: Any) -> PreparedQuestions:
        if settings.data is None:
            raise DataError(
                "task.data is not set: prepare SQuAD with `pag prepare questions`, then give the folder with "
                "--set task.data=FOLDER"
            )
        return PreparedQuestions(Path(settings.data).expanduser())

    @cached_property
    def data(self) -> PreparedQuestions:
        """Only training and scoring a split need it; generating does not."""
        return self.open(self.settings)

    def with_data(self, folder: str) -> Self:
        task = type(self)(self.settings, self.lexicon, self.max_document)
        task.__dict__["data"] = PreparedQuestions(Path(folder).expanduser())
        return task

    @property
    def splits(self) -> tuple[str, ...]:
        return self.data.splits

    def examples(self, split: str) -> Dataset:
        if self.data.fingerprint != self.lexicon.fingerprint:
            raise DataError(
                f"the vocabularies of {self.data.folder} ({len(self.data.lexicon.source):,} document words, a "
                f"shortlist of {len(self.data.lexicon.shortlist):,}) are not this model's ({len(self.source):,}, "
                f"{len(self.target):,}): its ids mean something else; use the folder that the model was trained on"
            )
        return self.data.examples(split)

    def inputs(self, split: str) -> Lines:
        return self.data.inputs(split)

    def references(self, split: str) -> Lines:
        return self.data.references(split)

    def collate(self, examples: Sequence[Example]) -> Batch:
        return collate_documents(examples)

    # text

    def encode(self, text: str) -> Document:
        return self._pointed(text, None)

    def pair(self, text: str, output: str) -> Document:
        return self._pointed(text, output)

    def _pointed(self, text: str, question: str | None) -> Document:
        given = parse(text)
        keys: dict[str, int] = {}
        document = self.lexicon.words([token.text for token in given.tokens], keys)
        asked = None if question is None else self.lexicon.words(words_of(question), keys)
        return pointed(document, given.span, asked, len(self.target), self.max_document)

    def encode_output(self, text: str) -> list[int]:
        """As far as the shortlist goes: what can be copied depends on the input, see `pair`."""
        return self.target.encode(self.lexicon.normal(word) for word in words_of(text))

    def decode(self, ids: Sequence[int], example: Example | None = None, copied: Sequence[int] | None = None) -> str:
        """Copied words are spelled as in the document, and a question starts with a capital."""
        assert isinstance(example, Document)
        words = [LOST if word in SPECIALS[UNKNOWN:] else word for word in self.target_labels(ids, example)]
        for number, place in enumerate(() if copied is None else copied):
            if place != WRITTEN and not (ids[number] < len(self.target) and starts_sentence(example.spelling, place)):
                words[number] = example.spelling[place] if place < len(example.spelling) else words[number]
        text = join(word for word, index in zip(words, ids, strict=True) if index != END)
        return text[:1].upper() + text[1:] if self.lexicon.lower_case else text

    def brief(self, text: str, most: int = 48) -> str:
        """The answer in brackets, with what surrounds it."""
        given = parse(text)
        return around(given.document, given.start, given.end, max(0, most - len(given.answer)) // 2)

    def target_labels(self, ids: Sequence[int], example: Example | None = None) -> list[str]:
        assert isinstance(example, Document)
        known = self.target.symbols
        return [known[i] if i < len(known) else example.spelling[example.words.index(i)] for i in ids]

    def source_labels(self, ids: Sequence[int], example: Example | None = None) -> list[str]:
        assert isinstance(example, Document)
        return [*example.spelling, SPECIALS[END]]

    # scores

    def score(self, outputs: Sequence[str], inputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """BLEU and ROUGE-L beside the one reference, BLEU-4 beside all questions about the answer's sentence (as Du et
        al. score), and the share of questions that hold a word of their answer."""
        asked, right = ([self._words(text) for text in texts] for texts in (outputs, references))
        given = [parse(text) for text in inputs]
        alone = [[words] for words in right]
        return {
            **overlap.bleu(asked, alone),
            "rouge_l": overlap.rouge_l(asked, alone),
            "bleu4_of_sentence": overlap.bleu(asked, of_sentence(given, right))["bleu4"],
            "answer_leaks": 100 * sum(map(self._leaks, asked, given)) / len(asked),
        }

    @property
    def signatures(self) -> dict[str, str]:
        return {"bleu4": overlap.signature()}

    def _words(self, text: str) -> list[str]:
        return [self.lexicon.normal(word) for word in words_of(text)]

    def _leaks(self, question: Sequence[str], given: "Given") -> bool:
        answer = {word.lower() for word in words_of(given.answer) if any(map(str.isalnum, word))}
        return not (answer - FUNCTION_WORDS).isdisjoint(word.lower() for word in question)


def around(document: str, start: int, end: int, room: int, marks: tuple[str, str] = ("[", "]")) -> str:
    """A piece of a document, marked, between whole words of at most so many characters on either side."""
    before, piece, after = document[:start], document[start:end], document[end:]
    before = before if len(before) <= room else "… " + before[len(before) - room :].partition(" ")[2]
    after = after if len(after) <= room else after[:room].rpartition(" ")[0] + " …"
    return " ".join(f"{before}{marks[0]}{piece}{marks[1]}{after}".split())


def starts_sentence(words: Sequence[str], place: int) -> bool:
    """Then a common word has a capital that it does not have elsewhere."""
    return place == 0 or words[place - 1] in (".", "!", "?")


class Given:
    """One input: a document and the place of the answer in it."""

    def __init__(self, document: str, start: int, end: int) -> None:
        self.document, self.start, self.end = document, start, end

    @property
    def answer(self) -> str:
        return self.document[self.start : self.end]

    @property
    def sentence(self) -> tuple[str, int]:
        """What tells the answer's sentence from any other."""
        return self.document, sentence_at(self.document, self.start)

    @cached_property
    def tokens(self) -> list[Token]:
        return tokenise(self.document)

    @property
    def span(self) -> tuple[int, int]:
        """The answer in words."""
        found = covering(self.tokens, self.start, self.end)
        if found is None:
            raise InputError(f"the answer at character {self.start} holds no word")
        return found


def parse(text: str) -> Given:
    """A line of JSON; InputError says what is wrong with it."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"'{text.strip()[:40]}' is not JSON: expected {FORM}") from None
    if not isinstance(line, dict) or not isinstance(document := line.get("document"), str):
        raise InputError(f"there is no text 'document': expected {FORM}")
    answer, start = line.get("answer"), line.get("answer_start")
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise InputError(f"'answer_start' must be a whole number, not {start!r}")
    if answer is not None and (not isinstance(answer, str) or not answer.strip()):
        raise InputError("'answer' must be some text of the document")
    for name, given in (("document", document), ("answer", answer)):
        if given is not None and (half := half_character(given)):
            raise InputError(f"'{name}' holds half a character ({half}), which is no text")
    if answer is None and start is None:
        raise InputError(f"there is neither an 'answer' nor an 'answer_start': expected {FORM}")
    return Given(document, *(_word(document, start) if answer is None else _found(document, answer, start)))


FORM = '{"document": "…", "answer": "…"} with the answer\'s first character as "answer_start" where it occurs twice'


def _word(document: str, start: int | None) -> tuple[int, int]:
    """The word at a place."""
    for token in tokenise(document):
        if start is not None and token.start <= start < token.end:
            return start, token.end
    raise InputError(f"no word is at character {start} of the document, which has {len(document)}")


def _found(document: str, answer: str, start: int | None) -> tuple[int, int]:
    if start is None:
        places = occurrences(document, tokenise(document), answer)
        if not places:
            raise InputError(f"the answer '{answer[:40]}' does not occur in the document")
        start = places[0]
    elif start < 0 or document[start : start + len(answer)] != answer:
        raise InputError(f"the answer '{answer[:40]}' is not at character {start} of the document")
    return start, start + len(answer)


def of_sentence(given: Sequence[Given], right: Sequence[list[str]]) -> list[list[list[str]]]:
    """For each input, the questions that are asked about the same sentence."""
    together: dict[tuple[str, int], list[list[str]]] = defaultdict(list)
    places = [one.sentence for one in given]
    for place, words in zip(places, right, strict=True):
        together[place].append(words)
    return [together[place] for place in places]
