"""Byte-pair encoding of tokenised text (Sennrich et al.), learned and applied by Hugging Face tokenizers."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from pag.text.vocabulary import SPECIALS, Vocabulary

START = "▁"  # marks where a word starts
LATER = "··"  # shown before a word's later pieces
ALPHABET = 1000  # characters kept; rarer ones are unknown


class Subwords:
    """Words in, subword ids out. The first three symbols are padding, end, and unknown."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        size = tokenizer.get_vocab_size()
        self.vocabulary = Vocabulary([tokenizer.id_to_token(index) or "" for index in range(size)])

    @classmethod
    def learn(cls, lines: Iterable[str], counts: Mapping[str, int], size: int) -> "Subwords":
        """From tokenised text and how often each character occurs in it; the lines' order does not matter."""
        kept = sorted(counts, key=lambda character: (-counts[character], character))[: ALPHABET - 1]
        alphabet = [START, *(character for character in kept if character != START)]
        tokenizer = Tokenizer(models.BPE(unk_token=SPECIALS[2]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # learning is twice as fast on marked words
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=2, special_tokens=list(SPECIALS), show_progress=False,
            initial_alphabet=alphabet, limit_alphabet=len(alphabet),
        )  # fmt: skip
        tokenizer.train_from_iterator(_marked(lines), trainer)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(START)
        return cls(tokenizer)

    @classmethod
    def from_json(cls, value: Any) -> "Subwords":
        return cls(Tokenizer.from_str(json.dumps(value)))

    def to_json(self) -> Any:
        return json.loads(self.tokenizer.to_str())

    def encode(self, words: str) -> list[int]:
        """Ids of tokenised text, without an end symbol."""
        return list(self.tokenizer.encode(words).ids)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Each word by itself; a line's ids are its words' ids one after another."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(words)]

    def decode(self, ids: Iterable[int]) -> str:
        """Tokenised text up to the end symbol."""
        return "".join(self.vocabulary.decode(ids)).replace(START, " ").strip()


def _marked(lines: Iterable[str]) -> Iterator[list[str]]:
    """Every word with its start marked; several lines as one text, several texts at a time."""
    rest = iter(lines)
    while texts := [f" {' '.join(some)}".replace(" ", f" {START}") for some in _groups(rest, 50, 40)]:
        yield texts


def _groups(lines: Iterator[str], size: int, most: int) -> Iterator[list[str]]:
    for _ in range(most):
        if not (group := list(islice(lines, size))):
            return
        yield group


def label(symbol: str) -> str:
    """A subword as it is shown."""
    if symbol in SPECIALS:
        return symbol
    return symbol.removeprefix(START) if symbol.startswith(START) else f"{LATER}{symbol}"
