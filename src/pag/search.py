"""Greedy and beam search and sampling, batched over sentences.

All sentences and beams advance in one step of the model. A finished hypothesis keeps its slot, so a
search of width W ends with W hypotheses; sentences that are done leave the batch. The search knows
nothing of the model but `begin`, `step` and `State.select`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.chance import seed_of
from pag.data.batch import Batch
from pag.model import NOTHING
from pag.state import State
from pag.text.vocabulary import END, PAD

NEVER = float("-inf")
ROWS_ON_GPU = 4096
GLANCE = 16  # steps between two looks at who is done, on a GPU


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
    sample: bool = False  # draw instead of search; then n_best independent samples
    temperature: float = 1.0
    top_k: int = 0  # sample among the k likeliest, 0 for all
    top_p: float = 1.0  # sample among the likeliest that together hold this probability
    seed: int = 0
    record: bool = False  # keep every step's glimpse
    held: bool = False  # search as the model does while its switch is held on


@dataclass(frozen=True)
class Hypothesis:
    """One output with its end symbol, and what the model looked at on the way."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    record: dict[str, np.ndarray] | None = None  # alignment [T, S], plan [T, k, S], switch [T], …


@dataclass(frozen=True)
class Step:
    """One step of the search; rows are sentences × slots as they were then."""

    tokens: Tensor  # chosen [R]
    parents: Tensor  # the row of this step's input that each continues [R]
    origin: Tensor  # the row of the previous step's output that each input row was
    glimpse: Glimpse | None


@dataclass(frozen=True)
class Slots(State):
    """The hypotheses of each sentence, one row per sentence."""

    sentence: Tensor  # number in the batch [N]
    totals: Tensor  # log-probability of each live hypothesis, NEVER where a slot is not live [N, W]
    count: Tensor  # finished hypotheses [N]
    finished: Tensor  # their log-probabilities [N, W]
    step: Tensor  # the step at which each finished [N, W]
    row: Tensor  # and its row there [N, W]


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
        memory, state = model.begin(batch)
        sentences, device = len(batch.source), batch.source.device
        slots = torch.arange(sentences, device=device).repeat_interleave(width)
        self.memory, self.state = memory, state.select(slots)  # the slots of a sentence share its memory
        self.on_gpu = device.type == "cuda"
        self.lengths = batch.source_lengths.tolist()
        self.before = torch.full((sentences * width,), NOTHING, device=device)
        self.origin = torch.arange(sentences * width, device=device)
        self.slots = self._first_slots(sentences, device)
        self.done: list[Slots] = []
        self.steps: list[Step] = []

    def _first_slots(self, sentences: int, device: torch.device) -> Slots:
        totals = torch.full((sentences, self.width), NEVER, device=device)
        totals[:, 0] = 0.0
        whole = torch.zeros(sentences, self.width, dtype=torch.long, device=device)
        never = torch.full_like(totals, NEVER)
        return Slots(torch.arange(sentences, device=device), totals, whole[:, 0], never, whole, whole)

    def run(self, watch: Watch | None = None) -> list[list[Hypothesis]]:
        for length in range(1, self.options.max_length + 1):
            self.advance(last=length == self.options.max_length)
            if watch is not None:
                watch(self.steps, self.slots)
            if self.leave() == 0:
                break
        if len(self.slots.totals):
            self.done.append(self.slots)
        return _Backtrace(self.steps, self.done, self.options, self.lengths).hypotheses()

    def advance(self, last: bool) -> None:
        """Every live hypothesis grows by one token; those that end take a finished slot."""
        log_probs, glimpse, state = self.model.step(self.before, self.memory, self.state, self.options.held)
        totals, parents, tokens = self.choose(log_probs.to(self.slots.totals.dtype), last)
        room = torch.arange(self.width, device=totals.device) < (self.width - self.slots.count)[:, None]
        possible = room & (totals > NEVER)
        ended = possible & (tokens == END)
        first = torch.arange(len(totals), device=totals.device)[:, None] * self.width
        rows = (parents + first).flatten()
        self.steps.append(Step(tokens.flatten(), rows, self.origin, glimpse if self.options.record else None))
        self.slots = self.finish(totals, ended, first)
        live = totals.masked_fill(~possible | ended, NEVER)
        self.slots = Slots(**{**vars(self.slots), "totals": live})
        self.state, self.before = state.select(rows), tokens.flatten()
        self.origin = torch.arange(len(rows), device=rows.device)

    def choose(self, log_probs: Tensor, last: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The best W continuations of each sentence: totals, parent slots and tokens [N, W]."""
        log_probs = log_probs.clone()
        log_probs[:, PAD] = NEVER
        if last:
            log_probs[:, :END] = log_probs[:, END + 1 :] = NEVER
        sentences, symbols = len(self.slots.totals), log_probs.shape[-1]
        if self.chance is not None:
            tokens = self.draw(log_probs)[:, None]
            return self.slots.totals + log_probs.gather(1, tokens), torch.zeros_like(tokens), tokens
        candidates = self.slots.totals[:, :, None] + log_probs.view(sentences, self.width, symbols)
        totals, chosen = candidates.flatten(1).topk(self.width)
        return totals, chosen // symbols, chosen % symbols

    def draw(self, log_probs: Tensor) -> Tensor:
        """One token per row: the largest of the kept log-probabilities with Gumbel noise added [R]."""
        assert self.chance is not None
        kept = keep_likeliest(log_probs / self.options.temperature, self.options.top_k, self.options.top_p)
        generators = [self.chance[i] for i in self.slots.sentence.tolist()]
        exponential = [torch.empty(log_probs.shape[1]).exponential_(generator=g) for g in generators]
        return (kept - torch.stack(exponential).log().to(kept.device)).argmax(-1)

    def finish(self, totals: Tensor, ended: Tensor, first: Tensor) -> Slots:
        """Put the hypotheses that ended behind those that ended before."""
        slots, spare = self.slots, self.width  # one column too many takes what is not to be kept
        place = torch.where(ended, slots.count[:, None] + ended.cumsum(1) - 1, spare)
        rows = first + torch.arange(self.width, device=first.device)

        def put(old: Tensor, new: Tensor) -> Tensor:
            wide = torch.cat([old, torch.zeros_like(old[:, :1])], 1)
            return wide.scatter(1, place, new.to(old.dtype))[:, :spare]

        now = torch.full_like(slots.step, len(self.steps) - 1)
        return Slots(
            slots.sentence,
            totals,
            slots.count + ended.sum(1),
            put(slots.finished, totals),
            put(slots.step, now),
            put(slots.row, rows),
        )

    def leave(self) -> int:
        """Sentences with nothing left to grow leave the batch; how many stay.

        On a GPU asking costs a wait, and rows are cheap: so it is asked rarely, and only many leave at once.
        """
        sentences = len(self.slots.totals)
        if self.on_gpu and len(self.steps) % GLANCE:
            return sentences
        going = (self.slots.totals > NEVER).any(1)
        staying = int(going.sum())
        if staying and staying > (sentences // 2 if self.on_gpu else sentences - 1):
            return sentences
        self.done.append(self.slots.select((~going).nonzero()[:, 0]))
        stay = going.nonzero()[:, 0]
        rows = (stay[:, None] * self.width + torch.arange(self.width, device=stay.device)).flatten()
        self.slots = self.slots.select(stay)
        self.memory, self.state = self.memory.select(stay), self.state.select(rows)
        self.before, self.origin = self.before[rows], self.origin[rows]
        return staying


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


class _Backtrace:
    """Follows finished hypotheses back to their first token."""

    def __init__(self, steps: list[Step], done: list[Slots], options: Options, lengths: list[int]) -> None:
        self.tokens = [step.tokens.cpu().numpy() for step in steps]
        self.parents = [step.parents.cpu().numpy() for step in steps]
        self.origins = [step.origin.cpu().numpy() for step in steps]
        self.glimpses = [_arrays(step.glimpse) for step in steps if step.glimpse is not None]
        self.done = [slots.to("cpu") for slots in done]
        self.options, self.lengths = options, lengths

    def hypotheses(self) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in self.lengths]
        for slots in self.done:
            for i, sentence in enumerate(slots.sentence.tolist()):
                endings = range(int(slots.count[i]))
                all_of_it = [self.trace(slots, i, ending, self.lengths[sentence]) for ending in endings]
                found[sentence] = sorted(all_of_it, key=lambda h: -h.score)[: self.options.n_best]
        return found

    def trace(self, slots: Slots, i: int, ending: int, source_length: int) -> Hypothesis:
        last, row = int(slots.step[i, ending]), int(slots.row[i, ending])
        ids, rows = [], []
        for t in range(last, -1, -1):
            ids.append(int(self.tokens[t][row]))
            rows.append(int(self.parents[t][row]))
            row = int(self.origins[t][rows[-1]])
        log_prob = float(slots.finished[i, ending])
        record = self.record(rows[::-1], source_length) if self.glimpses else None
        return Hypothesis(tuple(ids[::-1]), log_prob, log_prob / len(ids) ** self.options.length_penalty, record)

    def record(self, rows: list[int], source_length: int) -> dict[str, np.ndarray]:
        names = self.glimpses[0]
        joined = {name: np.stack([self.glimpses[t][name][row] for t, row in enumerate(rows)]) for name in names}
        return {
            name: value[..., :source_length] if name in ("alignment", "plan", "gate") else value
            for name, value in joined.items()
        }


RECORDED = ("alignment", "plan", "gate", "switch", "commitment")


def _arrays(glimpse: Glimpse) -> dict[str, np.ndarray]:
    kept = {f.name: getattr(glimpse, f.name) for f in fields(glimpse) if f.name in RECORDED}
    return {name: value.float().cpu().numpy() for name, value in kept.items() if value is not None}
