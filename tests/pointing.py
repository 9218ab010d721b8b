"""Small documents with answers and questions, and a model that copies from them."""

from typing import Any

import torch

from pag.config import build_recipe
from pag.data.batch import Batch
from pag.data.document import Document, collate_documents
from pag.data.questions import Lexicon
from pag.model import Seq2Seq
from pag.text.vocabulary import Vocabulary
from small import TOKEN, K, recipe

LEXICON = Lexicon(Vocabulary.of(["the", "old", "king", "saw"]), Vocabulary.of(["who", "saw", "the", "?"]), True)
TEXTS = [
    ("The old King saw Zorro , the Zorro", (2, 3), "Who saw Zorro ?"),
    ("Zorro saw Batman", (0, 1), "Who saw Batman Batman the Joker ?"),
    ("saw", (0, 1), "Who ?"),
    ("the king saw the fox , the cat , the hen and Zorro", (10, 12), "who saw the hen ?"),
]


def example(text: str, answer: tuple[int, int], question: str | None, most: int = 100) -> Document:
    from pag.data.document import pointed

    keys: dict[str, int] = {}
    document = LEXICON.words(text.split(), keys)
    asked = None if question is None else LEXICON.words(question.split(), keys)
    return pointed(document, answer, asked, len(LEXICON.shortlist), most)


def examples() -> list[Document]:
    return [example(*text) for text in TEXTS]


def documents() -> Batch:
    return collate_documents(examples())


def pointer(name: str = "pag", answer: str | None = "mean", seed: int = 0, **loss: Any) -> Seq2Seq:
    """In float64, with weights of a size that makes the switch and the plan choose."""
    base = recipe(name, loss=loss, train={"seed": seed}).model_dump(mode="json")
    base["task"] = {"name": "questions"}
    base["model"] |= {"readout": "pointer", "answer": answer, "embedding": TOKEN}
    built = Seq2Seq(build_recipe(base, "test"), len(LEXICON.source), len(LEXICON.shortlist)).double()
    with torch.no_grad():
        for weight in built.parameters():
            weight.mul_(3)
    return built


__all__ = ["LEXICON", "TEXTS", "K", "documents", "example", "examples", "pointer"]
