"""Words with their places in the text, and words made into text again.

Punctuation is apart, as are the endings of contractions (it 's, do n't); numbers, abbreviations with inner dots and
words with inner hyphens are whole.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

WORD = re.compile(
    r"""
      (?:[^\W\d_]\.){2,}                  # U.S. and e.g.
    | \d+(?:[.,:]\d+)+                    # 1,000.5 and 10:30
    | \w+(?=n['’]t\b)                     # do of don't
    | n['’]t\b
    | ['’](?:s|re|ve|ll|d|m)\b
    | \w[\w\u0300-\u036f]*(?:-\w+)*       # accents may be apart from their letters
    | \.{2,}
    | [^\w\s]
    """,
    re.VERBOSE | re.IGNORECASE,
)
ENDINGS = re.compile(r"n['’]t|['’](?:s|re|ve|ll|d|m)", re.IGNORECASE)
AFTER = frozenset("?!.,;:)]}%’”") | {"..."}  # no blank before these
BEFORE = frozenset("([{$£€#“‘")  # none after these
QUOTES = frozenset("\"'")
HALF = re.compile(r"[\ud800-\udfff]")
SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+(?=[^\s\da-z])")


class Token(NamedTuple):
    text: str
    start: int
    end: int  # the place after its last character


def tokenise(text: str) -> list[Token]:
    """Every character but blanks is in exactly one token, and `text[token.start : token.end]` is the token."""
    return [Token(found.group(), found.start(), found.end()) for found in WORD.finditer(text)]


def words_of(text: str) -> list[str]:
    return WORD.findall(text)


def half_character(text: str) -> str:
    """Half of a character, as JSON can spell it and no file can hold it; nothing where all are whole."""
    found = HALF.search(text)
    return f"\\u{ord(found.group()):04x}" if found else ""


def covering(tokens: list[Token], start: int, end: int) -> tuple[int, int] | None:
    """The tokens that hold the characters from `start` to `end`, as first and one after the last."""
    first = bisect_right(tokens, start, key=lambda token: token.end)
    last = bisect_left(tokens, end, key=lambda token: token.start)
    return (first, last) if first < last else None


def occurrences(text: str, tokens: list[Token], part: str) -> list[int]:
    """Where the part begins: wherever it is whole words, or else, where it never is, wherever it stands at all."""
    places, place = [], text.find(part)
    while place >= 0:
        places.append(place)
        place = text.find(part, place + 1)
    before, size = len(part) - len(part.lstrip()), len(part.strip())
    starts, ends = {token.start for token in tokens}, {token.end for token in tokens}
    whole = [place for place in places if place + before in starts and place + before + size in ends]
    return whole or places


def join(words: Iterable[str]) -> str:
    """Words as text, with blanks where a writer of English puts them."""
    words = list(words)
    text, blank, opened = "", False, False
    for place, word in enumerate(words):
        quote = word in QUOTES and (opened or word in words[place + 1 :])  # one alone is an apostrophe
        opened ^= quote
        glued = word in AFTER or (word in QUOTES and not opened) or ENDINGS.fullmatch(word)
        text += word if glued or not blank else f" {word}"
        blank = not (word in BEFORE or (quote and opened))
    return text


def sentence_at(text: str, place: int) -> int:
    """Where the sentence starts that holds this character."""
    starts = [found.end() for found in SENTENCE_END.finditer(text)]
    return max((start for start in starts if start <= place), default=0)
