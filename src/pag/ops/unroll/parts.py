"""The GRU layers and layer normalisations of the fused pass, each with its way back."""

import torch
from torch import Tensor

EPSILON = 1e-5  # as in torch.nn.LayerNorm


def flat(x: Tensor) -> Tensor:
    """All but the last dimension as one."""
    return x.reshape(-1, x.shape[-1])


class Norm:
    """Layer normalisation at every step, weight and bias [2, parts, size]; nothing where they are None.

    Each part of the last dimension is normalised on its own. The gradients of weight and bias are
    one sum after the loop.
    """

    def __init__(self, weights: Tensor | None, keep: bool) -> None:
        self.weights, self.keep = weights, keep
        self.saved: list[tuple[Tensor, Tensor]] = []  # normalised values and 1/deviation of each step
        self.given: list[Tensor] = []  # in the order of the way back

    def step(self, x: Tensor) -> Tensor:
        if self.weights is None:
            return x
        parts = x.unflatten(-1, self.weights.shape[1:])
        deviation, mean = torch.var_mean(parts, -1, correction=0, keepdim=True)
        scale = deviation.add_(EPSILON).rsqrt_()
        parts = (parts - mean).mul_(scale)
        if self.keep:
            self.saved.append((parts, scale))
        return torch.addcmul(self.weights[1], parts, self.weights[0]).flatten(-2)

    def back(self, t: int, given: Tensor) -> Tensor:
        """The gradient of step t's input; steps come last to first."""
        if self.weights is None:
            return given
        parts, scale = self.saved[t]
        given = given.unflatten(-1, self.weights.shape[1:])
        self.given.append(given.clone())
        inner = given * self.weights[0]
        along = (inner * parts).mean(-1, keepdim=True)
        inner = (inner - inner.mean(-1, keepdim=True)).addcmul_(parts, along, value=-1)
        return inner.mul_(scale).flatten(-2)

    def gradient(self) -> Tensor | None:
        """Of weight and bias [2, parts, size]."""
        if self.weights is None:
            return None
        given = torch.stack(self.given[::-1])
        parts = torch.stack([parts for parts, _ in self.saved])
        every = tuple(range(given.dim() - 2))
        self.given = []
        return torch.stack([(given * parts).sum(every), given.sum(every)])


class Cell:
    """One GRU layer over all steps. Reads `states[t]`, writes `states[t + 1]`.

    Large memory is taken once for all steps: on a CPU, fresh pages cost more than the arithmetic.
    """

    def __init__(self, states: Tensor, input_norm: Tensor | None, state_norm: Tensor | None, keep: bool) -> None:
        self.states, self.units, self.keep = states, states.shape[-1], keep
        self.input_norm, self.state_norm = Norm(input_norm, keep), Norm(state_norm, keep)
        self.plain = input_norm is None and state_norm is None
        steps, rows, d = len(states) - 1 if keep else 1, states.shape[1], self.units
        self.gates = states.new_empty(steps, rows, 2 * d)  # reset and update
        self.candidates = states.new_empty(steps, rows, d)
        self.projected = states.new_empty(steps, rows, d)  # what the reset gate multiplies
        self.state = states.unbind(0)  # every step's views at once: to ask for each costs as much as its arithmetic
        self.views = [x.unbind(0) for x in (self.gates, *self.gates.split(d, -1), self.candidates, self.projected)]
        self.prepared = False

    def step(self, t: int, inputs: Tensor, state: Tensor) -> None:
        sizes = (2 * self.units, self.units)
        gates, reset, update, candidate, projected = (of_steps[t if self.keep else 0] for of_steps in self.views)
        to_gates, to_candidate = self.input_norm.step(inputs).split(sizes, 1)
        of_gates, of_candidate = self.state_norm.step(state).split(sizes, 1)
        torch.add(to_gates, of_gates, out=gates).sigmoid_()
        torch.addcmul(to_candidate, reset, of_candidate, out=candidate).tanh_()
        projected.copy_(of_candidate)
        torch.lerp(candidate, self.state[t], update, out=self.state[t + 1])

    def prepare(self, d_inputs: Tensor, d_state: Tensor) -> None:
        """Where the gradients of every step's two projections go [T, B, 3d]."""
        if not self.prepared:
            self._factors()
        self.prepared = True
        self.into = [x.unbind(0) for x in (d_inputs, *d_inputs.split(self.units, -1))]
        self.below = [x.unbind(0) for x in (d_state, *d_state.split((2 * self.units, self.units), -1))]
        self.d_gates = d_inputs[..., : 2 * self.units].unbind(0)

    def _factors(self) -> None:
        """What the way back multiplies by, for all steps at once, in place of what it is made of."""
        reset, update = self.gates.split(self.units, -1)
        closed = 1 - update
        to_update = torch.sub(self.states[:-1], self.candidates).mul_(update).mul_(closed)
        to_candidate = self.candidates.square_().neg_().add_(1).mul_(closed)
        to_reset = self.projected.mul_(reset).mul_(torch.sub(1, reset, out=closed))
        self.views = [x.unbind(0) for x in (to_update, to_candidate, to_reset, reset, update)]

    def back(self, t: int, given: Tensor) -> Tensor:
        """Fills the gradients of step t's two projections; returns the one that goes straight to states[t]."""
        to_update, to_candidate, to_reset, reset, update = (of_steps[t] for of_steps in self.views)
        d_inputs, d_reset, d_update, d_candidate = (of_steps[t] for of_steps in self.into)
        d_state, d_gates, d_projected = (of_steps[t] for of_steps in self.below)
        torch.mul(given, to_update, out=d_update)
        torch.mul(given, to_candidate, out=d_candidate)
        torch.mul(d_candidate, to_reset, out=d_reset)
        d_gates.copy_(self.d_gates[t])
        torch.mul(d_candidate, reset, out=d_projected)
        if not self.plain:
            d_inputs.copy_(self.input_norm.back(t, d_inputs))
            d_state.copy_(self.state_norm.back(t, d_state))
        return given * update

    def gradients(self, name: str) -> dict[str, Tensor]:
        found = {f"{name}_input_norm": self.input_norm.gradient(), f"{name}_state_norm": self.state_norm.gradient()}
        return {key: value for key, value in found.items() if value is not None}
