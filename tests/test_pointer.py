"""The pointer softmax: one distribution over what can be written and what can be copied."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pag.attention.base import Glimpse, Memory
from pag.config import build_recipe
from pag.data.batch import Batch, Pointing
from pag.data.document import collate_documents
from pag.errors import RecipeError
from pag.layers import initialise
from pag.losses import likelihoods, losses, negative_log_likelihood
from pag.model import NOTHING
from pag.readout import PointerSoftmax, Reading
from pag.search import Options, search
from pag.text.vocabulary import END, PAD, UNKNOWN
from pointing import LEXICON, K, documents, example, examples, pointer
from small import chance, noise, normal, recipe

NAMES = pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
ANSWERS = pytest.mark.parametrize("answer", [None, "mean", "encoder"])
SHORT = len(LEXICON.shortlist)
ZORRO = SHORT + 3  # in the first document: old, king, then Zorro … see the test of numbering


def alone(batch: Batch, row: int) -> Batch:
    """One sentence without its padding."""
    return collate_documents([examples()[row]])


@NAMES
@ANSWERS
def test_the_joint_distribution_sums_to_one(name: str, answer: str | None) -> None:
    forward = pointer(name, answer)(documents(), noise(4, 8, K))
    total = forward.log_probs.exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert forward.log_probs.shape[-1] == SHORT + documents().pointing.extra.shape[1]


@NAMES
def test_the_two_ways_sum_to_one_too(name: str) -> None:
    reading = pointer(name)(documents(), noise(4, 8, K)).reading
    total = reading.written.exp().sum(-1) + reading.copied.exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))
    torch.testing.assert_close(reading.copied.exp().sum(-1), reading.copying)


def readout_of(alignment: list[float], words: list[int], extra: list[int]) -> tuple[PointerSoftmax, Reading]:
    """What is read where the alignment is known."""
    built = PointerSoftmax(2, 2, 2, 3, SHORT, 0.0).double()
    initialise(built, "fan_in", chance(0))
    weights = torch.tensor([alignment], dtype=torch.float64)
    pointing = Pointing(torch.tensor([words]), torch.tensor([extra]), torch.ones(1, len(words), dtype=torch.bool))
    nothing = torch.zeros(1, len(words), 2, dtype=torch.float64)
    memory = Memory(nothing, nothing[..., 0] == 0, nothing, pointing=pointing)
    part = normal(1, 2)
    return built, built(part, part, part, Glimpse(weights, part), memory)


def test_a_word_that_occurs_twice_has_the_probability_of_both_places_and_of_being_written() -> None:
    word = 4  # of the shortlist
    _, reading = readout_of([0.5, 0.2, 0.3], [word, SHORT, word], [7])
    z = reading.copying[0]
    expected = reading.written[0, word].exp() + z * (0.5 + 0.3)
    torch.testing.assert_close(reading.log_probs[0, word].exp(), expected)
    torch.testing.assert_close(reading.log_probs[0, SHORT].exp(), z * 0.2)  # only the document knows it
    torch.testing.assert_close(reading.log_probs[0, 3].exp(), reading.written[0, 3].exp())  # only the shortlist does


def test_an_output_that_this_document_does_not_have_is_never_chosen() -> None:
    """The first document adds more words than the second: its numbers are impossible there."""
    log_probs = pointer("pag")(documents()).log_probs
    counts = [len(example.extra) for example in examples()]
    for row, count in enumerate(counts):
        assert (log_probs[row, :, SHORT + count :] == -math.inf).all()
        assert (log_probs[row, :, : SHORT + count] > -math.inf).all()


def test_the_switch_is_two_tanh_layers_with_a_residual() -> None:
    built, _ = readout_of([1.0], [4], [PAD])
    x = normal(3, built.inputs)
    first = torch.tanh(x @ built.switch.first.weight.T + built.switch.first.bias)
    second = torch.tanh(first @ built.switch.second.weight.T + built.switch.second.bias)
    expected = (first + second) @ built.switch.output.weight.T + built.switch.output.bias
    torch.testing.assert_close(built.switch(built.switch.first(x)), expected)


@NAMES
@ANSWERS
def test_the_teacher_forced_pass_is_begin_and_step_unrolled(name: str, answer: str | None) -> None:
    built, batch = pointer(name, answer), documents()
    forward = built(batch)
    with torch.no_grad():
        memory, state = built.begin(batch)
        before = torch.full((4,), NOTHING)
        for t in range(batch.target.shape[1]):
            log_probs, glimpse, state = built.step(before, memory, state)
            torch.testing.assert_close(log_probs, forward.log_probs[:, t], rtol=0, atol=1e-12)
            torch.testing.assert_close(glimpse.copying, forward.reading.copying[:, t], rtol=0, atol=1e-12)
            before = batch.target[:, t]


@NAMES
@ANSWERS
def test_a_batch_is_its_documents_one_by_one(name: str, answer: str | None) -> None:
    built, batch, drawn = pointer(name, answer), documents(), noise(4, 8, K)
    together = built(batch, drawn)
    for row in range(4):
        only = alone(batch, row)
        found = built(only, drawn[row : row + 1, : only.target.shape[1]])
        steps = found.log_probs.shape[1]
        torch.testing.assert_close(found.log_probs[0, :, :SHORT], together.log_probs[row, :steps, :SHORT])
        kept = SHORT + len(examples()[row].extra)
        torch.testing.assert_close(found.log_probs[0, :, :kept], together.log_probs[row, :steps, :kept])


@NAMES
@ANSWERS
def test_what_stands_in_the_padding_changes_nothing(name: str, answer: str | None) -> None:
    built, batch = pointer(name, answer), documents()
    padded = ~batch.source_mask
    changed = replace(
        batch,
        source=batch.source.masked_fill(padded, 4),
        pointing=replace(batch.pointing, words=batch.pointing.words.masked_fill(padded, SHORT)),
    )
    torch.testing.assert_close(built(changed).log_probs, built(batch).log_probs, rtol=0, atol=1e-12)


@NAMES
def test_every_n_best_score_holds_when_that_question_is_scored_alone(name: str) -> None:
    built, given = pointer(name), [replace(one, target=None, locations=None) for one in examples()]
    found = search(built, collate_documents(given), Options(beam=4, n_best=4, max_length=7, unknown=False))
    for one, hypotheses in zip(given, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert UNKNOWN not in hypothesis.ids and PAD not in hypothesis.ids
            scored = replace(one, target=hypothesis.ids, locations=[-1] * len(hypothesis.ids))
            batch = collate_documents([scored])
            log_probs = -negative_log_likelihood(built(batch).log_probs, batch)[0]
            assert hypothesis.log_prob == pytest.approx(float(log_probs.detach().sum()), abs=1e-5)
            assert hypothesis.log_probs == pytest.approx(log_probs.tolist(), abs=1e-5)


def test_the_copied_mass_of_a_hypothesis_comes_with_it_even_where_no_record_was_asked_for() -> None:
    given = [replace(one, target=None, locations=None) for one in examples()]
    [[best], *_] = search(pointer("pag"), collate_documents(given), Options(max_length=5))
    assert set(best.record) == {"alignment", "copying"}
    assert best.record["alignment"].shape == (len(best.ids), len(given[0].source))


def test_both_likelihoods_by_hand() -> None:
    """Target: a word copied from place 1, then one written, then the end."""
    copied = torch.tensor([[[0.1, 0.4], [0.2, 0.1], [0.1, 0.1]]], dtype=torch.float64)
    written = torch.tensor([[[0.1, 0.4], [0.1, 0.6], [0.1, 0.7]]], dtype=torch.float64)
    joint = torch.tensor([[[0.1, 0.4, 0.5], [0.1, 0.6, 0.3], [0.1, 0.7, 0.2]]], dtype=torch.float64)
    ones = torch.ones(1, 2, dtype=torch.long)
    pointing = Pointing(ones, ones, ones > 0, torch.tensor([[1, -1, -1]]))
    batch = Batch(ones, ones[:, 0], torch.tensor([[2, 1, 1]]), torch.tensor([3]), pointing)
    found = likelihoods(Reading(joint.log(), copied.log(), written.log()), batch)
    torch.testing.assert_close(found["paper"].exp(), torch.tensor([[0.4, 0.6, 0.7]], dtype=torch.float64))
    torch.testing.assert_close(found["marginal"].exp(), torch.tensor([[0.5, 0.6, 0.7]], dtype=torch.float64))


@NAMES
def test_the_assigned_way_is_never_likelier_than_all_ways_together(name: str) -> None:
    batch = documents()
    found = likelihoods(pointer(name)(batch).reading, batch)
    assert (found["paper"] <= found["marginal"] + 1e-12)[batch.target_mask].all()


@pytest.mark.parametrize("likelihood", ["paper", "marginal"])
def test_what_is_minimised_is_the_likelihood_that_the_recipe_names(likelihood: str) -> None:
    batch = documents()
    forward = pointer("pag")(batch)
    trained = losses(forward, batch, recipe("pag", loss={"likelihood": likelihood}))
    expected = {way: -(each * batch.target_mask).sum() for way, each in likelihoods(forward.reading, batch).items()}
    assert expected["paper"] > expected["marginal"] + 1
    torch.testing.assert_close(trained.total, expected[likelihood])
    torch.testing.assert_close(trained.nll, expected[likelihood].detach())


@pytest.mark.parametrize("likelihood", ["paper", "marginal"])
@ANSWERS
@NAMES
def test_every_parameter_gets_a_gradient(name: str, answer: str | None, likelihood: str) -> None:
    built, batch = pointer(name, answer), documents()
    trained = recipe(name, loss={"likelihood": likelihood})
    losses(built(batch, noise(4, 8, K)), batch, trained, 1.0).total.backward()
    without = [n for n, p in built.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []


def test_a_copied_word_that_the_shortlist_lacks_is_fed_back_by_its_source_embedding() -> None:
    built, batch = pointer(), documents()
    memory, _ = built.begin(batch)
    ids = torch.full((4,), SHORT)
    expected = built.encoder.embedding(batch.pointing.extra[:, 0])
    torch.testing.assert_close(built.embed(ids, memory.pointing), expected)
    torch.testing.assert_close(built.embed(torch.full((4,), 4), memory.pointing), built.embedding.weight[[4] * 4])


def test_the_answer_moves_the_question() -> None:
    text = "Zorro saw Batman and the king"
    batches = [collate_documents([example(text, answer, "who saw ?")]) for answer in ((0, 1), (4, 6))]
    for answer in ("mean", "encoder"):
        built = pointer("baseline", answer)
        assert not torch.allclose(built(batches[0]).log_probs, built(batches[1]).log_probs)
    blind = pointer("baseline", None)
    torch.testing.assert_close(blind(batches[0]).log_probs, blind(batches[1]).log_probs)


def test_the_mean_answer_is_the_mean_annotation_over_its_words() -> None:
    built, batch = pointer("baseline", "mean"), documents()
    annotations = built.encoder(batch.source, batch.source_lengths)
    memory, _ = built.begin(batch)
    torch.testing.assert_close(memory.answer[3], annotations[3, 10:12].mean(0))


@pytest.mark.parametrize("answer", ["mean", "encoder"])
def test_the_answer_reaches_the_decoder_s_start_and_the_output_layer(answer: str) -> None:
    built, batch = pointer("baseline", answer), documents()
    memory = built.memory(batch)
    moved = replace(memory, answer=memory.answer + 1)
    here, there = built.decoder.start(memory), built.decoder.start(moved)
    assert (here.lower != there.lower).any(1).all() and (here.upper != there.upper).any(1).all()
    token = built.embed(batch.target[:, 0], batch.pointing)
    glimpse, state = built.decoder.step(token, memory, here)
    read = [built.readout(state.lower, state.upper, token, glimpse, each) for each in (memory, moved)]
    assert (read[0].written != read[1].written).any(1).all() and (read[0].copying != read[1].copying).all()


def test_the_answer_s_own_encoder_reads_the_answer_and_nothing_else() -> None:
    built = pointer("baseline", "encoder")
    here = collate_documents([example("the old king saw", (1, 3), None)])
    there = collate_documents([example("saw the the the old king", (4, 6), None)])
    torch.testing.assert_close(built.begin(here)[0].answer, built.begin(there)[0].answer)


def values(**sections: dict[str, object]) -> dict[str, object]:
    return {"task": {"name": "questions"}, "model": {"readout": "pointer"}, **sections}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (values(model={"readout": "deep"}), "'model.readout' must be pointer for the task questions, not 'deep'"),
        ({"task": {"name": "euler"}, "model": {"readout": "pointer"}}, "must be deep for the task euler"),
        ({"task": {"name": "euler"}, "model": {"answer": "mean"}}, "'model.answer' is for tasks with an answer"),
        (values(model={"readout": "pointer", "answer": "meen"}), "unknown answer 'meen' (did you mean 'mean'?)"),
        (values(loss={"label_smoothing": 0.1}), "'loss.label_smoothing' must be 0 where words are copied"),
    ],
)
def test_a_recipe_that_cannot_copy_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError, match=said.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")):
        build_recipe(wrong, "test")


def test_bfloat16_keeps_the_distribution_whole() -> None:
    built = pointer("pag").float()
    with torch.autocast("cpu", torch.bfloat16):
        forward = built(documents())
    assert forward.log_probs.dtype == torch.float32
    torch.testing.assert_close(forward.log_probs.exp().sum(-1), torch.ones(4, 8), rtol=0, atol=1e-5)


def test_a_place_that_is_not_looked_at_gives_finite_gradients() -> None:
    """An alignment of exactly zero has no logarithm."""
    alignment = torch.tensor([[1.0, 0.0]], requires_grad=True)
    built = PointerSoftmax(2, 2, 2, 3, SHORT, 0.0)
    pointing = Pointing(torch.tensor([[4, SHORT]]), torch.tensor([[7]]), torch.ones(1, 2, dtype=torch.bool))
    nothing = torch.zeros(1, 2, 2)
    memory = Memory(nothing, nothing[..., 0] == 0, nothing, pointing=pointing)
    part: Tensor = torch.zeros(1, 2)
    reading = built(part, part, part, Glimpse(alignment, part), memory)
    (reading.copied[0, 1] + reading.log_probs[0, SHORT]).backward()
    assert bool(alignment.grad.isfinite().all())
    assert END == 1


def test_a_marked_answer_moves_the_annotations_of_its_surroundings_too() -> None:
    built = pointer("baseline", None)
    built.encoder.mark = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    texts = [example("Zorro saw Batman and the king", answer, None) for answer in ((0, 1), (2, 3))]
    here, there = (built.begin(collate_documents([text]))[0].annotations for text in texts)
    assert (here != there).any(-1).all()
    built.encoder.mark = None
    here, there = (built.begin(collate_documents([text]))[0].annotations for text in texts)
    assert torch.equal(here, there)
