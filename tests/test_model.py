"""The whole model: one teacher-forced pass is its steps, and a batch is its sentences."""

import pytest
import torch

from pag.data.batch import Batch
from pag.model import NOTHING, Seq2Seq
from pag.registry import ATTENTIONS
from small import SYMBOLS, K, model, noise, recipe, sentences

NAMES = pytest.mark.parametrize("name", sorted(ATTENTIONS))
NORMS = pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer_norm"])


def built_with(name: str, layer_norm: bool = False, seed: int = 0) -> Seq2Seq:
    built = model(name, model={"layer_norm": layer_norm}, train={"seed": seed})
    with torch.no_grad():  # larger weights make the commitment choose differently from step to step
        for weight in built.parameters():
            weight.mul_(3)
    return built


@NAMES
@NORMS
def test_the_teacher_forced_pass_is_begin_and_step_unrolled(name: str, layer_norm: bool) -> None:
    built, batch = built_with(name, layer_norm), sentences((5, 6), (2, 6), (4, 6))
    forward = built(batch)
    with torch.no_grad():
        memory, state = built.begin(batch)
        before = torch.full((3,), NOTHING)
        for t in range(6):
            log_probs, glimpse, state = built.step(before, memory, state)
            torch.testing.assert_close(log_probs, forward.log_probs[:, t], rtol=0, atol=1e-12)
            torch.testing.assert_close(glimpse.alignment, forward.trace.glimpses.alignment[:, t], rtol=0, atol=1e-12)
            before = batch.target[:, t]


@NAMES
@NORMS
def test_a_batch_is_its_sentences_one_by_one(name: str, layer_norm: bool) -> None:
    built, batch, drawn = built_with(name, layer_norm), sentences((5, 3), (2, 6), (4, 1), (1, 4)), noise(4, 6, K)
    together = built(batch, drawn).log_probs
    for row in range(4):
        source, target = int(batch.source_lengths[row]), int(batch.target_lengths[row])
        only = torch.tensor([row])
        alone = Batch(
            batch.source[only, :source], batch.source_lengths[only],
            batch.target[only, :target], batch.target_lengths[only],
        )  # fmt: skip
        found = built(alone, drawn[only, :target]).log_probs
        torch.testing.assert_close(found[0], together[row, :target], rtol=0, atol=1e-12)


@NAMES
def test_the_order_of_a_batch_does_not_matter(name: str) -> None:
    built, batch, rows = built_with(name), sentences((5, 3), (2, 6), (4, 1)), torch.tensor([2, 0, 1])
    torch.testing.assert_close(built(batch.select(rows)).log_probs, built(batch).log_probs[rows], rtol=0, atol=1e-12)


@NAMES
def test_a_prediction_sees_no_token_from_its_own_place_on(name: str) -> None:
    built, batch = built_with(name), sentences((4, 5))
    changed = Batch(batch.source, batch.source_lengths, batch.target.clone(), batch.target_lengths)
    changed.target[0, 2] = (changed.target[0, 2] + 1) % SYMBOLS
    first, second = built(batch).log_probs, built(changed).log_probs
    assert torch.equal(first[:, :3], second[:, :3])
    assert not torch.equal(first[:, 3:], second[:, 3:])


@NAMES
def test_every_parameter_of_the_model_gets_a_gradient(name: str) -> None:
    built, batch = built_with(name), sentences((5, 6), (2, 6), (4, 6), (3, 6))
    built(batch, noise(4, 6, K)).log_probs.gather(-1, batch.target[..., None]).sum().backward()
    silent = [key for key, weight in built.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not silent


def test_the_token_before_the_first_has_the_zero_embedding() -> None:
    built = model()
    embedded = built.embed(torch.tensor([NOTHING, 0, 3]))
    assert not embedded[0].any()
    assert torch.equal(embedded[1:], built.embedding.weight[[0, 3]])


def test_plans_are_recorded_only_on_request() -> None:
    built, batch = model(), sentences((4, 3))
    assert built(batch).trace.glimpses.plan is None
    assert built(batch, record=True).trace.glimpses.plan.shape == (1, 3, K, 4)
    assert built(batch, record=True).trace.glimpses.gate.shape == (1, 3, K, 4)


@pytest.mark.parametrize("name", ["pag", "rpag"])
def test_a_held_model_re_plans_at_every_step_and_a_free_one_need_not(name: str) -> None:
    built, batch, drawn = built_with(name), sentences((4, 6), (3, 6)), noise(2, 6, K)
    assert (built(batch, drawn, held=True).trace.glimpses.switch == 1).all()
    free = built(batch, drawn).trace.glimpses.switch
    assert (free[:, 0] == 1).all() and (free == 0).any()


def test_a_new_pag_mostly_takes_its_candidate() -> None:
    """The start-as-baseline setting: a gate bias of +2 opens the update gate to about 0.88."""
    built = Seq2Seq(recipe("pag", attention={"gate_bias": 2.0}), SYMBOLS, SYMBOLS)
    gate = built(sentences((5, 6), (3, 6)), record=True).trace.glimpses.gate
    assert 0.8 < gate.mean() < 0.95
    closed = Seq2Seq(recipe("pag", attention={"gate_bias": 0.0}), SYMBOLS, SYMBOLS)
    assert 0.4 < closed(sentences((5, 6), (3, 6)), record=True).trace.glimpses.gate.mean() < 0.6


def test_the_three_models_differ_in_the_attention_alone() -> None:
    shapes = {
        name: {k: v.shape for k, v in model(name).named_parameters() if not k.startswith("decoder.attention.")}
        for name in ("baseline", "pag", "rpag")
    }
    assert shapes["baseline"] == shapes["pag"] == shapes["rpag"]
    shared = {k for k, _ in model("baseline").decoder.attention.named_parameters()}
    assert shared <= {k for k, _ in model("rpag").decoder.attention.named_parameters()}


@pytest.mark.parametrize("where", ["embedding_dropout", "annotation_dropout", "dropout"])
def test_each_dropout_acts_in_training_only(where: str) -> None:
    built, batch = model("pag", model={where: 0.5}), sentences((5, 3), (2, 6))
    built.train()
    assert not torch.equal(built(batch).log_probs, built(batch).log_probs)
    built.eval()
    assert torch.equal(built(batch).log_probs, built(batch).log_probs)


def test_embedding_dropout_acts_on_the_source_and_on_the_target() -> None:
    built, ids = model("pag", model={"embedding_dropout": 0.5}), torch.full((1, 50), 3)
    source = sentences((5, 3))
    built.train()
    assert (built.embed(ids) == 0).any()
    first, second = (built.encoder(source.source, source.source_lengths) for _ in range(2))
    assert not torch.equal(first, second)
