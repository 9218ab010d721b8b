"""Greedy and beam search and sampling, batched over sentences.

All sentences and beams advance in one step of the model. A finished hypothesis keeps its slot, so a
search of width W ends with W hypotheses; sentences that are done leave the batch. The search knows
nothing of the model but `begin`, `step` and `State.select`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.chance import seed_of
from pag.data.batch import Batch
from pag.hypotheses import Backtrace, Hypothesis, Slots, Step, to_copy
from pag.model import NOTHING
from pag.replay import Recorder, Replay, graphs
from pag.state import State
from pag.text.vocabulary import END, PAD, UNKNOWN

NEVER = float("-inf")
ROWS_ON_GPU = 4096
GLANCE = 16  # steps between two looks at who is done, on a GPU
FEW_ROWS = 256  # on a GPU fewer rows cost no less, so that nobody need leave


class Stepper(Protocol):
    """What can be searched: one model, or several that decode as one."""

    def begin(self, batch: Batch) -> tuple[Any, Any]:
        """What is kept per sentence, and the first state: both States."""

    def step(self, before: Tensor, memory: Any, state: Any, held: bool = False) -> tuple[Tensor, Glimpse, Any]:
        """Log-probabilities of the next token, what was looked at, and the next state."""


@dataclass(frozen=True)
class Options:
    beam: int = 1
    n_best: int = 1
    length_penalty: float = 1.0  # scores are log-probabilities divided by length to this power
    max_length: int = 500  # tokens, the end symbol included; it is forced there
    unknown: bool = True  # may the symbol for unknown words be chosen?
    sample: bool = False  # draw instead of search; then n_best independent samples
    temperature: float = 1.0
    top_k: int = 0  # sample among the k likeliest, 0 for all
    top_p: float = 1.0  # sample among the likeliest that together hold this probability
    seed: int = 0
    record: bool = False  # keep every step's glimpse
    held: bool = False  # search as the model does while its switch is held on
    replay: bool = True  # on a GPU: capture a step and replay it, where the model allows it


@dataclass(frozen=True)
class Frontier(State):
    """Where a search stands: all that one step reads and leaves to the next."""

    slots: Slots
    before: Tensor  # the last tokens [R]
    state: State  # the model's [R]

    def stay(self, sentences: Tensor) -> tuple["Frontier", Tensor]:
        """These sentences with all their slots, and the rows that those were."""
        width = self.slots.totals.shape[1]
        rows = (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()
        return Frontier(self.slots.select(sentences), self.before[rows], self.state.select(rows)), rows


Watch = Callable[[Sequence[Step], Slots], None]


@torch.inference_mode()
def search(
    model: Stepper,
    batch: Batch,
    options: Options,
    numbers: Sequence[int] | None = None,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each sentence, best first.

    `numbers` are the inputs' own numbers; a sample depends on them, never on the batch around it. `watch` is called
    after every step with the steps so far and the slots as they are then (not when sampling); see watch.py.
    """
    numbers = list(range(len(batch.source))) if numbers is None else numbers
    if not options.sample:
        return _Search(model, batch, options, max(options.beam, options.n_best), None).run(watch)
    rows = torch.arange(len(batch.source)).repeat_interleave(options.n_best)
    chance = [_generator(options.seed, number, sample) for number in numbers for sample in range(options.n_best)]
    found = _Search(model, batch.select(rows), options, 1, chance).run()
    drawn = [found[at : at + options.n_best] for at in range(0, len(found), options.n_best)]
    return [sorted((h for [h] in group), key=lambda h: -h.score) for group in drawn]


def sentences_at_once(asked: int | None, device: torch.device, width: int) -> int:
    """How many sentences to search together: as asked; else 32, or as many as keep a GPU busy."""
    return asked or (max(1, ROWS_ON_GPU // width) if device.type == "cuda" else 32)


def _generator(*numbers: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(*numbers))


class _Search:
    """One search over one batch."""

    def __init__(
        self, model: Stepper, batch: Batch, options: Options, width: int, chance: list[torch.Generator] | None
    ) -> None:
        self.model, self.options, self.width, self.chance = model, options, width, chance
        sentences, device = len(batch.source), batch.source.device
        self.memory, state = model.begin(batch)  # the slots of a sentence share its memory
        rows = torch.arange(sentences, device=device).repeat_interleave(width)
        before = torch.full((sentences * width,), NOTHING, device=device)
        self.frontier = Frontier(first_slots(sentences, width, device), before, state.select(rows))
        self.on_gpu = device.type == "cuda"
        self.lengths = batch.source_lengths.tolist()
        self.recorder = self.recording(device)
        self.replay: Replay[Frontier, Step] | None = None
        self.origin: Tensor | None = None
        self.done: list[Slots] = []
        self.steps: list[Step] = []

    def recording(self, device: torch.device) -> Recorder | None:
        """What captures a step, where that can be done and the search is long enough to pay for it."""
        worth = self.options.replay and self.options.max_length > GLANCE and self.chance is None
        return graphs(device) if self.on_gpu and worth and getattr(self.model, "replayable", False) else None

    def run(self, watch: Watch | None = None) -> list[list[Hypothesis]]:
        for length in range(1, self.options.max_length + 1):
            step = self.grow(last=length == self.options.max_length)
            self.steps.append(replace(step, origin=self.origin))
            self.origin = None
            if watch is not None:
                watch(self.steps, self.frontier.slots)
            if self.leave() == 0:
                break
        self.done.append(self.frontier.slots)
        traced = Backtrace(self.steps, self.done, self.lengths)
        return traced.hypotheses(self.options.n_best, self.options.length_penalty)

    def grow(self, last: bool) -> Step:
        """Take one step: replay it where it was captured; the first in a shape shows what there is to capture."""
        if self.replay is not None and not last:
            return self.replay()
        self.frontier, step = self.advance(self.frontier, last)
        if self.recorder is not None and not last:
            self.replay = Replay(self.advance, self.frontier, step, self.recorder)
            self.frontier = self.replay.state
        return step

    def advance(self, frontier: Frontier, last: bool = False) -> tuple[Frontier, Step]:
        """Every live hypothesis grows by one token; those that end take a finished slot.

        Asks the device nothing and changes nothing that it is given: so it can be captured.
        """
        slots = frontier.slots
        log_probs, glimpse, state = self.model.step(frontier.before, self.memory, frontier.state, self.options.held)
        totals, parents, tokens = self.choose(slots, log_probs.to(slots.totals.dtype), last)
        places = torch.arange(totals.numel(), device=totals.device).view_as(totals)
        rows = (parents + places[:, :1]).flatten()
        possible = (places[:1] < self.width - slots.count[:, None]) & (totals > NEVER)
        ended = possible & (tokens == END)
        live = totals.masked_fill(~possible | ended, NEVER)
        after = Frontier(finish(slots, totals, live, ended, places), tokens.flatten(), state.select(rows))
        kept = glimpse if self.options.record else to_copy(glimpse)
        return after, Step(after.before, rows, totals.flatten(), kept)

    def choose(self, slots: Slots, log_probs: Tensor, last: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The best W continuations of each sentence: totals, parent slots and tokens [N, W]."""
        if self.chance is not None:
            log_probs = self.forbid(log_probs.clone(), last)
            tokens = self.draw(slots, log_probs)[:, None]
            return slots.totals + log_probs.gather(1, tokens), torch.zeros_like(tokens), tokens
        symbols = log_probs.shape[-1]
        candidates = slots.totals[:, :, None] + log_probs.view(*slots.totals.shape, symbols)
        candidates = self.forbid(candidates, last).flatten(1)
        totals, chosen = candidates.max(1, keepdim=True) if self.width == 1 else candidates.topk(self.width)
        return totals, chosen // symbols, chosen % symbols

    def forbid(self, scores: Tensor, last: bool) -> Tensor:
        """Padding is never generated, and the last token is the end symbol; in place [..., V]."""
        scores[..., PAD] = NEVER
        if not self.options.unknown:
            scores[..., UNKNOWN] = NEVER
        if last:
            scores[..., :END] = scores[..., END + 1 :] = NEVER
        return scores

    def draw(self, slots: Slots, log_probs: Tensor) -> Tensor:
        """One token per row: the largest of the kept log-probabilities with Gumbel noise added [R]."""
        assert self.chance is not None
        kept = keep_likeliest(log_probs / self.options.temperature, self.options.top_k, self.options.top_p)
        generators = [self.chance[i] for i in slots.sentence.tolist()]
        exponential = [torch.empty(log_probs.shape[1]).exponential_(generator=g) for g in generators]
        return (kept - torch.stack(exponential).log().to(kept.device)).argmax(-1)

    def leave(self) -> int:
        """Sentences with nothing left to grow leave the batch; how many stay.

        On a GPU asking costs a wait, and rows are cheap: so it is asked rarely, and only many leave at once.
        """
        slots = self.frontier.slots
        sentences = len(slots.totals)
        if self.on_gpu and len(self.steps) % GLANCE:
            return sentences
        going = (slots.totals > NEVER).any(1)
        staying = int(going.sum())
        if staying > self.enough(sentences):
            return sentences
        self.done.append(slots.select((~going).nonzero()[:, 0]))
        stay = going.nonzero()[:, 0]
        self.frontier, self.origin = self.frontier.stay(stay)
        self.memory, self.replay = self.memory.select(stay), None
        return staying

    def enough(self, sentences: int) -> int:
        """So many of these sentences, or fewer, are worth making the batch smaller for."""
        if not self.on_gpu:
            return sentences - 1
        return sentences // 2 if sentences * self.width > FEW_ROWS else 0


def first_slots(sentences: int, width: int, device: torch.device) -> Slots:
    totals = torch.full((sentences, width), NEVER, device=device)
    never = totals.clone()
    totals[:, 0] = 0.0
    whole = torch.zeros(sentences, width, dtype=torch.long, device=device)
    return Slots(torch.arange(sentences, device=device), whole[:, 0], totals, whole[:, 0], never, whole, whole)


def finish(slots: Slots, totals: Tensor, live: Tensor, ended: Tensor, places: Tensor) -> Slots:
    """Put the hypotheses that ended behind those that ended before."""
    spare = totals.shape[1]  # one column too many takes what is not to be kept
    place = (slots.count[:, None] + ended.cumsum(1) - 1).masked_fill(~ended, spare)  # `where` would wait for its scalar

    def put(old: Tensor, new: Tensor) -> Tensor:
        wide = torch.cat([old, old[:, :1]], 1)
        return wide.scatter(1, place, new)[:, :spare]

    return Slots(
        slots.sentence,
        slots.age + 1,
        live,
        slots.count + ended.sum(1),
        put(slots.finished, totals),
        put(slots.step, slots.age[:, None].expand_as(place)),
        put(slots.row, places),
    )


def keep_likeliest(log_probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """NEVER for every symbol outside the k likeliest, or outside the smallest set that holds p."""
    if top_k:
        least = log_probs.topk(min(top_k, log_probs.shape[-1])).values[:, -1:]
        log_probs = log_probs.masked_fill(log_probs < least, NEVER)
    if top_p < 1:
        ordered, order = log_probs.softmax(-1).sort(-1, descending=True)
        before = ordered.cumsum(-1) - ordered  # probability of everything likelier
        drop = torch.zeros_like(log_probs, dtype=torch.bool).scatter(1, order, before >= top_p)
        log_probs = log_probs.masked_fill(drop, NEVER)
    return log_probs
