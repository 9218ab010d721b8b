"""How good is the model now? Loss, task metrics, and the health of its plan."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from lightning_fabric import Fabric

from pag.config import Recipe
from pag.data.batch import Batch
from pag.data.dataset import Dataset
from pag.health import plan_health, replan_gaps
from pag.losses import likelihoods
from pag.model import Seq2Seq
from pag.search import Options, search, sentences_at_once
from pag.tasks.base import Task


@dataclass(frozen=True)
class Validation:
    values: dict[str, float]
    gaps: list[int]  # steps between re-plans, counted
    samples: list[tuple[str, str, str]]  # input, output, reference


def batches(task: Task, data: Dataset, size: int, most: int | None = None) -> Iterator[tuple[np.ndarray, Batch]]:
    """Example numbers and batches of similar lengths, longest first; the first `most` examples."""
    count = len(data) if most is None else min(most, len(data))
    order = np.lexsort((data.lengths[:count, 1], data.lengths[:count, 0]))[::-1]
    for at in range(0, count, size):
        numbers = order[at : at + size]
        yield numbers, task.collate([data[int(i)] for i in numbers])


@torch.no_grad()
def validate(model: Seq2Seq, task: Task, recipe: Recipe, fabric: Fabric, held: bool) -> Validation:
    model.eval()
    try:
        data = task.examples("valid")
        values, gaps = teacher_forced(model, task, data, recipe, fabric, held)
        scores, samples = generated(model, task, data, recipe, fabric, held)
        return Validation({**values, **scores}, gaps, samples)
    finally:
        model.train()


@torch.no_grad()
def untrained(model: Seq2Seq, task: Task, recipe: Recipe, fabric: Fabric) -> dict[str, float]:
    """Loss and perplexity before the first update."""
    model.eval()
    values, _ = teacher_forced(model, task, task.examples("valid"), recipe, fabric, held=True)
    model.train()
    return {name: values[name] for name in ("loss", "perplexity")}


def teacher_forced(
    model: Seq2Seq, task: Task, data: Dataset, recipe: Recipe, fabric: Fabric, held: bool
) -> tuple[dict[str, float], list[int]]:
    """Loss per sentence and perplexity per token over all the data; plan health on the first batch."""
    sums: defaultdict[str, float] = defaultdict(float)
    tokens = 0.0
    health: dict[str, float] = {}
    gaps: list[int] = []
    size = recipe.generate.batch_size or (256 if fabric.device.type == "cuda" else 32)
    for _, cpu in batches(task, data, size):
        batch, first = cpu.to(fabric.device), not tokens
        with fabric.autocast():
            forward = model(batch, None, held, record=first)
        for way, log_probs in likelihoods(forward.reading, batch).items():
            sums[way] -= float((log_probs * batch.target_mask).sum())
        tokens += float(batch.target_mask.sum())
        if first:
            glimpses = forward.trace.glimpses
            health = plan_health(glimpses, batch.source_mask, batch.target_mask)
            gaps = [] if glimpses.switch is None else replan_gaps(glimpses.switch, batch.target_mask)
    return {**summary(sums, len(data), tokens, recipe.loss.likelihood), **health}, gaps


def summary(nll: Mapping[str, float], sentences: int, tokens: float, likelihood: str) -> dict[str, float]:
    """Loss per sentence, as it is trained, and perplexity per token of the whole probability; where the two differ,
    the loss by both likelihoods too."""
    values = {
        "loss": nll.get(likelihood, nll["marginal"]) / sentences,
        "perplexity": math.exp(min(700.0, nll["marginal"] / tokens)),
    }
    return values if len(nll) == 1 else values | {f"nll_{way}": value / sentences for way, value in nll.items()}


def generated(
    model: Seq2Seq, task: Task, data: Dataset, recipe: Recipe, fabric: Fabric, held: bool
) -> tuple[dict[str, float], list[tuple[str, str, str]]]:
    """Greedy outputs, scored; and a few to show."""
    longest = int(data.lengths[:, 1].max())
    most = min(recipe.generate.max_length, 2 * longest + 10)
    options = Options(max_length=most, unknown=recipe.generate.unknown, held=held)
    size = sentences_at_once(recipe.generate.batch_size, fabric.device, 1)
    outputs: dict[int, str] = {}
    for numbers, cpu in batches(task, data, size, recipe.train.validate_examples):
        with fabric.autocast():
            found = search(model, cpu.to(fabric.device), options)
        outputs |= {int(n): task.decode(best.ids, data[int(n)]) for n, [best] in zip(numbers, found, strict=True)}
    texts = [outputs[i] for i in range(len(outputs))]
    inputs, references = task.inputs("valid")[: len(texts)], task.references("valid")[: len(texts)]
    shown = recipe.train.samples
    samples = list(zip(inputs[:shown], texts[:shown], references[:shown], strict=True))
    return task.score(texts, inputs, references), samples
