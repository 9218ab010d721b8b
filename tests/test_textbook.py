"""Batched search against beam search as a textbook has it: one sentence, one hypothesis after another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import pag.search as searching
from pag.attention.base import Glimpse
from pag.data.batch import Batch, Example, collate
from pag.hypotheses import Hypothesis
from pag.model import NOTHING
from pag.search import Options, search
from pag.state import State
from pag.text.vocabulary import END, PAD, UNKNOWN
from test_search import GLANCES, as_on_a_gpu

SYMBOLS = 7
BATCH = collate([Example([sentence]) for sentence in range(6)])


@dataclass(frozen=True)
class Sentence(State):
    number: Tensor  # [N]


@dataclass(frozen=True)
class Path(State):
    """All tokens so far as one number."""

    number: Tensor  # [B]


class Told:
    """A model whose next token depends, by chance, on the sentence and on every token before."""

    def __init__(self) -> None:
        chance = torch.Generator().manual_seed(3)
        self.table = 1.5 * torch.randn(6, 997, SYMBOLS, generator=chance)
        self.table[..., END] += torch.linspace(-2, 2, 6)[:, None]  # sentences end at different times
        self.table[..., UNKNOWN] += 1
        self.rows: list[int] = []

    def begin(self, batch: Batch) -> tuple[Sentence, Path]:
        return Sentence(batch.source[:, 0]), Path(torch.zeros(len(batch.source), dtype=torch.long))

    def step(self, before: Tensor, memory: Sentence, state: Path, held: bool = False) -> tuple[Tensor, Glimpse, Path]:
        self.rows.append(len(before))
        path = (state.number * 31 + before + 2) % 997
        sentence = memory.number.repeat_interleave(len(before) // len(memory.number))
        seen = path[:, None].float()
        return self.table[sentence, path].log_softmax(-1), Glimpse(seen, seen), Path(path)

    def after(self, sentence: int, ids: Sequence[int]) -> tuple[Tensor, list[int]]:
        """Log-probabilities of what follows these tokens, and the path there."""
        path = [0]
        for token in (NOTHING, *ids):
            path.append((path[-1] * 31 + token + 2) % 997)
        return self.table[sentence, path[-1]].log_softmax(-1), path[1:]


def textbook(model: Told, sentence: int, options: Options) -> list[tuple[tuple[int, ...], float]]:
    """Outputs and their log-probabilities, best score first."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[tuple[tuple[int, ...], float]] = []
    for length in range(1, options.max_length + 1):
        allowed = set(range(SYMBOLS)) - {PAD} - (set() if options.unknown else {UNKNOWN})
        allowed = {END} if length == options.max_length else allowed
        grown = [
            ((*ids, token), total + float(model.after(sentence, ids)[0][token]))
            for ids, total in live
            for token in allowed
        ]
        kept = sorted(grown, key=lambda one: -one[1])[: options.beam - len(finished)]
        finished += [one for one in kept if one[0][-1] == END]
        live = [one for one in kept if one[0][-1] != END]
    return sorted(finished, key=lambda one: -one[1] / len(one[0]) ** options.length_penalty)[: options.n_best]


def assert_textbook(found: list[list[Hypothesis]], model: Told, options: Options) -> None:
    for sentence, hypotheses in enumerate(found):
        expected = textbook(model, sentence, options)
        assert [h.ids for h in hypotheses] == [ids for ids, _ in expected]
        assert [h.log_prob for h in hypotheses] == pytest.approx([total for _, total in expected], abs=1e-4)
        for h in hypotheses:
            assert h.record is not None
            assert h.record["alignment"][:, 0].tolist() == model.after(sentence, h.ids[:-1])[1]
            each = [float(model.after(sentence, h.ids[:t])[0][token]) for t, token in enumerate(h.ids)]
            assert h.log_probs == pytest.approx(each, abs=1e-4)


EVERY = [
    Options(beam=beam, n_best=n_best, max_length=9, length_penalty=penalty, unknown=unknown, record=True)
    for beam, n_best, penalty, unknown in ((1, 1, 1.0, True), (2, 2, 1.0, False), (4, 2, 2.0, True), (5, 5, 0.0, True))
]


@pytest.mark.parametrize("options", EVERY)
def test_a_batch_finds_what_the_textbook_finds(options: Options) -> None:
    model = Told()
    assert_textbook(search(model, BATCH, options), model, options)


def test_a_beam_with_more_slots_than_there_are_outputs_finds_each_once() -> None:
    model, options = Told(), Options(beam=30, n_best=30, max_length=2, record=True)
    found = search(model, BATCH, options)
    assert [len(hypotheses) for hypotheses in found] == [SYMBOLS - 1] * 6  # the end alone, or after another symbol
    assert_textbook(found, model, options)


def test_sentences_that_are_done_leave_the_batch() -> None:
    model = Told()
    found = search(model, BATCH, Options(beam=4, n_best=4, max_length=9))
    last = [max(len(h.ids) for h in hypotheses) for hypotheses in found]
    assert len(set(last)) > 2
    assert model.rows == [4 * sum(t < length for length in last) for t in range(max(last))]


@pytest.mark.parametrize("replayed", [False, True])
def test_a_gpus_rare_glances_find_what_the_textbook_finds(monkeypatch: pytest.MonkeyPatch, replayed: bool) -> None:
    as_on_a_gpu(monkeypatch, replayed)
    options = replace(EVERY[2], max_length=20)
    for glance, few in GLANCES:
        monkeypatch.setattr(searching, "GLANCE", glance)
        monkeypatch.setattr(searching, "FEW_ROWS", few)
        model = Told()
        assert_textbook(search(model, BATCH, options), model, options)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_sharpens_or_flattens_what_is_drawn(temperature: float) -> None:
    model, options = Told(), Options(sample=True, n_best=1000, max_length=2, temperature=temperature)
    drawn = search(model, BATCH.select(torch.tensor([2])), options)[0]
    first = torch.tensor([h.ids[0] for h in drawn]).bincount(minlength=SYMBOLS) / 1000
    log_probs = model.after(2, ())[0]
    log_probs[PAD] = float("-inf")
    assert float((first - (log_probs / temperature).softmax(-1)).abs().max()) < 0.04
    each = [sum(float(model.after(2, h.ids[:t])[0][token]) for t, token in enumerate(h.ids)) for h in drawn]
    assert [h.log_prob for h in drawn] == pytest.approx(each, abs=1e-4)  # the model's own, whatever the temperature
