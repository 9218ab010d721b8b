"""Prepared documents, answers and questions: every word as the number of its spelling, in memory-mapped files.

What a spelling means to the model (which word it is, its ids) follows from the vocabularies, so one table of
spellings serves all splits.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pag.data.document import Document, Words, pointed, window
from pag.data.folder import Folder, Ragged, mapped
from pag.text.vocabulary import UNKNOWN, Vocabulary

SPELLINGS, VOCABULARY = "spellings.json", "vocabulary.json"


def answers_file(split: str) -> str:
    return f"{split}.answers.npy"


def documents_file(split: str) -> str:
    return f"{split}.documents.jsonl"


def questions_file(split: str) -> str:
    return f"{split}.questions.jsonl"


def fingerprint(source: Sequence[str], shortlist: Sequence[str], lower_case: bool) -> str:
    """Two folders, or a folder and a checkpoint, mean the same by their ids if and only if this agrees."""
    return sha256(json.dumps([list(source), list(shortlist), lower_case]).encode()).hexdigest()


class Lexicon:
    """The document vocabulary and the shortlist: what the model makes of a word."""

    def __init__(self, source: Vocabulary, shortlist: Vocabulary, lower_case: bool) -> None:
        self.source, self.shortlist, self.lower_case = source, shortlist, lower_case

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.source.symbols, self.shortlist.symbols, self.lower_case)

    def normal(self, word: str) -> str:
        return word.lower() if self.lower_case else word

    def words(self, spelling: Sequence[str], keys: dict[str, int]) -> Words:
        """`keys` numbers the words seen so far, and grows."""
        normal = [self.normal(word) for word in spelling]
        return Words(
            np.array([keys.setdefault(word, len(keys)) for word in normal], np.int64),
            np.array([self.source.ids.get(word, UNKNOWN) for word in normal], np.int64),
            np.array([self.shortlist.ids.get(word, UNKNOWN) for word in normal], np.int64),
            spelling,
        )


class QuestionData:
    """One split's examples, read from disk as they are asked for."""

    def __init__(self, folder: Path, split: str, table: Words, shortlist: int, most: int) -> None:
        """`table` holds every spelling by its number; documents are cut to `most` words."""
        self.table, self.shortlist, self.most = table, shortlist, most
        self.documents = Ragged(folder, f"{split}.documents")
        self.questions = Ragged(folder, f"{split}.questions")
        self.answers = mapped(folder / answers_file(split)).reshape(-1, 3)  # document, first word, one past the last
        source = np.minimum(self.documents.lengths[self.answers[:, 0]], self.most) + 1
        self.lengths = np.stack([source, self.questions.lengths + 1], axis=1)

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, index: int) -> Document:
        document, start, end = (int(value) for value in self.answers[index])
        spellings, question = self.documents[document], self.questions[index]
        first, last = window(len(spellings), start, end, self.most)
        inside = self.of(spellings[first:last])
        answer = (start - first, min(end, last) - first)
        example = pointed(inside, answer, self.of(question), self.shortlist, self.most)
        return replace(example, left_out=(first, len(spellings) - last))

    def of(self, spellings: np.ndarray) -> Words:
        table = self.table
        return Words(
            table.keys[spellings],
            table.source[spellings],
            table.shortlist[spellings],
            [table.spelling[number] for number in spellings.tolist()],
        )


class PreparedQuestions(Folder):
    task = "questions"

    @property
    def max_document(self) -> int:
        return int(self.manifest["settings"]["max_document"])

    @cached_property
    def lexicon(self) -> Lexicon:
        found = self.verified(VOCABULARY)
        return Lexicon(Vocabulary(found["source"]), Vocabulary(found["target"]), found["lower_case"])

    @cached_property
    def table(self) -> Words:
        """Every spelling of the folder, by its number."""
        return self.lexicon.words(self.verified(SPELLINGS), {})

    def examples(self, split: str) -> QuestionData:
        self.known(split)
        return QuestionData(self.folder, split, self.table, len(self.lexicon.shortlist), self.max_document)

    def inputs(self, split: str) -> "Lines":
        """Each example as a line of JSON that a user could type."""
        documents = self._lines(documents_file(split))

        def show(line: dict[str, Any]) -> str:
            given = {"document": documents[line["document"]]}
            return json.dumps(given | {name: line[name] for name in ("answer", "answer_start")}, ensure_ascii=False)

        return Lines(self._lines(questions_file(split)), show)

    def references(self, split: str) -> "Lines":
        return Lines(self._lines(questions_file(split)), lambda line: str(line["question"]))

    def _lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / name).read_bytes().splitlines()]


class Lines(Sequence[str]):
    """Text made of records as it is asked for."""

    def __init__(self, records: Sequence[Any], show: Callable[[Any], str]) -> None:
        self.records, self.show = records, show

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        return Lines(self.records[index], self.show) if isinstance(index, slice) else self.show(self.records[index])
