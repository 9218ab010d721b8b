"""What is in a prepared folder of questions: counts, what was dropped or mended and why, which words can be copied."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pag.checkpoint import to_json, write_durably
from pag.data.questions import Lexicon
from pag.prepare.lengths import counted
from pag.prepare.settings import QuestionSettings
from pag.prepare.squad import DROPPED, MENDED, SHOWN, Counted

UNITS = ("words a document", "words a question")


@dataclass
class Split:
    """What is known of one split."""

    read: int = 0
    kept: int = 0
    dropped: Counted = field(default_factory=Counted)
    mended: Counted = field(default_factory=Counted)
    documents: list[int] = field(default_factory=list)  # words of each question's document
    questions: list[int] = field(default_factory=list)  # words of each question
    about: dict[str, list[str]] = field(default_factory=dict)  # each document's questions
    shares: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))  # both, shortlist, copied, neither
    extra: int = 0  # words that only a document adds to the shortlist

    def add(self, text: str, name: str, document: int, question: int) -> None:
        """A question by its name, its document, and how many words both have."""
        self.kept += 1
        self.about.setdefault(text, []).append(name)
        self.documents.append(document)
        self.questions.append(question)

    def cover(self, short: np.ndarray, located: np.ndarray, extra: int) -> None:
        kinds = (short & located, short & ~located, ~short & located, ~short & ~located)
        self.shares += np.array([kind.sum() for kind in kinds])
        self.extra += extra

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """How many questions have a document of each length, and how many have each length."""
        return counted(self.documents), counted(self.questions)

    def shared(self, other: "Split") -> dict[str, Any]:
        """Which questions are about a document that the other split has, too."""
        names = [name for text, names in self.about.items() if text in other.about for name in names]
        return {"questions": len(names), "first": names[:SHOWN]}

    def why(self) -> str:
        """What questions were dropped for, in words."""
        return "".join(f"; {count:,}: {DROPPED[reason]}" for reason, count in self.dropped.counts.items())

    def summary(self) -> dict[str, Any]:
        words = int(self.shares.sum())
        names = ("shortlist_and_document", "shortlist_only", "document_only", "neither")
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": self.dropped.summary(),
            "mended": self.mended.summary(),
            "document_words": _lengths(self.documents),
            "question_words": _lengths(self.questions),
            "question_words_in": {
                name: {"words": int(count), "share": round(int(count) / max(1, words), 6)}
                for name, count in zip(names, self.shares, strict=True)
            },
            "words_added_by_a_document": round(self.extra / max(1, self.kept), 2),
        }


def _lengths(lengths: list[int]) -> dict[str, float]:
    return {"mean": round(float(np.mean(lengths or [0])), 2), "longest": max(lengths, default=0)}


def write_report(
    folder: Path, settings: QuestionSettings, facts: Mapping[str, Split], lexicon: Lexicon
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "settings": settings.model_dump(),
        "vocabularies": {"documents": len(lexicon.source), "shortlist": len(lexicon.shortlist)},
        "splits": {split: found.summary() for split, found in facts.items()},
    }
    shared = {split: facts["train"].shared(found) for split, found in facts.items() if split != "train"}
    report["splits"]["train"]["documents_also_in"] = shared
    write_durably(folder / "report.json", to_json(report))
    write_durably(folder / "report.txt", as_text(report).encode())
    return report


def as_text(report: Mapping[str, Any]) -> str:
    sizes = report["vocabularies"]
    lines = [f"{sizes['documents']:,} document words, a shortlist of {sizes['shortlist']:,}"]
    for split, facts in report["splits"].items():
        lines += ["", f"{split}: {facts['kept']:,} questions kept of {facts['read']:,}"]
        for said, kinds in (("dropped", DROPPED), ("mended", MENDED)):
            lines += [
                f"  {said} {found['questions']:,}: {kinds[reason]}; first: {', '.join(found['first'])}"
                for reason, found in facts[said].items()
            ]
        for side in ("document", "question"):
            lengths = facts[f"{side}_words"]
            lines.append(f"  words a {side}: {lengths['mean']}, longest {lengths['longest']}")
        shares = ", ".join(
            f"{found['share']:.1%} {name.replace('_', ' ')}" for name, found in facts["question_words_in"].items()
        )
        lines.append(f"  question words are in: {shares}")
        for other, found in facts.get("documents_also_in", {}).items():
            where = f" ({', '.join(found['first'])})" if found["first"] else ""
            lines.append(
                f"  {found['questions']:,} training questions are about a document that is also in {other}{where}"
            )
    return "\n".join(lines) + "\n"
