"""Our contestants: the decoder's teacher-forced pass, the whole update, and search."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from pag.attention.base import Glimpse, Memory
from pag.attention.commitment import FREED, Commitment, gumbel
from pag.attention.pag import Plan
from pag.attention.rpag import Repeat
from pag.bench.settings import PRECISIONS, Sizes
from pag.config import Recipe, build_recipe
from pag.data.batch import Batch, Example, collate
from pag.data.dataset import Dataset, ListDataset
from pag.data.loader import Loaded, Loader
from pag.data.sampler import Position, Sampler
from pag.decoder import DecoderState
from pag.gradients import Course, Gradients
from pag.hypotheses import Hypothesis
from pag.losses import losses
from pag.model import Forward, Seq2Seq
from pag.ops.step import fused
from pag.ops.unroll import BACKENDS, choose
from pag.optim import build_optimizer
from pag.run import PRECISIONS as FABRIC
from pag.search import Options, search
from pag.text.vocabulary import END, SPECIALS

UNLIKELY = -30.0  # the end symbol's bias, so that outputs get as long as they may
SURE = 1e4


def recipe_of(variant: str, sizes: Sizes, precision: str = "float32") -> Recipe:
    units = {"embedding": sizes.units, "encoder": sizes.units, "decoder": sizes.units}
    return build_recipe(
        {
            "task": {"name": "euler"},  # recipes need one; nothing here uses it
            "model": {**units, "layer_norm": sizes.layer_norm},
            "attention": {"name": variant, "k": sizes.k, "size": sizes.attention},
            "train": {"batch_size": sizes.batch, "precision": precision},
        },
        "bench",
    )


def model_of(variant: str, sizes: Sizes, device: str) -> Seq2Seq:
    return Seq2Seq(recipe_of(variant, sizes), sizes.vocabulary, sizes.vocabulary).to(device)


def backends_of(model: Seq2Seq, device: str) -> dict[str, tuple[Callable[..., object], str]]:
    """Every way to compute the pass here, the one that "auto" takes last: name → pass and what is said of it."""
    found: dict[str, tuple[Callable[..., object], str]] = {}
    for backend in [*(b for b in BACKENDS if b != "auto"), "auto"]:
        unroll, said = choose(backend, device, model.decoder)
        found.setdefault(said.partition(":")[0], (unroll, said))
    return found


def autocast(device: str, precision: str) -> AbstractContextManager[object]:
    kind = torch.device(device).type
    return torch.autocast(kind, PRECISIONS[precision], enabled=precision != "float32")


def examples(number: int, sizes: Sizes) -> list[Example]:
    """Random sentences, all of the same length, each with its end symbol."""
    chance = np.random.default_rng(0)

    def some(length: int) -> list[int]:
        return [*chance.integers(len(SPECIALS), sizes.vocabulary, length - 1).tolist(), END]

    return [Example(some(sizes.source), some(sizes.target)) for _ in range(number)]


def shaped_as(lengths: np.ndarray, sizes: Sizes) -> ListDataset:
    """Random sentences with the lengths of real ones."""
    return ListDataset([examples(1, replace(sizes, source=int(s), target=int(t)))[0] for s, t in lengths])


class DecoderPass:
    """Forward and backward of decoder, output layer and loss; encoder and embeddings are given."""

    def __init__(self, variant: str, sizes: Sizes, device: str, precision: str) -> None:
        chance = torch.Generator().manual_seed(0)
        self.device, self.precision, self.recipe = device, precision, recipe_of(variant, sizes)
        self.model = model_of(variant, sizes, device)
        self.batch = collate(examples(sizes.batch, sizes)).to(device)
        self.mask = self.batch.source_mask
        shape = (sizes.batch, sizes.source, 2 * sizes.units)
        self.annotations = torch.randn(shape, generator=chance).to(device).requires_grad_()
        tokens = torch.randn(sizes.batch, sizes.target, sizes.units, generator=chance)
        self.tokens = tokens.to(device).requires_grad_()
        noise = gumbel(torch.rand(sizes.batch, sizes.target, sizes.k, generator=chance)).to(device)
        self.noise = noise if self.model.decoder.attention.plans else None

    def run(self, unroll: Callable[..., object]) -> None:
        model = self.model
        with autocast(self.device, self.precision):
            memory = model.decoder.attention.prepare(self.annotations, self.mask)
            trace = unroll(model.decoder, self.tokens, memory, self.noise)
            reading = model.readout(trace.lower, trace.upper, self.tokens, trace.glimpses, memory)  # type: ignore[attr-defined]
        loss = losses(Forward(reading, trace), self.batch, self.recipe, self.recipe.loss.commitment)  # type: ignore[arg-type]
        (loss.total / len(self.batch.source)).backward()

    def reset(self) -> None:
        self.model.zero_grad(set_to_none=True)
        self.tokens.grad = self.annotations.grad = None


class Updates:
    """The whole model: forward + backward of one batch, and training updates as `pag train` makes them."""

    def __init__(
        self, variant: str, sizes: Sizes, device: str, precision: str, data: Dataset | None = None,
        by: Literal["sentences", "tokens"] = "sentences",
    ) -> None:  # fmt: skip
        self.recipe, self.model = recipe_of(variant, sizes, precision), model_of(variant, sizes, device)
        self.model.unroll, self.said = choose("auto", device, self.model.decoder)
        self.optimizer = build_optimizer(self.model, self.recipe.train)
        data = ListDataset(examples(64 * sizes.batch, sizes)) if data is None else data
        size = sizes.batch if by == "sentences" else sizes.batch * sizes.target
        sampler = Sampler(data.lengths, size, by, 0, Position())
        self.loader = Loader(sampler, lambda numbers: collate([data[int(i)] for i in numbers]))
        where = torch.device(device)
        devices = [where.index or 0] if where.type == "cuda" else 1
        fabric = Fabric(accelerator=where.type, devices=devices, precision=FABRIC[precision])  # type: ignore[arg-type]
        self.gradients = Gradients(fabric, self.recipe, self.model, data.lengths, print)
        self.course = Course(0, False, self.recipe.loss.commitment)
        self.fixed = next(self.loader)

    def reset(self) -> None:
        self.model.zero_grad(set_to_none=True)

    def forward_backward(self) -> None:
        """Of one batch that is always the same."""
        self.gradients.of([self.fixed], self.course)

    def forward_backward_of(self, some: list[Loaded]) -> None:
        for loaded in some:
            self.reset()
            self.gradients.of([loaded], self.course)

    def update(self) -> None:
        """The next batch, its gradients, their norm clipped, and the optimiser's step."""
        self.gradients.of([next(self.loader)], self.course).tolist()
        float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.train.clip))
        self.optimizer.step()


class Searching:
    """Outputs of a fixed length for a batch of sentences, by random weights."""

    def __init__(self, variant: str, sizes: Sizes, device: str, precision: str, sentences: int, length: int) -> None:
        self.device, self.precision, self.length = device, precision, length
        self.model = model_of(variant, sizes, device).eval()
        self.said = fused.choose(self.model)[1]
        with torch.no_grad():
            self.model.readout.output.bias[END] = UNLIKELY
        self.batch = replace(collate(examples(sentences, sizes)), target=None, target_lengths=None).to(device)

    def run(self, beam: int) -> list[list[Hypothesis]]:
        with autocast(self.device, self.precision):
            return search(self.model, self.batch, Options(beam=beam, max_length=self.length))


class Replanning(Searching):
    """The same, with a model that re-plans every `every` steps, each sentence starting elsewhere in its cycle.

    The commitment always chooses slot `every` − 1 and so comes back to slot 0, which re-plans, after
    as many steps.
    """

    def __init__(
        self, variant: str, sizes: Sizes, device: str, precision: str, sentences: int, length: int, every: int
    ) -> None:
        super().__init__(variant, sizes, device, precision, sentences, length)
        self.every = every
        plan = self.model.decoder.attention.commitment
        with torch.no_grad():
            for weight in plan.parameters():  # type: ignore[union-attr]
                weight.zero_()
            last = plan.state_norm if sizes.layer_norm else plan.state  # type: ignore[union-attr]
            last.bias[every - 1] = SURE  # type: ignore[union-attr, operator]

    @property
    def replayable(self) -> bool:
        return self.model.replayable

    def begin(self, batch: Batch) -> tuple[Memory, DecoderState]:
        memory, state = self.model.begin(batch)
        attention = state.attention
        assert isinstance(attention, Plan | Repeat)
        attention = replace(attention, commitment=self.staggered(attention.commitment))
        return memory, replace(state, attention=attention)

    def staggered(self, commitment: Commitment) -> Commitment:
        """Logits whose next shift finds each row at another place of its cycle."""
        rows, k = commitment.logits.shape
        logits = torch.full_like(commitment.logits, FREED)
        place = torch.arange(rows, device=logits.device) % self.every + 1
        logits[place < k, place[place < k]] = SURE
        return replace(commitment, logits=logits, recompute=place >= k)

    def step(
        self, before: Tensor, memory: Memory, state: DecoderState, held: bool = False
    ) -> tuple[Tensor, Glimpse, DecoderState]:
        return self.model.step(before, memory, state, held)

    def run(self, beam: int, record: bool = False) -> list[list[Hypothesis]]:
        with autocast(self.device, self.precision):
            return search(self, self.batch, Options(beam=beam, max_length=self.length, record=record))

    def rate(self) -> float:
        """The share of steps that re-planned."""
        switches = [h.record["switch"] for [h] in self.run(1, record=True) if h.record is not None]
        return float(np.concatenate(switches).mean())
