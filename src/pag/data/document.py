"""Documents with an answer in them: what can be copied, what is asked about, and the question where it is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from pag.data.batch import Batch, Example, Pointing, collate, pad
from pag.text.vocabulary import END, UNKNOWN

WRITTEN = -1  # the location of a word that is not copied
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Words:
    """A text as the model knows it: one entry for each of its words."""

    keys: np.ndarray  # equal where two words are the same to the model
    source: np.ndarray  # ids in the document vocabulary
    shortlist: np.ndarray  # ids in the shortlist, UNKNOWN where it lacks the word
    spelling: Sequence[str]

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, end: int) -> "Words":
        inside = slice(start, end)
        return Words(self.keys[inside], self.source[inside], self.shortlist[inside], self.spelling[inside])


@dataclass(frozen=True)
class Document(Example):
    """A document's words, the end symbol after them. Outputs are numbered as `Pointing` says."""

    words: Sequence[int] = ()  # the output that each source position holds
    extra: Sequence[int] = ()  # source ids of the words that the shortlist lacks
    answer: tuple[int, int] = (0, 1)  # first position, and the one after the last
    locations: Sequence[int] | None = None  # where each target token is copied from, WRITTEN where it is not
    spelling: Sequence[str] = ()  # of each position but the end
    left_out: tuple[int, int] = (0, 0)  # words of the whole document before and after these

    def cut(self, most: int) -> Self:
        """At most `most` positions around the answer, the end symbol included."""
        words = len(self.source) - 1
        first, last = window(words, *self.answer, most - 1)
        return replace(
            self,
            source=[*self.source[first:last], END],
            words=[*self.words[first:last], END],
            answer=(self.answer[0] - first, min(self.answer[1], last) - first),
            spelling=self.spelling[first:last],
            left_out=(self.left_out[0] + first, self.left_out[1] + words - last),
        )


def window(length: int, start: int, end: int, most: int) -> tuple[int, int]:
    """The `most` words of a document with the answer in their middle; of an answer that is longer, its beginning."""
    if length <= most:
        return 0, length
    if end - start >= most:
        return start, start + most
    first = min(max(0, (start + end - most) // 2), length - most)
    return first, first + most


def pointed(document: Words, answer: tuple[int, int], question: Words | None, shortlist: int, most: int) -> Document:
    """An example, its document cut to `most` words; the shortlist has `shortlist` symbols."""
    first, last = window(len(document), *answer, most)
    left_out = first, len(document) - last
    document, answer = document.part(first, last), (answer[0] - first, min(answer[1], last) - first)
    lacking = np.flatnonzero(document.shortlist == UNKNOWN)
    _, places, numbers = np.unique(document.keys[lacking], return_index=True, return_inverse=True)
    order = np.argsort(places)  # words are numbered as they first occur
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    words = document.shortlist.astype(np.int64)
    words[lacking] = shortlist + rank[numbers]
    example = Document(
        [*document.source.tolist(), END],
        words=[*words.tolist(), END],
        extra=document.source[lacking[places[order]]].tolist(),
        answer=answer,
        spelling=document.spelling,
        left_out=left_out,
    )
    return example if question is None else asked(example, document.keys, words, question)


def asked(example: Document, keys: np.ndarray, words: np.ndarray, question: Words) -> Document:
    """The question's target ids, and where the paper would have each word copied from: the place nearest the answer.

    A word that occurs in the document is copied; one that does not is written, as unknown where the shortlist lacks it.
    """
    place = np.arange(len(keys))
    distance = np.maximum(np.maximum(example.answer[0] - place, place - example.answer[1] + 1), 0)
    cost = np.where(question.keys[:, None] == keys, distance, NEVER)  # [T, S]
    nearest = cost.argmin(1)
    there = cost[np.arange(len(cost)), nearest] < NEVER
    target = np.where(there, words[nearest], question.shortlist)
    locations = np.where(there, nearest, WRITTEN)
    return replace(example, target=[*target.tolist(), END], locations=[*locations.tolist(), WRITTEN])


def collate_documents(examples: Sequence[Any]) -> Batch:
    batch = collate(examples)
    words, _ = pad([example.words for example in examples])
    extra, _ = pad([example.extra for example in examples], longest=1)
    answer = torch.zeros(words.shape, dtype=torch.bool)
    for row, example in zip(answer, examples, strict=True):
        row[slice(*example.answer)] = True
    locations = None if batch.target is None else pad([example.locations for example in examples])[0]
    return replace(batch, pointing=Pointing(words, extra, answer, locations))


@dataclass(frozen=True)
class Copies:
    """Where each token of an output came from."""

    copied: np.ndarray  # source position, WRITTEN where the token was rather written [T]
    copy_share: np.ndarray  # share of the token's probability that comes from copying [T]


def copies(
    words: Sequence[int], ids: Sequence[int], log_probs: Sequence[float], alignment: np.ndarray, copying: np.ndarray
) -> Copies:
    """The likeliest place among those that hold the token."""
    held = np.asarray(words) == np.asarray(ids)[:, None]  # [T, S]
    weights = alignment * copying[:, None] * held
    share = np.clip(weights.sum(1) / np.exp(np.asarray(log_probs)), 0.0, 1.0)
    return Copies(np.where(share > 0.5, weights.argmax(1), WRITTEN), share)
