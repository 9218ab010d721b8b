"""A block of raw pairs cleaned: normalised, tokenised, judged. What a worker process does first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pag.prepare.reading import Block
from pag.prepare.settings import PrepareSettings
from pag.text.moses import moses

SHOWN = 5  # line numbers kept of each reason
REASONS = {
    "bad_encoding": "not UTF-8, or a zero byte",
    "empty": "a side is empty",
    "ratio": "one side has too many words for the other",
    "too_long": "longer than max_source subwords or max_target characters",
}


@dataclass
class Dropped:
    """How many lines were dropped for each reason, and where the first few are."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    first: dict[str, list[str]] = field(default_factory=lambda: {reason: [] for reason in REASONS})

    def add(self, reason: str, name: str, line: int) -> None:
        self.counts[reason] += 1
        if len(self.first[reason]) < SHOWN:
            self.first[reason].append(f"{name}:{line}")

    def merge(self, other: "Dropped") -> None:
        for reason, count in other.counts.items():
            self.counts[reason] += count
            self.first[reason] = [*self.first[reason], *other.first[reason]][:SHOWN]


@dataclass(frozen=True)
class Cleaned:
    """Tokenised lines that were kept, with their numbers, and what was seen on the way."""

    name: str
    read: int  # pairs
    lines: np.ndarray  # numbers of the kept lines in their file [N]
    source: bytes  # tokenised lines; as one piece they travel faster between processes
    target: bytes
    source_characters: np.ndarray  # counts by code point
    target_characters: np.ndarray
    dropped: Dropped
    overlap: dict[str, list[int]]  # split → line numbers whose source is also there


def clean(block: Block, settings: PrepareSettings, held_out: Mapping[str, frozenset[str]]) -> Cleaned:
    """Judge and tokenise each pair; `held_out` are the tokenised sources of the other splits."""
    dropped, lines, source, target = Dropped(), [], [], []
    for line, (ours, theirs) in zip(block.lines, tokenised(block, settings), strict=True):
        reason = judge(ours, theirs, settings)
        if reason:
            dropped.add(reason, block.name, line)
        else:
            lines.append(line)
            source.append(ours or "")
            target.append(theirs or "")
    overlap = {
        split: [line for line, text in zip(lines, source, strict=True) if text in known]
        for split, known in held_out.items()
    }
    numbers = np.array(lines, np.int32)
    counts = character_counts(source), character_counts(target)
    return Cleaned(block.name, len(block.source), numbers, packed(source), packed(target), *counts, dropped, overlap)


def packed(lines: Sequence[str]) -> bytes:
    return "\n".join(lines).encode()


def unpacked(text: bytes) -> list[str]:
    """Of at least one line."""
    return text.decode().split("\n")


def tokenised(block: Block, settings: PrepareSettings) -> list[tuple[str | None, str | None]]:
    """Each pair's tokens; None for a side that is not text."""
    sides = []
    for lines, language in zip((block.source, block.target), settings.languages, strict=True):
        tool = moses(language)
        sides.append([None if text is None else tool.clean(text) for text in _decoded(lines)])
    return list(zip(*sides, strict=True))


def _decoded(lines: Sequence[bytes]) -> list[str | None]:
    whole = b"\n".join(lines)
    if b"\0" not in whole:
        try:
            return list(whole.decode().split("\n")) if lines else []
        except UnicodeDecodeError:
            pass
    return [_text(line) for line in lines]


def _text(line: bytes) -> str | None:
    try:
        return None if b"\0" in line else line.decode()
    except UnicodeDecodeError:
        return None


def judge(source: str | None, target: str | None, settings: PrepareSettings) -> str:
    """Why a pair is dropped, or nothing. Subwords are not known yet, but words are never more than they."""
    if source is None or target is None:
        return "bad_encoding"
    if not source or not target:
        return "empty"
    ours, theirs = source.count(" ") + 1, target.count(" ") + 1
    if max(ours, theirs) > settings.max_ratio * min(ours, theirs):
        return "ratio"
    return "too_long" if ours > settings.max_source or len(target) > settings.max_target else ""


def character_counts(lines: Sequence[str]) -> np.ndarray:
    """How often each code point occurs; line ends are not counted."""
    codes = np.frombuffer("\n".join(lines).encode("utf-32-le"), np.uint32)
    counts = np.bincount(codes)
    counts[ord("\n") : ord("\n") + 1] = 0
    return counts
