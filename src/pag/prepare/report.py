"""What is in a prepared folder: counts, what was dropped and why, coverage, overlap; as JSON, text and a picture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pag.checkpoint import to_json, write_durably
from pag.prepare.cleaning import REASONS, Dropped
from pag.prepare.encoding import Encoded, Flat
from pag.prepare.lengths import LENGTHS, LONGEST, counted, draw_lengths
from pag.prepare.settings import PrepareSettings
from pag.text.vocabulary import END, UNKNOWN

UNITS = ("subwords a line", "characters a line")


@dataclass
class SideFacts:
    """Lengths (without the end symbol) and how often each id occurs."""

    size: int
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(LONGEST + 1, np.int64))
    uses: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, flat: Flat) -> None:
        if not len(self.uses):
            self.uses = np.zeros(self.size, np.int64)
        self.uses += np.bincount(flat.ids, minlength=self.size)
        self.lengths += counted(flat.lengths - 1)

    def summary(self) -> dict[str, Any]:
        uses = self.uses if len(self.uses) else np.zeros(self.size, np.int64)
        tokens = int(uses.sum() - uses[END])
        return {
            "vocabulary": self.size,
            "tokens": tokens,
            "unknown": int(uses[UNKNOWN]),
            "coverage": round(1 - int(uses[UNKNOWN]) / max(1, tokens), 6),
            "symbols_used": int((uses[UNKNOWN + 1 :] > 0).sum()),
            "mean_length": round(tokens / max(1, int(self.lengths.sum())), 2),
            "longest": int(np.flatnonzero(self.lengths).max(initial=0)),
        }


class SplitFacts:
    """What is known of one split once it is encoded."""

    def __init__(
        self,
        read: int,
        dropped: Dropped,
        sizes: tuple[int, int],
        overlaps: dict[str, int],
        first_overlaps: dict[str, list[str]],
    ) -> None:
        self.read, self.dropped, self.kept = read, dropped, 0
        self.overlaps, self.first_overlaps = overlaps, first_overlaps
        self.source, self.target = (SideFacts(size) for size in sizes)

    def add(self, found: Encoded) -> None:
        self.kept += len(found.source.lengths)
        self.dropped.merge(found.dropped)
        self.source.add(found.source)
        self.target.add(found.target)

    def summary(self) -> dict[str, Any]:
        dropped = {
            reason: {"pairs": count, "first": self.dropped.first[reason]}
            for reason, count in self.dropped.counts.items()
        }
        facts: dict[str, Any] = {"read": self.read, "kept": self.kept, "dropped": dropped}
        if self.overlaps:
            facts["sources_also_in"] = {
                split: {"pairs": count, "first": self.first_overlaps[split]} for split, count in self.overlaps.items()
            }
        return {**facts, "source": self.source.summary(), "target": self.target.summary()}


def write_report(
    folder: Path, settings: PrepareSettings, facts: Mapping[str, SplitFacts], sizes: tuple[int, int]
) -> dict[str, Any]:
    report = {
        "settings": settings.model_dump(),
        "vocabularies": {"subwords": sizes[0], "characters": sizes[1]},
        "splits": {split: one.summary() for split, one in facts.items()},
    }
    write_durably(folder / "report.json", to_json(report))
    write_durably(folder / "report.txt", as_text(report).encode())
    draw_lengths(
        {split: (one.source.lengths, one.target.lengths) for split, one in facts.items()}, UNITS, folder / LENGTHS
    )
    return report


def as_text(report: Mapping[str, Any]) -> str:
    settings, sizes = report["settings"], report["vocabularies"]
    lines = [
        f"{settings['source_language']} → {settings['target_language']}: {sizes['subwords']:,} subwords, "
        f"{sizes['characters']:,} characters (three specials counted in both)"
    ]
    for split, facts in report["splits"].items():
        held = ", held out of the training pairs" if split in settings["hold_out"] else ""
        lines += ["", f"{split}: {facts['kept']:,} pairs kept of {facts['read']:,}{held}"]
        lines += [_dropped(reason, found) for reason, found in facts["dropped"].items() if found["pairs"]]
        for side, unit in (("source", "subwords"), ("target", "characters")):
            lines.append(f"  {side}: {_side(facts[side], unit)}")
        for other, found in facts.get("sources_also_in", {}).items():
            where = f" ({', '.join(found['first'])})" if found["first"] else ""
            lines.append(f"  {found['pairs']:,} training pairs have a source that is also in {other}{where}")
    return "\n".join(lines) + "\n"


def _dropped(reason: str, found: Mapping[str, Any]) -> str:
    return f"  dropped {found['pairs']:,}: {REASONS[reason]}; first: {', '.join(found['first'])}"


def _side(facts: Mapping[str, Any], unit: str) -> str:
    return (
        f"{facts['tokens']:,} {unit}, {facts['mean_length']} a line, longest {facts['longest']}; "
        f"{facts['coverage']:.4%} known, {facts['symbols_used']:,} of {facts['vocabulary'] - 3:,} used"
    )
