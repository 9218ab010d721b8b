"""Laws of search: what a beam returns is true of the model, whatever the batch."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import pag.search as searching
from pag.data.batch import Batch, Example, collate
from pag.hypotheses import Hypothesis
from pag.losses import negative_log_likelihood
from pag.model import NOTHING, Seq2Seq
from pag.registry import ATTENTIONS
from pag.replay import Replay
from pag.search import Options, keep_likeliest, search
from pag.tasks.euler import EulerTask
from pag.text.vocabulary import END, PAD
from pointing import documents, pointer

GLANCES = ((1, 0), (3, 0), (16, 0), (3, 256))  # steps between two looks at who is done, rows that are too few to leave


@pytest.fixture
def batch(task: EulerTask) -> Batch:
    """Sentences of different lengths."""
    sources = [example.source for example in task.examples("test")]
    return collate([Example(list(source[i * 3 :])) for i, source in enumerate(sources[:5])])


def name_of(model: Seq2Seq) -> str:
    """What its attention is registered as."""
    kind = type(model.decoder.attention).__name__
    return next(name for name, place in ATTENTIONS.items() if place.endswith(f":{kind}"))


def alone(batch: Batch, row: int) -> Batch:
    length = int(batch.source_lengths[row])
    return Batch(batch.source[row : row + 1, :length], batch.source_lengths[row : row + 1])


def forced(model: Seq2Seq, source: Batch, ids: tuple[int, ...]) -> float:
    """Log-probability of an output by teacher forcing."""
    target = replace(source, target=torch.tensor([ids]), target_lengths=torch.tensor([len(ids)]))
    with torch.no_grad():
        return -float(negative_log_likelihood(model(target).log_probs, target).sum())


def greedy(model: Seq2Seq, source: Batch, longest: int) -> tuple[int, ...]:
    """The simplest greedy decoder that could be written."""
    ids: list[int] = []
    with torch.no_grad():
        memory, state = model.begin(source)
        before = torch.tensor([NOTHING])
        while not ids or ids[-1] != END:
            log_probs, _, state = model.step(before, memory, state)
            log_probs[:, PAD] = float("-inf")
            before = torch.tensor([END]) if len(ids) == longest - 1 else log_probs.argmax(-1)
            ids.append(int(before))
    return tuple(ids)


def test_beam_1_is_greedy(model: Seq2Seq, batch: Batch) -> None:
    lengths = set()
    for eagerness in torch.linspace(
        0, 1, 12
    ).tolist():  # to end: sentences should leave the batch at different times in one of these
        with torch.no_grad():
            model.readout.output.bias[END] += eagerness
        found = search(model, batch, Options(max_length=9))
        assert [h.ids for [h] in found] == [greedy(model, alone(batch, i), 9) for i in range(5)]
        lengths.add(frozenset(len(h.ids) for [h] in found))
    assert max(len(of_one) for of_one in lengths) > 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_every_n_best_score_holds_when_that_output_is_scored_alone(
    model: Seq2Seq, batch: Batch, penalty: float
) -> None:
    found = search(model, batch, Options(beam=4, n_best=4, max_length=7, length_penalty=penalty))
    for row, hypotheses in enumerate(found):
        assert len(hypotheses) == 4
        assert len({h.ids for h in hypotheses}) == 4
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(forced(model, alone(batch, row), h.ids), abs=1e-5)
            assert h.score == pytest.approx(h.log_prob / len(h.ids) ** penalty)


def test_a_wide_beam_finds_the_best_of_all_outputs(model: Seq2Seq, task: EulerTask, batch: Batch) -> None:
    symbols, longest = range(1, 5), 3  # forbid the rest by cutting the vocabulary
    with torch.no_grad():
        model.readout.output.bias[5:] = -1e9
    wide = 1 + 3 + 3 * 3 * 1 + 40
    [[best]] = search(model, alone(batch, 0), Options(beam=wide, max_length=longest))
    everything = [(*head, END) for n in range(longest) for head in product([s for s in symbols if s != END], repeat=n)]
    scores = {ids: forced(model, alone(batch, 0), ids) / len(ids) for ids in everything}
    assert best.ids == max(scores, key=lambda ids: scores[ids])


def test_results_depend_on_no_other_sentence_in_the_batch(model: Seq2Seq, batch: Batch) -> None:
    options = Options(beam=3, n_best=3, max_length=8, record=True)
    together = search(model, batch, options)
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = search(model, batch.select(order), options)
    for row in range(5):
        single = search(model, alone(batch, row), options)[0]
        same(together[row], single)
        same(shuffled[order.tolist().index(row)], single)


def same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    assert [h.ids for h in ours] == [h.ids for h in theirs]
    for a, b in zip(ours, theirs, strict=True):
        assert a.log_prob == pytest.approx(b.log_prob, abs=1e-5, rel=1e-6)
        assert a.record is not None and b.record is not None
        for name in a.record:
            torch.testing.assert_close(torch.tensor(a.record[name]), torch.tensor(b.record[name]), atol=1e-5, rtol=0)


def test_records_of_a_beam_are_those_of_teacher_forcing(model: Seq2Seq, batch: Batch) -> None:
    """Alignments follow their hypothesis through every reordering."""
    found = search(model, batch, Options(beam=3, n_best=3, max_length=8, record=True))
    for row, hypotheses in enumerate(found):
        for h in hypotheses:
            source = alone(batch, row)
            target = replace(source, target=torch.tensor([h.ids]), target_lengths=torch.tensor([len(h.ids)]))
            with torch.no_grad():
                glimpses = model(target, record=True).trace.glimpses
            assert h.record is not None
            for name, value in h.record.items():
                torch.testing.assert_close(
                    torch.tensor(value), getattr(glimpses, name)[0].float(), atol=1e-5, rtol=0, msg=name
                )


@pytest.mark.parametrize("replayed", [False, True])
def test_a_gpus_rare_glances_change_nothing(
    model: Seq2Seq, batch: Batch, monkeypatch: pytest.MonkeyPatch, replayed: bool
) -> None:
    """The same search with sentences leaving late and together, as on a GPU, and with its steps on fixed memory."""
    with torch.no_grad():
        model.readout.output.bias[END] += 1.0
    options = Options(beam=3, n_best=3, max_length=12, record=True)
    often = search(model, batch, options)
    as_on_a_gpu(monkeypatch, replayed)
    for glance, few in GLANCES:
        monkeypatch.setattr(searching, "GLANCE", glance)
        monkeypatch.setattr(searching, "FEW_ROWS", few)
        for ours, theirs in zip(search(model, batch, options), often, strict=True):
            same(ours, theirs)


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch, replayed: bool) -> None:
    """A recorder that does the work again stands in for a CUDA graph."""
    begin = searching._Search.__init__

    def on_gpu(self: searching._Search, *rest: Any) -> None:
        begin(self, *rest)
        self.on_gpu = True
        self.recorder = (lambda once: once) if replayed else None

    monkeypatch.setattr(searching._Search, "__init__", on_gpu)


def test_pointing_on_fixed_memory_finds_the_same(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch, options = (
        pointer(name_of(model)).eval(),
        documents(),
        Options(beam=3, n_best=3, max_length=12, record=True),
    )
    plain = search(model, batch, options)
    as_on_a_gpu(monkeypatch, replayed=True)
    for ours, theirs in zip(search(model, batch, options), plain, strict=True):
        same(ours, theirs)


class AsksNothing(TorchDispatchMode):
    """Refuses what a CUDA graph cannot capture: values read by the host, and numbers that `where` would send over."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket is not torch.ops.aten._local_scalar_dense
        numbers = [arg for arg in args if not isinstance(arg, torch.Tensor) or not arg.dim()]
        assert func.overloadpacket is not torch.ops.aten.where or not numbers
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("pointing", [False, True])
def test_a_step_that_is_captured_waits_for_no_number(
    model: Seq2Seq, batch: Batch, monkeypatch: pytest.MonkeyPatch, pointing: bool
) -> None:
    if pointing:
        model, batch = pointer(name_of(model)).eval(), documents()
    as_on_a_gpu(monkeypatch, replayed=True)
    asked = []

    def watched(self: Replay[Any, Any]) -> None:
        asked.append(1)
        with AsksNothing():
            once(self)

    once = Replay.once
    monkeypatch.setattr(Replay, "once", watched)
    search(model, batch, Options(beam=3, max_length=12))
    assert asked


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: CUDA graphs")
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("few", [0, 256])
@pytest.mark.parametrize("pointing", [False, True])
def test_a_captured_step_finds_what_the_step_finds(
    model: Seq2Seq, batch: Batch, monkeypatch: pytest.MonkeyPatch, beam: int, few: int, pointing: bool
) -> None:
    """On the GPU: the same hypotheses, with sentences leaving and the step captured again.

    Bit for bit, but where words are copied: the ways to come by a word are added up there in whatever order.
    """
    monkeypatch.setattr(searching, "FEW_ROWS", few)
    if pointing:
        model, batch = pointer(name_of(model)).eval(), documents()
    model, batch = model.float().cuda(), batch.select(torch.arange(len(batch.source)).repeat(8)).to("cuda")
    with torch.no_grad():
        model.readout.output.bias[END] += 0.5
    options = Options(beam=beam, n_best=beam, max_length=60, record=True)
    captured, plain = search(model, batch, options), search(model, batch, replace(options, replay=False))
    assert beam == 1 or len({len(h.ids) for hs in plain for h in hs}) > 1
    for ours, theirs in zip(captured, plain, strict=True):
        assert pointing or [h.log_prob for h in ours] == [h.log_prob for h in theirs]
        same(ours, theirs)


def test_an_output_that_reaches_the_longest_length_is_ended_there(model: Seq2Seq, batch: Batch) -> None:
    with torch.no_grad():
        model.readout.output.bias[END] = -50.0  # never ends by itself
    for hypotheses in search(model, batch, Options(beam=2, n_best=2, max_length=5)):
        assert [len(h.ids) for h in hypotheses] == [5, 5]
        assert all(h.ids[-1] == END and END not in h.ids[:-1] for h in hypotheses)


def test_padding_is_never_generated(model: Seq2Seq, batch: Batch) -> None:
    with torch.no_grad():
        model.readout.output.bias[PAD] = 50.0
    assert all(PAD not in h.ids for hs in search(model, batch, Options(beam=3, n_best=3, max_length=6)) for h in hs)


def test_a_sample_depends_on_its_own_number_and_seed_alone(model: Seq2Seq, batch: Batch) -> None:
    options = Options(sample=True, n_best=3, max_length=8, seed=4)
    together = search(model, batch, options)
    single = search(model, alone(batch, 2), options, numbers=[2])
    assert [h.ids for h in together[2]] == [h.ids for h in single[0]]
    assert [h.ids for h in together[2]] != [h.ids for h in search(model, alone(batch, 2), options, numbers=[3])[0]]
    assert together != search(model, batch, replace(options, seed=5))


def test_samples_are_as_frequent_as_they_are_likely(model: Seq2Seq, batch: Batch) -> None:
    source = alone(batch, 0)
    drawn = search(model, source, Options(sample=True, n_best=4000, max_length=2))[0]
    first = torch.tensor([h.ids[0] for h in drawn]).bincount(minlength=model.readout.output.out_features) / 4000
    with torch.no_grad():
        wanted = model.step(torch.tensor([NOTHING]), *model.begin(source))[0][0].exp()
    wanted[PAD] = 0
    assert float((first - wanted / wanted.sum()).abs().max()) < 0.03


def test_sampling_keeps_only_the_likeliest() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert (keep_likeliest(log_probs, 2, 1.0) > float("-inf")).tolist() == [[True, True, False, False]]
    assert (keep_likeliest(log_probs, 0, 0.7) > float("-inf")).tolist() == [[True, True, False, False]]
    assert (keep_likeliest(log_probs, 0, 0.81) > float("-inf")).tolist() == [[True, True, True, False]]
    assert (keep_likeliest(log_probs, 0, 0.49) > float("-inf")).tolist() == [[True, False, False, False]]
    assert (keep_likeliest(log_probs, 0, 0.51) > float("-inf")).tolist() == [[True, True, False, False]]
    for everything in (0, 4, 9):
        assert torch.equal(keep_likeliest(log_probs, everything, 1.0), log_probs)


@pytest.mark.parametrize("one", [{"top_k": 1}, {"top_p": 0.01}])
def test_sampling_with_one_candidate_is_greedy(model: Seq2Seq, batch: Batch, one: dict[str, Any]) -> None:
    drawn = search(model, batch, Options(sample=True, max_length=8, **one))
    assert [h.ids for [h] in drawn] == [h.ids for [h] in search(model, batch, Options(max_length=8))]
