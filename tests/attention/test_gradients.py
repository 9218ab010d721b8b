"""Gradients against finite differences, in float64.

A finite difference cannot see through a discrete choice, so the switch is made a constant in two
ways. `held`: it is one throughout, and the Gumbel-softmax of the commitment stays in the function.
`reinforce`: it is chosen as always, by noise with margins that no finite difference crosses, and
has no gradient of its own; rows follow and re-plan. What the straight-through switch itself passes
back is worked out in test_commitment, test_pag and test_rpag.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from pag.data.batch import mask
from pag.decoder import Decoder
from pag.layers import initialise
from pag.registry import ATTENTIONS, find
from pag.state import State
from small import ANNOTATION, STATE, SYMBOLS, TOKEN, K, chance, model, noise, normal, sentences, settings, tensors

VARIANTS = pytest.mark.parametrize(
    ("name", "switch"),
    [(name, switch) for name in sorted(ATTENTIONS) for switch in ("held", "reinforce")],
)
NORMS = pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer_norm"])

# The slot that each sentence chooses at each step; a noise of 30 outweighs every logit, a freed slot's too.
CHOICES = torch.tensor([[1, 2, 1, 0, 0], [0, 0, 0, 1, 0]])
NOISE = {"reinforce": 30.0 * torch.nn.functional.one_hot(CHOICES, K).double(), "held": noise(2, 5, K)}


def changes(switch: str) -> dict[str, Any]:
    return {"estimator": "reinforce", "temperature": 1.0} if switch == "reinforce" else {"gate_bias": 0.5}


def smooth_outputs(state: State) -> tuple[Tensor, ...]:
    """Every number but the switch. Each must have a gradient: gradcheck passes over those that have none."""
    found = [x for name, x in tensors(state).items() if x.is_floating_point() and name != "switch"]
    assert all(x.requires_grad for x in found)
    return tuple(found)


@VARIANTS
@NORMS
def test_one_decoder_step(name: str, switch: str, layer_norm: bool) -> None:
    """With respect to everything that enters it: token, annotations, both states, plan or alignment, context."""
    kind = find(ATTENTIONS, name, "attention")
    attention = kind(ANNOTATION, STATE, TOKEN, settings(name=name, **changes(switch)), layer_norm)
    decoder = Decoder(attention, ANNOTATION, TOKEN, STATE, layer_norm).double()
    initialise(decoder, "fan_in", chance(0))
    annotations, real = normal(2, 3, ANNOTATION), mask(torch.tensor([3, 2]), 3)
    with torch.no_grad():
        memory = attention.prepare(annotations, real)
        state = decoder.start(memory)
        for t in range(2):  # into the middle of a plan
            _, state = decoder.step(normal(2, TOKEN, seed=t), memory, state, NOISE[switch][:, t])
    recurrent = [n for n, x in tensors(state).items() if x.is_floating_point()]

    def step(annotations: Tensor, token: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        before = state
        for place, value in zip(recurrent, values, strict=True):
            before = put(before, place.split("."), value)
        glimpse, after = decoder.step(
            token, attention.prepare(annotations, real), before, NOISE[switch][:, 2], switch == "held"
        )
        if glimpse.switch is not None and switch == "reinforce":
            assert glimpse.switch.tolist() == [0.0, 1.0]
        return (*smooth_outputs(glimpse), *smooth_outputs(after))

    inputs = [annotations, normal(2, TOKEN, seed=9), *(tensors(state)[place] for place in recurrent)]
    assert torch.autograd.gradcheck(step, [x.clone().requires_grad_() for x in inputs])


def put(state: Any, place: list[str], value: Tensor) -> Any:
    inner = value if len(place) == 1 else put(getattr(state, place[0]), place[1:], value)
    return replace(state, **{place[0]: inner})


@VARIANTS
@NORMS
def test_the_whole_teacher_forced_pass(name: str, switch: str, layer_norm: bool) -> None:
    """With respect to every parameter of the model, embeddings and encoder included."""
    built = model(name, model={"layer_norm": layer_norm}, attention=changes(switch))
    batch = sentences((3, 5), (2, 4))
    names = [key for key, _ in built.named_parameters()]

    def run(*weights: Tensor) -> tuple[Tensor, ...]:
        forward = functional_call(
            built, dict(zip(names, weights, strict=True)), (batch, NOISE[switch], switch == "held")
        )
        glimpses = forward.trace.glimpses
        if glimpses.switch is not None and switch == "reinforce":
            assert 0 < glimpses.switch[:, 1:].mean() < 1
        return (forward.log_probs, *smooth_outputs(glimpses))

    weights = [weight.detach().clone().requires_grad_() for weight in built.parameters()]
    assert run(*weights)[0].shape == (2, 5, SYMBOLS)
    assert torch.autograd.gradcheck(run, weights, fast_mode=True)
