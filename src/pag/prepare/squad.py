"""SQuAD's JSON read, judged and mended: articles of paragraphs of questions with their answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pag.errors import DataError
from pag.prepare.reading import read_whole
from pag.text.words import Token, half_character, occurrences

SHOWN = 5  # places kept of each reason
DROPPED = {
    "no_answer": "no answer is given",
    "answer_not_found": "the answer does not occur in its paragraph",
    "empty_answer": "the answer is empty",
    "empty_question": "the question is empty",
    "long_question": "the question has more than max_question words",
    "beside_valid": "the rest of an article that validation was taken from",
}
MENDED = {
    "answer_moved": "the answer was not where answer_start says; its nearest occurrence was taken",
    "answer_widened": "the answer begins or ends inside a word; the whole word was taken",
    "blanks": "needless blanks in the question",
    "cut": "the document was cut around its answer",
}


@dataclass
class Counted:
    """How often each thing happened, and where the first few are."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, where: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        places = self.first.setdefault(reason, [])
        if len(places) < SHOWN:
            places.append(where)

    def summary(self) -> dict[str, Any]:
        return {reason: {"questions": count, "first": self.first[reason]} for reason, count in self.counts.items()}


@dataclass(frozen=True)
class Asked:
    """A question as it came."""

    name: str  # its id, for reports
    question: str
    answers: Sequence[tuple[str, int]]  # text and first character


@dataclass(frozen=True)
class Paragraph:
    text: str
    asked: Sequence[Asked]


@dataclass(frozen=True)
class Article:
    title: str
    paragraphs: Sequence[Paragraph]

    @property
    def questions(self) -> int:
        return sum(len(paragraph.asked) for paragraph in self.paragraphs)


def read(path: Path) -> list[Article]:
    """The articles of one file, plain, .gz or .xz."""
    try:
        whole = json.loads(read_whole(path))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start + 1}): expected SQuAD's JSON") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}): expected SQuAD's layout, {LAYOUT}") from None
    except RecursionError:
        raise DataError(f"{path} is nested too deeply to be SQuAD's JSON, {LAYOUT}") from None
    return [_article(article, f"{path}, data[{n}]") for n, article in enumerate(_get(whole, "data", list, str(path)))]


LAYOUT = '{"data": [{"title": …, "paragraphs": [{"context": …, "qas": [{"question": …, "answers": …}]}]}]}'


def _article(value: Any, where: str) -> Article:
    paragraphs = [
        _paragraph(paragraph, f"{where}.paragraphs[{n}]")
        for n, paragraph in enumerate(_get(value, "paragraphs", list, where))
    ]
    return Article(_get(value, "title", str, where), paragraphs)


def _paragraph(value: Any, where: str) -> Paragraph:
    asked = [_asked(one, f"{where}.qas[{n}]") for n, one in enumerate(_get(value, "qas", list, where))]
    return Paragraph(_get(value, "context", str, where), asked)


def _asked(value: Any, where: str) -> Asked:
    """A question without answers is kept for now: it is counted when it is judged."""
    question = _get(value, "question", str, where)
    given = value.get("answers") or []
    if not isinstance(given, list):
        raise DataError(f"{where}: 'answers' must be a list: expected {LAYOUT}")
    answers = [
        (_get(one, "text", str, f"{where}.answers[{n}]"), _get(one, "answer_start", int, f"{where}.answers[{n}]"))
        for n, one in enumerate(given)
    ]
    return Asked(_name(value.get("id")) or where, question, answers)


def _name(given: Any) -> str:
    """An id as a report can show it; nothing where it cannot."""
    text = " ".join(str(given).split()) if isinstance(given, str | int) else ""
    return "" if half_character(text) else text


def _get(value: Any, key: str, kind: type, where: str) -> Any:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise DataError(f"{where} has no {kind.__name__} '{key}': expected {LAYOUT}")
    if isinstance(found, str) and (half := half_character(found)):
        raise DataError(f"{where}: '{key}' holds half a character ({half}), which is no text: mend the file")
    return found


def locate(text: str, tokens: list[Token], answer: str, start: int) -> int:
    """Where the answer is: at `start`, or at the occurrence nearest to it; −1 where there is none."""
    if text[start : start + len(answer)] == answer and start >= 0:
        return start
    return min(occurrences(text, tokens, answer), key=lambda place: abs(place - start), default=-1)


def titles(path: Path) -> list[str]:
    """Article titles, one a line, each once; they are compared without URL quoting."""
    lines = read_whole(path).decode("utf-8", "replace").splitlines()
    found = dict.fromkeys(plain(line.strip()) for line in lines if line.strip())
    if not found:
        raise DataError(f"{path} is empty: expected one article title a line")
    return list(found)


def plain(title: str) -> str:
    return unquote(title).replace(" ", "_")
