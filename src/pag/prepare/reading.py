"""Parallel text read in blocks: plain, .gz or .xz, several files a side, or pairs with a tab between."""

import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import numpy as np

from pag.errors import DataError
from pag.prepare.misaligned import first_suspicious

MARK = "\ufeff".encode()  # of byte order
BLOCK = 4000  # lines of each side that travel together
MAGIC: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open}
DAMAGED = (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)


@dataclass(frozen=True)
class Block:
    """Lines of both sides without their ends."""

    name: str  # of the source file
    lines: Sequence[int]  # their numbers in it, from 1
    source: Sequence[bytes]
    target: Sequence[bytes]

    def only(self, places: Sequence[int]) -> "Block":
        """The lines at these places."""
        return Block(
            self.name,
            [self.lines[place] for place in places],
            [self.source[place] for place in places],
            [self.target[place] for place in places],
        )


class LineFile:
    """The lines of one file or of standard input, unpacked, and how much of the file was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = "standard input" if str(path) == "-" else path.name
        try:
            self.raw: BinaryIO = sys.stdin.buffer if str(path) == "-" else path.open("rb")
        except OSError as error:
            raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
        start = cast(BufferedReader, self.raw).peek(2)[:2]
        unpack = MAGIC.get(start)
        self.lines = BufferedReader(cast(BufferedReader, unpack(self.raw)), 1 << 20) if unpack else self.raw
        self._pass_over_mark()

    def _pass_over_mark(self) -> None:
        """A byte-order mark is no part of the first line."""
        with suppress(*DAMAGED, OSError):  # told when lines are read
            if cast(BufferedReader, self.lines).peek(len(MARK))[: len(MARK)] == MARK:
                self.lines.read(len(MARK))

    def take(self, most: int | None = None) -> list[bytes]:
        """The next lines without their ends, a block of them; none at the end."""
        try:
            return [line.rstrip(b"\r\n") for line in islice(self.lines, most or BLOCK)]
        except DAMAGED as error:
            raise DataError(f"{self.path} is damaged or cut short: {error}") from None
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {(error.strerror or str(error)).lower()}") from None

    def position(self) -> int:
        return self.raw.tell() if self.raw.seekable() else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.raw is not sys.stdin.buffer:
            self.raw.close()


class Corpus:
    """Files of one split, both sides; file k of the source goes with file k of the target."""

    def __init__(self, source: Sequence[Path], target: Sequence[Path]) -> None:
        if len(source) != len(target) or not source:
            raise DataError(
                f"{len(source)} source files but {len(target)} target files: give as many of each, in order"
            )
        self.files = list(zip(source, target, strict=True))
        self.read = 0  # bytes of the files so far
        self.size = sum(_size(path) for pair in self.files for path in pair)

    def blocks(self) -> Iterator[Block]:
        self.read = 0
        for source, target in self.files:
            before = self.read
            with ExitStack() as stack:
                pair = [stack.enter_context(LineFile(path)) for path in (source, target)]
                for block in _aligned(*pair):
                    self.read = before + sum(file.position() for file in pair)
                    yield block
            self.read = before + _size(source) + _size(target)


class Pairs(Corpus):
    """Files (or standard input, `-`) with a source, a tab and a target on each line."""

    def __init__(self, files: Sequence[Path]) -> None:
        if not files:
            raise DataError("no file of pairs: give at least one")
        self.files = [(path, path) for path in files]
        self.read = 0
        self.size = sum(_size(path) for path in files)

    def blocks(self) -> Iterator[Block]:
        self.read = 0
        for path, _ in self.files:
            before, first = self.read, 1
            with LineFile(path) as file:
                while lines := file.take():
                    self.read = before + file.position()
                    yield _untabbed(file, first, lines)
                    first += len(lines)
            if first == 1:
                raise DataError(f"{path} is empty: expected a source, a tab and a target on each line")
            self.read = before + _size(path)


def _untabbed(file: LineFile, first: int, lines: list[bytes]) -> Block:
    halves = [line.split(b"\t") for line in lines]
    for place, fields in enumerate(halves):
        if len(fields) != 2:
            raise DataError(
                f"{file.name}, line {first + place}: {len(fields) - 1} tabs; a line of pairs is a source, one tab and "
                "a target"
            )
    if first == 1:
        _refuse_unreadable(file, lines)
    numbers = range(first, first + len(lines))
    return Block(file.name, numbers, [fields[0] for fields in halves], [fields[1] for fields in halves])


def _size(path: Path) -> int:
    return 0 if str(path) == "-" or not path.is_file() else path.stat().st_size


def _aligned(source: LineFile, target: LineFile) -> Iterator[Block]:
    """Blocks of both files; files of unequal length are refused."""
    first = 1
    lengths: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    while True:
        ours, theirs = source.take(), target.take()
        block = Block(source.name, range(first, first + len(ours)), ours, theirs)
        for side, lines in zip(lengths, (block.source, block.target), strict=True):
            side.append(np.fromiter(map(len, lines), np.int32, len(lines)))
        if first == 1:
            _refuse_unusable(source, block.source)
            _refuse_unusable(target, block.target)
        if len(block.source) != len(block.target):
            raise _misaligned(source, target, lengths)
        if not block.source:
            return
        yield block
        first += len(block.source)


def _misaligned(source: LineFile, target: LineFile, lengths: tuple[list[np.ndarray], list[np.ndarray]]) -> DataError:
    for file, side in zip((source, target), lengths, strict=True):
        while lines := file.take():
            side.append(np.fromiter(map(len, lines), np.int32, len(lines)))
    ours, theirs = (np.concatenate(side) for side in lengths)
    return DataError(
        f"{source.path} has {len(ours):,} lines but {target.path} has {len(theirs):,}: they are not translations line "
        f"by line; judged by lengths, they part at about line {first_suspicious(ours, theirs):,}"
    )


def _refuse_unusable(file: LineFile, lines: Sequence[bytes]) -> None:
    if not lines:
        raise DataError(f"{file.path} is empty: expected one sentence a line")
    _refuse_unreadable(file, lines)


def _refuse_unreadable(file: LineFile, lines: Sequence[bytes]) -> None:
    if b"\0" in b"\n".join(lines):
        line = next(number for number, line in enumerate(lines) if b"\0" in line)
        raise DataError(
            f"{file.path} is not text: line {line + 1} holds a zero byte; expected UTF-8, plain or as .gz or .xz "
            "(a UTF-16 file must be converted first)"
        )
    if 2 * sum(not _is_utf8(line) for line in lines) > len(lines):
        raise DataError(f"{file.path}: most lines are not UTF-8; convert the file first (iconv -t UTF-8)")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_whole(path: Path) -> bytes:
    """All of a file, unpacked."""
    with LineFile(path) as file:
        try:
            return file.lines.read()
        except DAMAGED as error:
            raise DataError(f"{path} is damaged or cut short: {error}") from None
        except OSError as error:
            raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
