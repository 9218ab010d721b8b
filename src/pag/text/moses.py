"""Punctuation normalisation and tokenisation as the Moses scripts do them: sacremoses, many times faster.

A rule of the normaliser is tried only where a string that it needs occurs. The tokeniser looks no
further than the neighbours of a chunk of text between blanks, so the tokens of a chunk are found once
for each kind of neighbour and remembered. Both give exactly what sacremoses gives.
"""

import re
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]

REMEMBERED = 200_000  # chunks; past that all are forgotten, which bounds the memory
# what makes chunks depend on more: deleted control characters, and two apostrophes that share a blank
HARD = re.compile(r"[\000-\010\016-\033]|'\s+'")
# what at least one rule of the normaliser needs; a line without any of it is already normal
TRIGGER = re.compile('[\r()%:;`„“”–—´‘’‚…«»\u00a0"]')
DOUBLES = "  ", "''"
PLAIN = re.compile(rf"[{MosesTokenizer.IsAlnum}\-]+")  # no rule of the tokeniser touches these characters
APART, _ = MosesTokenizer.PAD_NOT_ISALNUM  # a character that is a token of its own
MARKER = "MULTI"  # … unless they look like its own name for several dots
TRICKY = re.compile(r"[.,']")  # what depends on its neighbours
PLACED = ""  # stands for tokens that depend on the chunk's place
LOWERS, DIGITS = frozenset(MosesTokenizer.IsLower), frozenset("0123456789")
DETOKENISED_AS = {"cs": "de"}  # sacremoses' Czech rule glues every number of a sentence that ends with one
LOWER, DIGIT, OTHER, LAST = "a", "1", "A", ""  # what comes after a chunk, as text that acts like it


class Moses:
    """One language's normaliser, tokeniser and detokeniser. Tokens are not escaped."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._slow = MosesTokenizer(language)
        self._joiner = MosesDetokenizer(DETOKENISED_AS.get(language, language))
        self._rules = [_rule(*pair) for pair in MosesPunctNormalizer(language).substitutions]
        self._numeric = set(self._slow.NUMERIC_ONLY_PREFIXES)
        self._prefixes = set(self._slow.NONBREAKING_PREFIXES) - self._numeric
        self._inside = _Anywhere()
        self._placed: dict[tuple[str, bool, str], str] = {}  # chunk, is it the first, what comes after → its tokens

    def clean(self, line: str) -> str:
        """A raw line, normalised and tokenised: tokens with one blank between them."""
        return self.tokenise(self.normalise(line))

    def normalise(self, line: str) -> str:
        if TRIGGER.search(line) or DOUBLES[0] in line or DOUBLES[1] in line:
            for needed, pattern, replacement in self._rules:
                if needed in line:
                    line = pattern.sub(replacement, line)
        return line.strip()

    def tokenise(self, line: str) -> str:
        if ("'" in line or not line.isprintable()) and HARD.search(line):
            return " ".join(self._slow.tokenize(line, escape=False))
        chunks = line.split()
        found = list(map(self._inside.__getitem__, chunks))
        while PLACED in found:
            place = found.index(PLACED)
            found[place] = self._look_up(chunks, place)
        return " ".join(found)

    def detokenise(self, tokens: str) -> str:
        return str(self._joiner.detokenize(tokens.split(), unescape=False))

    def _look_up(self, chunks: list[str], place: int) -> str:
        after = _kind(chunks[place + 1]) if place + 1 < len(chunks) else LAST
        key = (chunks[place], place == 0, after)
        if key not in self._placed:
            _room_in(self._placed)[key] = self._at(*key)
        return self._placed[key]

    def _at(self, chunk: str, first: bool, after: str) -> str:
        word = chunk[:-1]
        if chunk[-1] == "." and PLAIN.fullmatch(word) and MARKER not in word:
            return chunk if self._keeps_dot(word, after) else f"{word} ."
        before = "" if first else "x "
        tokens = self._slow.tokenize(f"{before}{chunk} {after}", escape=False)
        return " ".join(tokens[not first : len(tokens) - (after != LAST)])

    def _keeps_dot(self, word: str, after: str) -> bool:
        return word in self._prefixes or after == LOWER or (word in self._numeric and after == DIGIT)


class _Anywhere(dict[str, str]):
    """Chunk → its tokens, where they are the same wherever it is; else PLACED."""

    def __missing__(self, chunk: str) -> str:
        _room_in(self)[chunk] = tokens = self._tokens(chunk)
        return tokens

    @staticmethod
    def _tokens(chunk: str) -> str:
        if MARKER in chunk:
            return PLACED
        if PLAIN.fullmatch(chunk):
            return chunk
        if chunk[-1] == "," and PLAIN.fullmatch(chunk[:-1]):
            return f"{chunk[:-1]} ,"
        return PLACED if TRICKY.search(chunk) else " ".join(APART.sub(r" \1 ", chunk).split())


def _kind(chunk: str) -> str:
    return LOWER if chunk[0] in LOWERS else DIGIT if chunk[0] in DIGITS else OTHER


def _room_in(memory: dict) -> dict:
    if len(memory) >= REMEMBERED:
        memory.clear()
    return memory


def _rule(pattern: str, replacement: str) -> tuple[str, re.Pattern[str], str]:
    """A rule of the normaliser, with a string without which it changes nothing."""
    return _needed(pattern), re.compile(pattern), replacement


def _needed(pattern: str) -> str:
    if pattern == " +":  # one blank is replaced by one blank
        return "  "
    bare = re.sub(r"\\d|\\s\*?|\[[^\]]*\]|(?<!\\)[()]|(?<=.)\+", "\0", pattern)
    literal = re.sub(r"\\(.)", r"\1", bare.replace(r"\r", "\r"))
    return max(literal.split("\0"), key=lambda run: (run != ".", len(run)))


@lru_cache(maxsize=8)
def moses(language: str) -> Moses:
    """One per language and process: what it remembers is worth keeping."""
    return Moses(language)
