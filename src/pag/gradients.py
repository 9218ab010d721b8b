"""The gradients of one update: this process's share of each batch, in parts where memory is short."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from pag.chance import commitment_noise, seed_of
from pag.config import Recipe
from pag.data.batch import Batch
from pag.data.loader import Loaded
from pag.errors import RunError
from pag.losses import losses
from pag.model import Seq2Seq


@dataclass(frozen=True)
class Tally:
    """Sums over one update."""

    nll: float
    commitment: float
    switched: float
    tokens: float
    sentences: float
    stop: float  # how many processes were asked to stop


@dataclass(frozen=True)
class Course:
    """What an update's loss depends on besides its data."""

    update: int
    held: bool
    commitment_weight: float
    replan_weight: float = 0.0


class Gradients:
    def __init__(
        self, fabric: Fabric, recipe: Recipe, model: Seq2Seq, lengths: np.ndarray, say: Callable[[str], None]
    ) -> None:
        self.fabric, self.recipe, self.model, self.lengths, self.say = fabric, recipe, model, lengths, say

    def of(self, loaded: list[Loaded], course: Course) -> Tensor:
        """Leave the gradients in the model; return the numbers of a Tally. Out of memory: again, in halves."""
        parts = 1
        while (sums := self._try(loaded, course, parts)) is None:
            largest = max(len(item.batch.source) for item in loaded if item.batch is not None)
            if parts >= largest:
                raise RunError(
                    f"out of memory at update {course.update + 1} with a single sentence: "
                    "shorten the longest examples or make the model smaller"
                )
            parts *= 2
            self.say(f"out of memory at update {course.update + 1}: its batch of {largest} is done in {parts} parts")
        return sums

    def _try(self, loaded: list[Loaded], course: Course, parts: int) -> Tensor | None:
        sums = torch.zeros(len(fields(Tally)), device=self.fabric.device)
        sentences = sum(len(item.numbers) for item in loaded)
        try:
            for number, item in enumerate(loaded):
                self._accumulate(sums, item, number, sentences, course, parts)
            return sums
        except torch.OutOfMemoryError:
            self.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        return None

    def _accumulate(self, sums: Tensor, item: Loaded, number: int, sentences: int, course: Course, parts: int) -> None:
        """Add one batch's gradients to the model's and its numbers to `sums`."""
        if item.batch is None:
            return
        noise = self._noise(item, course.update, number)
        where = (self.recipe.train.seed, course.update, number, self.fabric.global_rank)
        torch.manual_seed(seed_of(*where))  # for dropout
        batch = item.batch.to(self.fabric.device)
        for rows in torch.arange(len(batch.source)).tensor_split(min(parts, len(batch.source))):
            part = batch if parts == 1 else batch.select(rows)
            self._backward(sums, part, None if noise is None else noise[rows.to(noise.device)], sentences, course)

    def _noise(self, item: Loaded, update: int, number: int) -> Tensor | None:
        """This process's rows of the noise that one process alone would draw for the whole batch."""
        assert item.batch is not None and item.batch.target is not None
        if not self.model.decoder.attention.plans:
            return None
        longest = int(self.lengths[item.numbers, 1].max())
        where = (self.recipe.train.seed, update, number)
        noise = commitment_noise(len(item.numbers), longest, self.recipe.attention.k, self.fabric.device, *where)
        mine = noise[self.fabric.global_rank :: self.fabric.world_size]
        return mine[:, : item.batch.target.shape[1]]

    def _backward(self, sums: Tensor, batch: Batch, noise: Tensor | None, sentences: int, course: Course) -> None:
        with self.fabric.autocast():
            forward = self.model(batch, noise, course.held)
        loss = losses(forward, batch, self.recipe, course.commitment_weight, course.replan_weight, course.held)
        (loss.total / sentences).backward()
        mask, switch = batch.target_mask, forward.trace.glimpses.switch
        switched = torch.zeros_like(loss.nll) if switch is None else (switch.detach() * mask).sum()
        count = torch.full_like(loss.nll, len(batch.source))
        sums[:5] += torch.stack([loss.nll, loss.commitment, switched, mask.sum(), count]).to(sums.dtype)
