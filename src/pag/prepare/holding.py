"""Sets held out of the training pairs, for those who have no others.

Pairs are ranked by a hash of their source, and the first are held out: the choice does not hang on the order of the
text, changes little when text is added, and a set stays the same when another is asked for after it.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from pag.errors import DataError
from pag.prepare.cleaning import judge, tokenised
from pag.prepare.reading import Block, Corpus
from pag.prepare.settings import PrepareSettings


class Chosen(Corpus):
    """Pairs that are at hand, each in a block of its own so far; those of one file travel together."""

    def __init__(self, pairs: Iterable[Block]) -> None:
        self.pairs, self.read, self.size = list(pairs), 0, 0

    def blocks(self) -> Iterator[Block]:
        for name, group in groupby(self.pairs, key=attrgetter("name")):
            pairs = list(group)
            sides = ([getattr(pair, side)[0] for pair in pairs] for side in ("lines", "source", "target"))
            yield Block(name, *sides)


class Without(Corpus):
    """A corpus without the pairs that have one of these sources."""

    def __init__(self, corpus: Corpus, sources: frozenset[bytes]) -> None:
        self.corpus, self.sources, self.read, self.size = corpus, sources, 0, corpus.size

    def blocks(self) -> Iterator[Block]:
        for block in self.corpus.blocks():
            self.read = self.corpus.read
            left = [place for place, source in enumerate(block.source) if source.strip() not in self.sources]
            yield block.only(left)


def hold_out(
    corpora: Mapping[str, Corpus], settings: PrepareSettings, tell: Callable[[int, float], None]
) -> dict[str, Corpus]:
    """The corpora, and the sets of `settings.hold_out`. No source of theirs is left in the training pairs."""
    sizes = settings.hold_out
    if twice := sizes.keys() & corpora.keys():
        raise DataError(f"the set '{min(twice)}' is given, and to be held out too: do one of the two")
    if not sizes:
        return dict(corpora)
    pairs = _first(corpora["train"], sum(sizes.values()), settings, tell)
    left = Without(corpora["train"], frozenset(pair.source[0].strip() for _, pair in pairs))
    ranked = iter(pairs)
    sets = {
        split: Chosen(pair for _, pair in sorted(islice(ranked, size), key=itemgetter(0)))
        for split, size in sizes.items()
    }
    return {**corpora, "train": left, **sets}


def _first(
    corpus: Corpus, most: int, settings: PrepareSettings, tell: Callable[[int, float], None]
) -> list[tuple[int, Block]]:
    """The pairs that rank first, each with its number in the corpus; of those with the same source, the first."""
    found: list[tuple[int, int, Block]] = []  # the last rank on top
    taken, number = set(), 0
    for block in corpus.blocks():
        for place, source in enumerate(block.source):
            rank = int.from_bytes(blake2b(source.strip(), digest_size=8).digest(), "big")
            if rank in taken or (len(found) == most and rank > -found[0][0]):
                continue
            pair = block.only([place])
            if judge(*tokenised(pair, settings)[0], settings):
                continue
            taken.add(rank)
            heapq.heappush(found, (-rank, number + place, pair))
            if len(found) > most:
                heapq.heappop(found)
        number += len(block.source)
        tell(number, corpus.read / corpus.size if corpus.size else 0.0)
    if len(found) < most:
        raise DataError(
            f"cannot hold out {most:,} pairs: of {number:,} training pairs only {len(found):,} can be used and have "
            "different sources; ask for fewer"
        )
    return [(number, pair) for _, number, pair in sorted(found, reverse=True)]
