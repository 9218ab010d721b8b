"""The GRU step, its normalisation, and how weights are drawn."""

import math

import pytest
import torch
from torch import nn

from pag.layers import GateNorm, GRUCell, initialise, norm
from pag.model import Seq2Seq
from small import chance, model, normal, recipe


def test_the_gru_step_is_torchs() -> None:
    """torch keeps the three parts in the same order: reset, update, candidate."""
    ours, theirs = GRUCell(3, 4).double(), nn.GRUCell(3, 4).double()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            weight.copy_(normal(*weight.shape, seed=len(name)))
        ours.input.weight.copy_(theirs.weight_ih)
        ours.input.bias.copy_(theirs.bias_ih)
        ours.state.weight.copy_(theirs.weight_hh)
        ours.state.bias.copy_(theirs.bias_hh + 0.5)
        theirs.bias_hh.add_(0.5)  # a bias on the projected state: inside the reset gate's product or not, it shows
    inputs, state = normal(5, 3, seed=1), normal(5, 4, seed=2)
    torch.testing.assert_close(ours(inputs, state), theirs(inputs, state), rtol=0, atol=1e-14)


def test_the_gru_step_on_paper() -> None:
    """One unit: z = σ(1), r = σ(0), candidate = tanh(1 + ½·2), from s = 1."""
    cell = GRUCell(1, 1).double()
    with torch.no_grad():
        cell.input.weight.copy_(torch.tensor([[0.0], [1.0], [1.0]]))
        cell.state.weight.copy_(torch.tensor([[0.0], [0.0], [2.0]]))
        cell.input.bias.zero_()
        cell.state.bias.zero_()
    z, candidate = 1 / (1 + math.exp(-1)), math.tanh(2)
    one = torch.ones(1, 1, dtype=torch.float64)
    assert cell(one, one).item() == pytest.approx(z * 1 + (1 - z) * candidate)


def test_gate_norm_is_layer_norm_of_each_part_on_its_own() -> None:
    ours, parts = GateNorm(4).double(), [nn.LayerNorm(4).double() for _ in range(3)]
    with torch.no_grad():
        for i, part in enumerate(parts):
            part.weight.copy_(normal(4, seed=i))
            part.bias.copy_(normal(4, seed=10 + i))
            ours.weight[i] = part.weight
            ours.bias[i] = part.bias
    x = 3 * normal(2, 5, 12) + 1
    expected = torch.cat([part(piece) for part, piece in zip(parts, x.chunk(3, -1), strict=True)], -1)
    torch.testing.assert_close(ours(x), expected, rtol=0, atol=1e-14)


def test_a_normalised_gru_step_does_not_see_the_scale_of_its_projections() -> None:
    cell = GRUCell(3, 4, layer_norm=True).double()
    initialise(cell, 3.0, chance(0))  # large, so that LayerNorm's eps hardly counts
    inputs, state = normal(5, 3), normal(5, 4, seed=1)
    before = cell(inputs, state)
    with torch.no_grad():
        cell.input.weight.mul_(7)
        cell.input.bias.mul_(7)
    torch.testing.assert_close(cell(inputs, state), before, rtol=0, atol=1e-4)


def test_norm_is_nothing_when_it_is_off() -> None:
    x = normal(2, 3)
    assert norm(3, on=False)(x) is x
    assert norm(3, on=True).double()(x).mean(-1).abs().max() < 1e-12


@pytest.mark.parametrize(("scale", "deviation"), [("fan_in", 1 / math.sqrt(400)), (0.01, 0.01)])
def test_weights_are_drawn_with_the_stated_deviation_and_biases_are_zero(scale: str | float, deviation: float) -> None:
    layer = nn.Linear(400, 300)
    initialise(layer, scale, chance(0))
    assert layer.weight.std().item() == pytest.approx(deviation, rel=0.02)
    assert abs(layer.weight.mean().item()) < 0.02 * deviation
    assert not layer.bias.any()


@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_a_model_is_drawn_from_its_seed_alone(name: str) -> None:
    torch.manual_seed(0)
    first = model(name, train={"seed": 3})
    torch.manual_seed(1)
    again, other = model(name, train={"seed": 3}), model(name, train={"seed": 4})
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_every_recipe_scale_reaches_every_matrix() -> None:
    built = Seq2Seq(recipe("pag", model={"init": 1e-3}), 7, 7)
    for name, weight in built.named_parameters():
        assert weight.dim() < 2 or weight.abs().max() < 0.01, name


def test_what_a_module_starts_from_survives_the_draw() -> None:
    built = Seq2Seq(recipe("pag", model={"layer_norm": True}, attention={"gate_bias": 1.5}), 7, 7)
    attention = built.decoder.attention
    assert set(attention.gate_annotation.bias.tolist()) == {1.5}
    assert attention.commitment.temperature.bias.item() == pytest.approx(-1.8)
    assert set(attention.read_norm.weight.tolist()) == {1.0}
    assert set(built.decoder.lower.input_norm.weight.flatten().tolist()) == {1.0}


def test_an_embedding_is_drawn_with_deviation_one_as_its_fan_in_is_one() -> None:
    table = nn.Embedding(500, 40)
    initialise(table, "fan_in", torch.Generator().manual_seed(0))
    assert float(table.weight.detach().std()) == pytest.approx(1.0, abs=0.02)
    initialise(table, 0.01, torch.Generator().manual_seed(0))
    assert float(table.weight.detach().std()) == pytest.approx(0.01, abs=0.0005)
