"""Numbers for what alignment pictures show (paper, section 4.3 and Figure 2).

The paper says that the baseline looks at the last, empty source token for the later characters of a
word, and that planning makes alignments smoother. These statistics measure both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pag.generator import Output
from pag.text.vocabulary import SPECIALS

BLANK = " "
LATEST = 8  # places in a word from this on are counted together


@dataclass(frozen=True)
class AlignmentStats:
    """Means over all steps of all outputs; the end symbol's own step is left out."""

    outputs: int
    steps: int
    entropy: float  # of α, in nats
    monotonicity: float  # share of steps whose most-attended position is not before the last step's
    jump: float  # mean distance between the centres of attention of successive steps, in source positions
    last_token: float  # share of attention on the empty token that ends the source
    last_token_in_word: float  # the same, over steps past the first character of a word
    replan_rate: float | None = None  # share of steps that re-plan
    followed_moves: float | None = None  # share of steps that follow the plan and look elsewhere than the step before
    replans_by_place: tuple[float, ...] = ()  # re-plan rate at a blank, at a word's 1st, 2nd … character

    def as_dict(self) -> dict[str, object]:
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in found.items() if value not in (None, ())}


@dataclass(frozen=True)
class _Steps:
    """One output's steps: what each contributes."""

    entropy: np.ndarray  # [T]
    forward: np.ndarray  # [T - 1]
    jump: np.ndarray  # [T - 1]
    moves: np.ndarray  # [T - 1]
    last: np.ndarray  # [T]
    place: np.ndarray  # [T], 0 at a blank, else the character's place in its word
    switch: np.ndarray | None  # [T]


def alignment_stats(outputs: Iterable[Output]) -> AlignmentStats:
    """Over outputs generated with alignments; those without a character say nothing."""
    found = [_steps(output) for output in outputs if len(output.tokens) > 1]
    if not found:
        nan = float("nan")
        return AlignmentStats(0, 0, nan, nan, nan, nan, nan)
    place = np.concatenate([one.place for one in found])
    last = np.concatenate([one.last for one in found])
    switches = [one.switch for one in found if one.switch is not None]
    switch = np.concatenate(switches) if switches else None
    words = (place == 0).any()  # outputs without a blank are not characters of words
    return AlignmentStats(
        outputs=len(found),
        steps=len(place),
        entropy=_mean([one.entropy for one in found]),
        monotonicity=_mean([one.forward for one in found]),
        jump=_mean([one.jump for one in found]),
        last_token=float(last.mean()),
        last_token_in_word=float(last[place > 1].mean()) if words and (place > 1).any() else float("nan"),
        replan_rate=None if switch is None else float(switch.mean()),
        followed_moves=_followed_moves(found),
        replans_by_place=() if switch is None or not words else _by_place(switch, place),
    )


def _steps(output: Output) -> _Steps:
    assert output.alignment is not None, "generate with alignments=True"
    steps = len(output.tokens) - (output.tokens[-1] == SPECIALS[1])
    weights = output.alignment[:steps].astype(np.float64)
    centre = weights @ np.arange(weights.shape[1])
    return _Steps(
        entropy=-(weights * np.log(np.maximum(weights, 1e-30))).sum(1),
        forward=np.diff(weights.argmax(1)) >= 0,
        jump=np.abs(np.diff(centre)),
        moves=np.diff(weights.argmax(1)) != 0,
        last=weights[:, -1],
        place=places(output.tokens[:steps]),
        switch=None if output.switch is None else (output.switch[:steps] > 0),
    )


def _followed_moves(found: Sequence[_Steps]) -> float | None:
    """A model that only repeats its last look has 0."""
    moves = [one.moves[~one.switch[1:]] for one in found if one.switch is not None]
    return float(np.concatenate(moves).mean()) if sum(map(len, moves)) else None


def places(characters: Sequence[str]) -> np.ndarray:
    """Each character's place in its word, from 1; blanks are at 0."""
    found, place = [], 0
    for character in characters:
        place = 0 if character == BLANK else place + 1
        found.append(place)
    return np.array(found, np.int64)


def _by_place(switch: np.ndarray, place: np.ndarray) -> tuple[float, ...]:
    place = np.minimum(place, LATEST)
    counts = np.bincount(place, minlength=LATEST + 1)
    replans = np.bincount(place, weights=switch, minlength=LATEST + 1)
    return tuple(float(r / c) if c else float("nan") for r, c in zip(replans, counts, strict=True))


def _mean(arrays: Sequence[np.ndarray]) -> float:
    whole = np.concatenate(arrays)
    return float(whole.mean()) if len(whole) else float("nan")
