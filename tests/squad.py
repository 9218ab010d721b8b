"""Small files in SQuAD's layout."""

import json
from pathlib import Path
from typing import Any

KING = "The old King saw Zorro in Paris. In 1874, Zorro founded a well-known club (the Foxes) there. Nobody knew."
FOX = "Foxes are small. The fox Reineke was never caught, it's said, by the wolf Isengrim."


def asked(question: str, answer: str | None, start: int | None = None, text: str = KING, **more: Any) -> dict[str, Any]:
    answers = (
        [] if answer is None else [{"text": answer, "answer_start": text.find(answer) if start is None else start}]
    )
    return {"id": question[:12].strip() or "blank", "question": question, "answers": answers, **more}


def article(title: str, *paragraphs: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"title": title, "paragraphs": [{"context": text, "qas": qas} for text, qas in paragraphs]}


def write(path: Path, *articles: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"version": "1.1", "data": list(articles)}), "utf-8")
    return path


GOOD = [
    asked("Who saw Zorro in Paris?", "The old King"),
    asked("When did Zorro found a club?", "1874"),
    asked("Who knew?", "Nobody"),
]
FOXES = [asked("Who was never caught?", "Reineke", text=FOX), asked("Who is a wolf?", "Isengrim", text=FOX)]


def train_file(path: Path) -> Path:
    return write(path, article("King", (KING, GOOD)), article("Fox_%28animal%29", (FOX, FOXES)))
