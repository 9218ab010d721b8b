"""Small layers that the model shares, and how weights are drawn."""

import math

import torch
from torch import Tensor, nn


def norm(size: int, on: bool) -> nn.Module:
    """Layer normalisation when the recipe asks for it, else nothing."""
    return nn.LayerNorm(size) if on else nn.Identity()


class GRUCell(nn.Module):
    """A GRU step whose reset gate multiplies the projected state, as in cuDNN.

    With layer normalisation each of the three parts (reset, update, candidate) of the input's
    and of the state's projection is normalised on its own.
    """

    def __init__(self, inputs: int, size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.size = size
        self.input = nn.Linear(inputs, 3 * size)
        self.state = nn.Linear(size, 3 * size)
        self.input_norm = GateNorm(size) if layer_norm else nn.Identity()
        self.state_norm = GateNorm(size) if layer_norm else nn.Identity()

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        return self.mix(self.input(inputs), self.state(state), state)

    def mix(self, of_input: Tensor, of_state: Tensor, state: Tensor) -> Tensor:
        """The step, given what the weights make of the input and of the state [B, 3d]."""
        d, of_input, of_state = self.size, self.input_norm(of_input), self.state_norm(of_state)
        reset, update = (of_input[..., : 2 * d] + of_state[..., : 2 * d]).sigmoid_().split(d, -1)
        candidate = torch.addcmul(of_input[..., 2 * d :], reset, of_state[..., 2 * d :]).tanh_()
        return torch.lerp(candidate.to(state.dtype), state, update.to(state.dtype))


class GateNorm(nn.Module):
    """Layer normalisation of each of a GRU's three parts on its own."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.ones(3, size))
        self.bias = nn.Parameter(torch.zeros(3, size))

    def forward(self, x: Tensor) -> Tensor:
        parts = nn.functional.layer_norm(x.unflatten(-1, (3, self.size)), (self.size,))
        return (parts * self.weight + self.bias).flatten(-2)


def initialise(model: nn.Module, scale: float | str, generator: torch.Generator) -> None:
    """Draw every weight: normal with deviation 1/√fan-in ("fan_in") or a fixed `scale`; biases zero.

    An embedding looks one row up, so its fan-in is 1.
    Afterwards each module with a `reset` method sets the biases it starts from.
    """
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | GateNorm):
            continue
        for weight in module.parameters(recurse=False):
            if weight.dim() < 2:
                nn.init.zeros_(weight)
            else:
                fan_in = 1 if isinstance(module, nn.Embedding) else weight.shape[-1]
                deviation = 1 / math.sqrt(fan_in) if scale == "fan_in" else float(scale)
                nn.init.normal_(weight, 0.0, deviation, generator=generator)
    for module in model.modules():
        reset = getattr(module, "reset", None)
        if reset is not None:
            reset()
