"""SQuAD's JSON → a prepared folder: articles shared out to splits, words numbered, vocabularies counted."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pag.checkpoint import to_json, write_durably
from pag.data.document import WRITTEN
from pag.data.questions import (
    SPELLINGS,
    VOCABULARY,
    Lexicon,
    QuestionData,
    answers_file,
    documents_file,
    questions_file,
)
from pag.errors import DataError
from pag.prepare import squad
from pag.prepare.arrays import ArrayWriter
from pag.prepare.folder import RaggedWriter, whole, write_manifest
from pag.prepare.lengths import LENGTHS, draw_lengths
from pag.prepare.question_report import UNITS, Split, write_report
from pag.prepare.settings import QuestionSettings
from pag.prepare.squad import Article, Asked, Counted, Paragraph
from pag.text.vocabulary import UNKNOWN, Vocabulary
from pag.text.words import Token, covering, tokenise, words_of

Tell = Callable[[str, int, float], None]  # what is done, questions so far, share of it
Shares = Mapping[str, Sequence[Article]]  # split → its articles
TRAIN, VALID = "train", "valid"


def prepare(
    settings: QuestionSettings,
    splits: Shares,
    out: Path,
    tell: Tell = lambda stage, questions, share: None,
    replace: bool = False,
    picture: bool = True,
) -> dict[str, Any]:
    """Prepare "train" and any others into a folder; validation is held out of the training articles unless given.
    Without `picture`, lengths are not drawn."""
    beside = Counted()
    with whole(out, replace) as folder:
        if VALID not in splits:
            splits = hold_out(splits, settings, beside)
        return Preparation(settings, splits, beside, folder, tell).run(picture)


def share_out(articles: Sequence[Article], lists: Mapping[str, Sequence[str]]) -> dict[str, list[Article]]:
    """Articles by lists of titles, as Du et al. (2017) split them; every listed title must be there."""
    by_title = {squad.plain(article.title): article for article in joined(articles)}
    taken: dict[str, str] = {}
    for split, wanted in lists.items():
        missing = [title for title in wanted if title not in by_title]
        if missing:
            raise DataError(f"{len(missing)} of the articles listed for {split} are in no file, as '{missing[0]}'")
        for title in wanted:
            if taken.setdefault(title, split) != split:
                raise DataError(
                    f"'{title}' is listed for {taken[title]} and for {split}: an article belongs to one split"
                )
    return {split: [by_title[title] for title in wanted] for split, wanted in lists.items()}


def joined(articles: Sequence[Article]) -> list[Article]:
    """Articles of one title, whatever its quoting, as one: they may share paragraphs."""
    alike: dict[str, list[Article]] = {}
    for article in articles:
        alike.setdefault(squad.plain(article.title), []).append(article)
    return [Article(some[0].title, [p for article in some for p in article.paragraphs]) for some in alike.values()]


def hold_out(splits: Shares, settings: QuestionSettings, beside: Counted) -> dict[str, list[Article]]:
    """Validation from whole articles, so that it shares no paragraph with training; the last one's rest is left out."""
    articles = joined(splits[TRAIN])
    order = np.random.default_rng(settings.seed).permutation(len(articles)).tolist()
    wanted, held = settings.valid, []
    if not any(article.questions for article in articles):
        raise DataError("the training files hold no question")
    while wanted > 0 and len(order) > 1:
        article = articles[order.pop()]
        held.append(_first(article, wanted, beside))
        wanted -= article.questions
    if wanted > 0:
        raise DataError(
            f"validation is to have {settings.valid:,} questions, but all training articles but one have "
            f"{settings.valid - wanted:,}: ask for fewer with --valid-questions"
        )
    return {TRAIN: [articles[number] for number in sorted(order)], VALID: held, **_others(splits)}


def _others(splits: Shares) -> dict[str, list[Article]]:
    return {split: list(articles) for split, articles in splits.items() if split != TRAIN}


def _first(article: Article, wanted: int, beside: Counted) -> Article:
    """The article's first `wanted` questions; the others are counted."""
    paragraphs = []
    for paragraph in article.paragraphs:
        kept = paragraph.asked[: max(0, wanted)]
        wanted -= len(kept)
        for asked in paragraph.asked[len(kept) :]:
            beside.add("beside_valid", asked.name)
        paragraphs.append(Paragraph(paragraph.text, kept))
    return Article(article.title, paragraphs)


@dataclass
class Spellings:
    """Every spelling met, numbered."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, words: Sequence[str]) -> np.ndarray:
        return np.array([self.numbers.setdefault(word, len(self.numbers)) for word in words], np.int32)


class Preparation:
    """One folder in the making."""

    def __init__(self, settings: QuestionSettings, splits: Shares, beside: Counted, folder: Path, tell: Tell) -> None:
        self.settings, self.splits, self.beside, self.folder, self.tell = settings, splits, beside, folder, tell
        self.spellings = Spellings()
        self.document_words: Counter[str] = Counter()
        self.question_words: Counter[str] = Counter()

    def run(self, picture: bool) -> dict[str, Any]:
        facts = {split: self.write(split, articles) for split, articles in self.splits.items()}
        for split, found in facts.items():
            if not found.kept:
                raise DataError(f"{split}: no question is left of {found.read:,}{found.why()}")
        lexicon = self.count()
        write_durably(self.folder / SPELLINGS, to_json(list(self.spellings.numbers)))
        kept = {"source": lexicon.source.symbols, "target": lexicon.shortlist.symbols}
        write_durably(self.folder / VOCABULARY, to_json({**kept, "lower_case": lexicon.lower_case}))
        pairs = {split: found.kept for split, found in facts.items()}
        self.cover(facts, lexicon)
        report = write_report(self.folder, self.settings, facts, lexicon)
        if picture:
            draw_lengths({split: found.lengths for split, found in facts.items()}, UNITS, self.folder / LENGTHS)
        write_manifest(self.folder, "questions", self.settings, lexicon.fingerprint, pairs)
        return report

    def count(self) -> Lexicon:
        """The most frequent words of the training documents, and of the training questions."""
        source = Vocabulary.most_frequent(self.document_words, self.settings.documents)
        shortlist = Vocabulary.most_frequent(self.question_words, self.settings.shortlist)
        return Lexicon(source, shortlist, self.settings.lower_case)

    def write(self, split: str, articles: Sequence[Article]) -> Split:
        """One split's words, numbered; what is dropped and mended is counted."""
        found, total = Split(), sum(article.questions for article in articles)
        if split == VALID:
            found.dropped, found.read = self.beside, sum(self.beside.counts.values())
        with SplitWriter(self.folder, split, self.spellings) as writer:
            for article in articles:
                for paragraph in article.paragraphs:
                    self.add(split, paragraph, found, writer)
                self.tell(f"tokenising {split}", found.read, found.read / max(1, total))
        return found

    def add(self, split: str, paragraph: Paragraph, found: Split, writer: "SplitWriter") -> None:
        tokens = tokenise(paragraph.text)
        document = None
        for asked in paragraph.asked:
            found.read += 1
            name = asked.name
            judged = judge(paragraph.text, tokens, asked, self.settings.max_question if split == TRAIN else None)
            for reason in judged.mended:
                found.mended.add(reason, name)
            if judged.dropped:
                found.dropped.add(judged.dropped, name)
                continue
            if document is None:
                document = writer.document(paragraph.text, tokens)
                self._count(split, self.document_words, [token.text for token in tokens])
            if len(tokens) > self.settings.max_document:
                found.mended.add("cut", name)
            writer.question(document, judged)
            self._count(split, self.question_words, judged.words)
            found.add(paragraph.text, name, len(tokens), len(judged.words))

    def _count(self, split: str, counter: Counter[str], words: Sequence[str]) -> None:
        if split == TRAIN:
            counter.update([word.lower() for word in words] if self.settings.lower_case else words)

    def cover(self, facts: Mapping[str, Split], lexicon: Lexicon) -> None:
        """How many question words the shortlist has, how many can be copied, and how many neither."""
        table, size = lexicon.words(list(self.spellings.numbers), {}), len(lexicon.shortlist)
        for split, found in facts.items():
            data = QuestionData(self.folder, split, table, size, self.settings.max_document)
            for number in range(len(data)):
                example = data[number]
                assert example.target is not None and example.locations is not None
                target = np.array(example.target[:-1])
                located = np.array(example.locations[:-1]) != WRITTEN
                short = (target != UNKNOWN) & (target < size)
                found.cover(short, located, len(example.extra))
            self.tell("counting", len(data), 1.0)


@dataclass(frozen=True)
class Judged:
    """A question that can be used, or why it cannot."""

    dropped: str = ""
    mended: tuple[str, ...] = ()
    question: str = ""
    words: Sequence[str] = ()
    answer: str = ""
    start: int = 0  # of the answer, in characters
    span: tuple[int, int] = (0, 0)  # and in words


def judge(text: str, tokens: list[Token], asked: Asked, most: int | None) -> Judged:
    words = words_of(asked.question)
    if not words:
        return Judged("empty_question")
    if most is not None and len(words) > most:
        return Judged("long_question")
    if not asked.answers:
        return Judged("no_answer")
    answer, told = asked.answers[0]
    if not answer.strip():
        return Judged("empty_answer")
    start = squad.locate(text, tokens, answer, told)
    span = covering(tokens, start, start + len(answer)) if start >= 0 else None
    if span is None:
        return Judged("answer_not_found")
    question = " ".join(asked.question.split())
    inside = answer.strip()
    first = start + answer.index(inside)
    exact = tokens[span[0]].start == first and tokens[span[1] - 1].end == first + len(inside)
    reasons = {"answer_moved": start != told, "answer_widened": not exact, "blanks": question != asked.question}
    mended = tuple(reason for reason, so in reasons.items() if so)
    return Judged("", mended, question, words, answer, start, span)


class SplitWriter:
    """The files of one split."""

    def __init__(self, folder: Path, split: str, spellings: Spellings) -> None:
        self.spellings = spellings
        self.documents = RaggedWriter(folder, f"{split}.documents", np.int32)
        self.questions = RaggedWriter(folder, f"{split}.questions", np.int32)
        self.answers = ArrayWriter(folder / answers_file(split), np.int32)
        self.texts = (folder / documents_file(split)).open("w", encoding="utf-8")
        self.lines = (folder / questions_file(split)).open("w", encoding="utf-8")
        self.count = 0

    def document(self, text: str, tokens: Sequence[Token]) -> int:
        """Its number."""
        self.documents.append(self.spellings.of([token.text for token in tokens]), np.array([len(tokens)]))
        print(json.dumps(text, ensure_ascii=False), file=self.texts)
        self.count += 1
        return self.count - 1

    def question(self, document: int, judged: Judged) -> None:
        self.questions.append(self.spellings.of(judged.words), np.array([len(judged.words)]))
        self.answers.append(np.array([document, *judged.span]))
        line = {"document": document, "answer": judged.answer, "answer_start": judged.start}
        print(json.dumps({**line, "question": judged.question}, ensure_ascii=False), file=self.lines)

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, *failure: Any) -> None:
        for array in (self.documents, self.questions, self.answers):
            array.__exit__(*failure)
        for file in (self.texts, self.lines):
            file.close()
