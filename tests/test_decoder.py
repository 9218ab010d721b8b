"""The two-layer decoder: its start, its step, and which state plans."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from pag.attention.base import Glimpse, Memory
from pag.decoder import Decoder
from pag.layers import initialise
from pag.readout import DeepOutput
from small import ANNOTATION, STATE, TOKEN, attention, chance, normal, scene


def decoder(name: str = "pag", **changes: object) -> Decoder:
    built = Decoder(attention(name, **changes), ANNOTATION, TOKEN, STATE, layer_norm=False).double()
    initialise(built, "fan_in", chance(1))
    return built


def memory_of(built: Decoder) -> Memory:
    acts = scene()
    return built.attention.prepare(acts.annotations, acts.mask)


def test_it_starts_from_the_mean_of_the_real_annotations() -> None:
    built = decoder()
    memory = memory_of(built)
    state = built.start(memory)
    for row, length in enumerate(memory.mask.sum(1).tolist()):
        mean = memory.annotations[row, :length].mean(0)
        torch.testing.assert_close(state.lower[row], torch.tanh(built.start_lower(mean)))
        torch.testing.assert_close(state.upper[row], torch.tanh(built.start_upper(mean)))


def test_the_upper_layer_reads_the_new_lower_state_and_both_read_the_new_context() -> None:
    built = decoder()
    memory = memory_of(built)
    before, token = built.start(memory), normal(4, TOKEN)
    glimpse, after = built.step(token, memory, before)
    lower = built.lower(torch.cat([token, glimpse.context], -1), before.lower)
    upper = built.upper(torch.cat([lower, glimpse.context], -1), before.upper)
    assert torch.equal(after.lower, lower)
    assert torch.equal(after.upper, upper)


@pytest.mark.parametrize(("plans_from", "other"), [("upper", "lower"), ("lower", "upper")])
def test_only_the_layer_that_plans_moves_the_alignment(plans_from: str, other: str) -> None:
    built = decoder(plans_from=plans_from)
    memory = memory_of(built)
    state, token = built.start(memory), normal(4, TOKEN)
    plain, _ = built.step(token, memory, state)
    ignored, _ = built.step(token, memory, replace(state, **{other: normal(4, STATE)}))
    heeded, _ = built.step(token, memory, replace(state, **{plans_from: normal(4, STATE)}))
    assert torch.equal(plain.alignment, ignored.alignment)
    assert not torch.equal(plain.alignment, heeded.alignment)


def readout(dropout: float = 0.0) -> DeepOutput:
    built = DeepOutput(STATE, TOKEN, ANNOTATION, 5, 7, dropout).double()
    initialise(built, "fan_in", chance(0))
    return built


def parts(*shape: int) -> list[torch.Tensor]:
    return [normal(*shape, size, seed=size) for size in (STATE, STATE, TOKEN, ANNOTATION)]


def read(built: DeepOutput, given: list[torch.Tensor]) -> torch.Tensor:
    lower, upper, token, context = given
    nothing = torch.zeros(len(token), 1)
    memory = Memory(nothing[..., None], nothing > 0, nothing[..., None])
    return built(lower, upper, token, Glimpse(nothing, context), memory).log_probs


def test_the_deep_output_is_a_distribution() -> None:
    log_probs = read(readout(), parts(2, 3))
    assert log_probs.shape == (2, 3, 7)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 3, dtype=torch.float64))


def test_the_deep_output_adds_four_projections_inside_one_tanh() -> None:
    built, (lower, upper, token, context) = readout(), parts(2)
    w1, w2, w3, w4 = built.hidden.weight.split([STATE, STATE, TOKEN, ANNOTATION], 1)
    hidden = torch.tanh(lower @ w1.T + upper @ w2.T + token @ w3.T + context @ w4.T + built.hidden.bias)
    expected = (hidden @ built.output.weight.T + built.output.bias).softmax(-1)
    torch.testing.assert_close(read(built, [lower, upper, token, context]).exp(), expected)


def test_dropout_acts_before_the_output_layer_in_training_only() -> None:
    built = readout(dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(read(built, parts(2)), read(built, parts(2)))
    built.eval()
    assert torch.equal(read(built, parts(2)), read(built, parts(2)))
    assert isinstance(built.dropout, nn.Dropout)
