"""Watching a search while it goes on: what it would answer if it stopped now."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from pag.hypotheses import Slots, Step
from pag.search import NEVER


@dataclass(frozen=True)
class Prefix:
    """The best hypothesis of one sentence so far; greedy search only ever adds to it, a beam may change its mind."""

    ids: tuple[int, ...]
    alignment: np.ndarray | None = None  # α of each of its steps, padding included [t, S]
    switch: np.ndarray | None = None  # g [t]

    def since(self, shown: Sequence[int]) -> int:
        """How many of the tokens already shown still hold."""
        same = 0
        while same < min(len(shown), len(self.ids)) and shown[same] == self.ids[same]:
            same += 1
        return same


def prefix(steps: Sequence[Step], slots: Slots, i: int, length_penalty: float) -> Prefix:
    """The best hypothesis of row i of the slots, finished or still growing."""
    live, finished = slots.totals[i].tolist(), slots.finished[i].tolist()
    best = max(range(len(live)), key=live.__getitem__)
    width, now = len(live), len(steps)
    found = [(live[best] / now**length_penalty, now - 1, i * width + best)] if live[best] > NEVER else []
    for ending in range(int(slots.count[i])):
        last = int(slots.step[i, ending])
        found.append((finished[ending] / (last + 1) ** length_penalty, last, int(slots.row[i, ending])))
    _, last, row = max(found, key=itemgetter(0))
    return _trace(steps, last, row)


def _trace(steps: Sequence[Step], last: int, row: int) -> Prefix:
    ids, rows = [], []
    for step in reversed(steps[: last + 1]):
        ids.append(int(step.tokens[row]))
        rows.append(int(step.parents[row]))
        row = rows[-1] if step.origin is None else int(step.origin[rows[-1]])
    looked = [(step.glimpse, row) for step, row in zip(steps, reversed(rows), strict=False) if step.glimpse is not None]
    if not looked:
        return Prefix(tuple(reversed(ids)))
    alignment = np.stack([glimpse.alignment[row].float().cpu().numpy() for glimpse, row in looked])
    switches = [float(glimpse.switch[row]) for glimpse, row in looked if glimpse.switch is not None]
    return Prefix(tuple(reversed(ids)), alignment, np.array(switches) if switches else None)
