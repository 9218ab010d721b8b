"""Symbols and their ids."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

PAD, END, UNKNOWN = 0, 1, 2
SPECIALS = ("<pad>", "<end>", "<unk>")


class Vocabulary:
    """A list of symbols; the first three are padding, end, and unknown."""

    def __init__(self, symbols: Sequence[str]) -> None:
        assert tuple(symbols[:3]) == SPECIALS, "a vocabulary starts with its specials"
        self.symbols = list(symbols)
        self.ids = {symbol: index for index, symbol in enumerate(symbols)}

    @classmethod
    def of(cls, symbols: Iterable[str]) -> "Vocabulary":
        return cls([*SPECIALS, *symbols])

    @classmethod
    def count(cls, symbols: Iterable[str], largest: int) -> "Vocabulary":
        """The `largest` most frequent symbols; ties in order of the symbols themselves."""
        return cls.most_frequent(Counter(symbols), largest)

    @classmethod
    def most_frequent(cls, counts: Mapping[str, int], largest: int) -> "Vocabulary":
        return cls.of(sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:largest])

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.ids

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Ids of the symbols, then the end symbol."""
        return [*(self.ids.get(symbol, UNKNOWN) for symbol in symbols), END]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The symbols up to the end symbol."""
        symbols = []
        for index in ids:
            if index == END:
                break
            symbols.append(self.symbols[index])
        return symbols
