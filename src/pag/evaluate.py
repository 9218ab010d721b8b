"""Scores of a trained model on one split of its task's data."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pag.errors import DataError, nearest
from pag.generator import Generator
from pag.validate import summary


def evaluate(
    generator: Generator,
    split: str = "test",
    beam: int | None = None,
    limit: int | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Task metrics, loss and re-plan rate; `tick(done, total)` is called as outputs come."""
    if split not in generator.task.splits:
        raise DataError(f"unknown split '{split}'{nearest(split, generator.task.splits)}")
    inputs = generator.task.inputs(split)[:limit]
    references = generator.task.references(split)[:limit]
    options = generator.options(beam=beam, record=True)
    started = time.monotonic()
    texts, switches, copies = [], [], []
    for result in generator.stream(inputs, options):
        texts.append(result.text)
        switches += [output.switch for output in result.outputs if output.switch is not None]
        copies += [output.copy_share[:-1] for output in result.outputs if output.copy_share is not None]
        tick(len(texts), len(inputs))
    seconds = time.monotonic() - started
    scores = generator.score(inputs, references)
    nll = {"marginal": -sum(score.log_prob for score in scores)}
    if scores and scores[0].paper_log_prob is not None:
        nll["paper"] = -sum(score.paper_log_prob or 0.0 for score in scores)
    tokens = sum(len(score.log_probs) for score in scores)
    found = {
        "split": split,
        "examples": len(inputs),
        "beam": options.beam,
        **generator.task.score(texts, inputs, references),
        **summary(nll, len(inputs), tokens, generator.recipe.loss.likelihood),
    }
    if copies:
        found["copy_rate"] = float(np.concatenate(copies).mean())
    if switches:
        found["replan_rate"] = float(np.concatenate(switches).mean())
    return {**found, "sentences_per_second": len(inputs) / seconds, **_named(generator.task.signatures)}


def _named(signatures: dict[str, str]) -> dict[str, str]:
    return {f"{metric}_signature": signature for metric, signature in signatures.items()}
