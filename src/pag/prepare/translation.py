"""Raw parallel text → a prepared folder: two passes over the text, in parallel, streaming, all or nothing.

The first pass normalises, tokenises and judges every pair. BPE is learned and characters are chosen
from what was kept. The second pass turns tokens into ids. The folder appears when it is whole.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pag.checkpoint import to_json, write_durably
from pag.data.prepared import SIDES, fingerprint, text_file
from pag.errors import DataError
from pag.prepare.cleaning import Cleaned, Dropped, clean, packed, tokenised, unpacked
from pag.prepare.encoding import Encoded, Vocabularies, encode, id_type
from pag.prepare.folder import RaggedWriter, whole, write_manifest
from pag.prepare.holding import hold_out
from pag.prepare.reading import Block, Corpus
from pag.prepare.report import SplitFacts, write_report
from pag.prepare.settings import PrepareSettings
from pag.prepare.spool import Spool
from pag.prepare.workers import Workers
from pag.text.subwords import Subwords
from pag.text.vocabulary import Vocabulary

Tell = Callable[[str, int, float], None]  # what is done, pairs so far, share of it (0 where unknown)
TRAIN = "train"
NOTHING = np.zeros(0, np.int64)


@dataclass
class Seen:
    """What the first pass saw of a split."""

    spool: Spool
    read: int = 0
    dropped: Dropped = field(default_factory=Dropped)
    source_characters: np.ndarray = field(default_factory=lambda: NOTHING)
    target_characters: np.ndarray = field(default_factory=lambda: NOTHING)
    overlap: dict[str, list[str]] = field(default_factory=dict)
    overlaps: dict[str, int] = field(default_factory=dict)

    def add(self, cleaned: Cleaned) -> None:
        self.spool.append(cleaned)
        self.read += cleaned.read
        self.dropped.merge(cleaned.dropped)
        self.source_characters = _sum(self.source_characters, cleaned.source_characters)
        self.target_characters = _sum(self.target_characters, cleaned.target_characters)
        for split, lines in cleaned.overlap.items():
            self.overlaps[split] = self.overlaps.get(split, 0) + len(lines)
            known = self.overlap.setdefault(split, [])
            known += [f"{cleaned.name}:{line}" for line in lines[: 5 - len(known)]]


def prepare(
    settings: PrepareSettings,
    corpora: Mapping[str, Corpus],
    out: Path,
    workers: int = 1,
    tell: Tell = lambda stage, pairs, share: None,
    replace: bool = False,
) -> dict[str, Any]:
    """Prepare the splits "train", "valid" and any others into a folder; returns the data report."""
    _check_splits(corpora, settings.hold_out)
    with whole(out, replace) as folder, Workers(workers) as team:
        sets = hold_out(corpora, settings, lambda pairs, share: tell("holding out", pairs, share))
        return Preparation(settings, sets, folder, team, tell).run()


def _check_splits(given: Iterable[str], held_out: Iterable[str]) -> None:
    for split, names, also in ((TRAIN, [*given], ""), ("valid", [*given, *held_out], ", or --hold-out valid=2000")):
        if split not in names:
            raise DataError(
                f"the set '{split}' is missing: give --{split}-source and --{split}-target, or --{split}-pairs{also}; "
                "a prepared folder needs at least train and valid"
            )


class Preparation:
    """One folder in the making."""

    def __init__(
        self, settings: PrepareSettings, corpora: Mapping[str, Corpus], folder: Path, team: Workers, tell: Tell
    ) -> None:
        self.settings, self.corpora, self.folder, self.team, self.tell = settings, corpora, folder, team, tell
        self.held_out = [split for split in corpora if split != TRAIN]

    def run(self) -> dict[str, Any]:
        seen = {split: self.read_held_out(split) for split in self.held_out}
        known = {
            split: frozenset(line for block in seen[split].spool.read() for line in unpacked(block.source))
            for split in seen
        }
        seen[TRAIN] = self.read_train(known)
        if not len(seen[TRAIN].spool):
            raise DataError(f"no training pair is left of {seen[TRAIN].read:,}: {_why(seen[TRAIN].dropped)}")
        vocabularies = self.learn(seen[TRAIN])
        facts = {split: self.encode(split, seen[split], vocabularies) for split in (TRAIN, *self.held_out)}
        for one in seen.values():
            one.spool.remove()
        report = write_report(self.folder, self.settings, facts, _sizes(vocabularies))
        self.write_manifest(facts, vocabularies)
        return report

    # first pass

    def read_train(self, known: Mapping[str, frozenset[str]]) -> Seen:
        corpus, seen = self.corpora[TRAIN], Seen(Spool(self.folder, TRAIN))
        work = ((block, self.settings, known) for block in corpus.blocks())
        for cleaned in self.team.map(clean, work):
            seen.add(cleaned)
            self.tell("tokenising", seen.read, corpus.read / corpus.size if corpus.size else 0.0)
        return seen

    def read_held_out(self, split: str) -> Seen:
        """Every line is kept, so that scores can be compared; one that is not text is refused."""
        seen = Seen(Spool(self.folder, split))
        texts = [(self.folder / text_file(split, side)).open("wb") for side in SIDES]
        with ExitStack() as stack:
            for file in texts:
                stack.enter_context(file)
            for block in self.corpora[split].blocks():
                seen.add(_all_of(block, self.settings))
                for file, lines in zip(texts, (block.source, block.target), strict=True):
                    file.writelines(line + b"\n" for line in lines)
        return seen

    # vocabularies

    def learn(self, seen: Seen) -> Vocabularies:
        self.tell("learning subwords", 0, 0.0)
        counts = {chr(code): int(seen.source_characters[code]) for code in np.flatnonzero(seen.source_characters)}
        counts.pop(" ", None)
        subwords = Subwords.learn(seen.spool.sources(self.settings.subword_lines), counts, self.settings.subwords)
        characters = _most_frequent(seen.target_characters, self.settings.characters)
        return Vocabularies(json.dumps(subwords.to_json(), ensure_ascii=False), json.dumps(characters.symbols))

    # second pass

    def encode(self, split: str, seen: Seen, vocabularies: Vocabularies) -> SplitFacts:
        limits = self.settings if split == TRAIN else None
        work = ((b.name, b.lines, b.source, b.target, limits, vocabularies) for b in seen.spool.read())
        sizes = _sizes(vocabularies)
        facts = SplitFacts(seen.read, seen.dropped, sizes, dict(seen.overlaps), dict(seen.overlap))
        with ExitStack() as stack:
            writers = [
                stack.enter_context(RaggedWriter(self.folder, f"{split}.{side}", id_type(size)))
                for side, size in zip(SIDES, sizes, strict=True)
            ]
            for found in self.team.map(encode, work):
                _write(found, writers, facts)
                self.tell(f"encoding {split}", facts.kept, facts.kept / max(1, len(seen.spool)))
        return facts

    def write_manifest(self, facts: Mapping[str, SplitFacts], vocabularies: Vocabularies) -> None:
        kept = {"subwords.json": vocabularies.subwords, "characters.json": vocabularies.characters}
        for name, text in kept.items():
            write_durably(self.folder / name, to_json(json.loads(text)))
        words = fingerprint(*(json.loads(text) for text in kept.values()))
        pairs = {split: one.kept for split, one in facts.items()}
        write_manifest(self.folder, "translation", self.settings, words, pairs)


def _write(found: Encoded, writers: list[RaggedWriter], facts: SplitFacts) -> None:
    for writer, flat in zip(writers, (found.source, found.target), strict=True):
        writer.append(flat.ids, flat.lengths)
    facts.add(found)


def _all_of(block: Block, settings: PrepareSettings) -> Cleaned:
    pairs = tokenised(block, settings)
    for line, (ours, theirs) in zip(block.lines, pairs, strict=True):
        if ours is None or theirs is None:
            side = "source" if ours is None else "target"
            raise DataError(
                f"{block.name}, line {line}: the {side} is not UTF-8; a held-out set must be whole: mend it"
            )
    source, target = (packed([pair[side] or "" for pair in pairs]) for side in (0, 1))
    numbers = np.array(block.lines, np.int32)
    return Cleaned(block.name, len(pairs), numbers, source, target, NOTHING, NOTHING, Dropped(), {})


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    shorter, longer = sorted((a, b), key=len)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


def _most_frequent(counts: np.ndarray, largest: int) -> Vocabulary:
    codes = sorted(np.flatnonzero(counts).tolist(), key=lambda code: (-counts[code], code))
    return Vocabulary.of(chr(code) for code in codes[:largest])


def _sizes(vocabularies: Vocabularies) -> tuple[int, int]:
    subwords = json.loads(vocabularies.subwords)
    return len(subwords["model"]["vocab"]), len(json.loads(vocabularies.characters))


def _why(dropped: Dropped) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.counts.items() if count) or "nothing was read"
