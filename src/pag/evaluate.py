"""Scores of a trained model on one split of its task's data."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pag.errors import DataError
from pag.generator import Generator, Output, Result
from pag.text.alignment_stats import AlignmentStats, alignment_stats
from pag.validate import summary

SHARES = ("replan_rate", "copy_rate", "last_token", "last_token_in_word", "followed_moves", "replans_by_place")
LOOKS = ("entropy", "monotonicity", "jump", "last_token", "last_token_in_word", "followed_moves")


@dataclass
class Outputs:
    """What is kept of outputs as they come."""

    texts: list[str] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)  # numbers of the inputs that the model could take
    why: str = ""  # it could not take the last of the others
    switches: list[np.ndarray] = field(default_factory=list)
    copies: list[np.ndarray] = field(default_factory=list)

    def passing(self, results: Iterable[Result], tick: Callable[[int], None]) -> Iterator[Output]:
        for number, result in enumerate(results):
            self.texts.append(result.text)
            if result.outputs:
                self.answered.append(number)
            self.why = result.error or self.why
            self.switches += [output.switch for output in result.outputs if output.switch is not None]
            self.copies += [output.copy_share[:-1] for output in result.outputs if output.copy_share is not None]
            tick(len(self.texts))
            yield from result.outputs

    def rates(self) -> dict[str, float]:
        both = {"copy_rate": self.copies, "replan_rate": self.switches}
        return {name: float(np.concatenate(values).mean()) for name, values in both.items() if values}


def evaluate(
    generator: Generator,
    split: str = "test",
    beam: int | None = None,
    limit: int | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Task metrics, loss, and how it looked and re-planned; `tick(done, total)` is called as outputs come."""
    generator.task.check_split(split)
    inputs = generator.task.inputs(split)[:limit]
    references = generator.task.references(split)[:limit]
    options = generator.options(beam=beam, record=True)
    outputs, started = Outputs(), time.monotonic()
    results = generator.stream(inputs, options)
    stats = alignment_stats(outputs.passing(results, lambda done: tick(done, len(inputs))))
    seconds = time.monotonic() - started
    if not outputs.answered:
        raise DataError(f"the model can take no line of '{split}': {outputs.why or 'all are empty'}")
    scores = generator.score([inputs[n] for n in outputs.answered], [references[n] for n in outputs.answered])
    nll = {"marginal": -sum(score.log_prob for score in scores)}
    if scores[0].paper_log_prob is not None:
        nll["paper"] = -sum(score.paper_log_prob or 0.0 for score in scores)
    tokens = sum(len(score.log_probs) for score in scores)
    return {
        "split": split,
        "examples": len(inputs),
        "beam": options.beam,
        **({"unanswered": len(inputs) - len(scores)} if len(scores) < len(inputs) else {}),
        **generator.task.score(outputs.texts, inputs, references),
        **summary(nll, len(scores), tokens, generator.recipe.loss.likelihood),
        "nll_per_token": nll["marginal"] / tokens,
        **outputs.rates(),
        **_looks(stats),
        "sentences_per_second": len(inputs) / seconds,
        **_named(generator.task.signatures),
    }


def _looks(stats: AlignmentStats) -> dict[str, Any]:
    """How it looked at the source, without what the outputs do not show."""
    values = {name: getattr(stats, name) for name in LOOKS}
    found: dict[str, Any] = {
        name: value for name, value in values.items() if value is not None and math.isfinite(value)
    }
    if stats.replans_by_place:
        found["replans_by_place"] = [rate if math.isfinite(rate) else None for rate in stats.replans_by_place]
    return found


def _named(signatures: dict[str, str]) -> dict[str, str]:
    return {f"{metric}_signature": signature for metric, signature in signatures.items()}


def as_lines(found: Mapping[str, Any], shares: Iterable[str] = ()) -> list[str]:
    """Every score under its name, for people; `shares` are further ones that are parts of 1."""
    parts = {*SHARES, *shares}
    return [f"{name:22}{_shown(value, name in parts)}" for name, value in found.items()]


def _shown(value: Any, share: bool) -> str:
    if isinstance(value, list):
        return " ".join(_shown(one, share) for one in value)
    if value is None:
        return "-"
    return f"{value:.2%}" if share else f"{value:.4g}" if isinstance(value, float) else str(value)
