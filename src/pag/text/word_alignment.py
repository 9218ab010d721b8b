"""Alignments between words, from alignments between subwords and characters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pag.generator import Output
from pag.text.alignment_stats import BLANK
from pag.text.subwords import LATER
from pag.text.vocabulary import SPECIALS


@dataclass(frozen=True)
class WordAlignment:
    """How much each output word looked at each source word; the source's end is its last row."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray  # [target words, source words], rows sum to one

    def pharaoh(self) -> str:
        """`source-target` pairs of word positions; a word that looked mostly at the source's end is left out."""
        best = self.weights.argmax(1)
        return " ".join(f"{s}-{t}" for t, s in enumerate(best) if s < len(self.source) - 1)


def word_alignment(output: Output, source: bool = True, target: bool = True) -> WordAlignment:
    """Weights are summed over a source word's pieces and averaged over an output word's characters; on a side that is
    not to be counted in words, its pieces or characters are taken for words."""
    assert output.alignment is not None, "generate with alignments=True"
    pieces = _spans([not (source and label.startswith(LATER)) for label in output.source])
    steps = len(output.tokens) - (output.tokens[-1:] == (SPECIALS[1],))
    characters = _words(output.tokens[:steps]) if target else [(step, step + 1) for step in range(steps)]
    summed = np.add.reduceat(output.alignment, [start for start, _ in pieces], axis=1)
    rows = [summed[start:end].mean(0) for start, end in characters]
    return WordAlignment(
        tuple("".join(label.removeprefix(LATER) for label in output.source[a:b]) for a, b in pieces),
        tuple("".join(output.tokens[a:b]) for a, b in characters),
        np.array(rows).reshape(len(rows), len(pieces)),
    )


def _spans(starts: Sequence[bool]) -> list[tuple[int, int]]:
    """From where each span starts: (start, end) of each."""
    places = [place for place, start in enumerate(starts) if start or place == 0]
    return list(zip(places, [*places[1:], len(starts)], strict=True))


def _words(characters: Sequence[str]) -> list[tuple[int, int]]:
    found, start = [], None
    for place, character in enumerate([*characters, BLANK]):
        if character == BLANK and start is not None:
            found.append((start, place))
            start = None
        elif character != BLANK and start is None:
            start = place
    return found
