"""The same bidirectional GRU for the CPU: both directions in one loop, gradients by hand.

PyTorch's packed GRU fills a whole gradient with zeros at every step of its backward pass. Here the
input's products leave the loop, each sentence is turned round within its length so that padding
always comes last, and the weights' gradients are one product after the loop.
"""

from typing import Any

import torch
from torch import Tensor, nn

from pag.data.batch import mask


def encode(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """inputs [B, S, e] → [B, S, 2·enc]; positions past a sentence's end are zero."""
    there_and_back = torch.stack([inputs, turn(inputs, lengths)]).transpose(1, 2)  # [2, S, B, e]
    of_input, input_bias = _pair(gru, "weight_ih"), _pair(gru, "bias_ih")
    projected = torch.einsum("dsbe,dge->sdbg", there_and_back, of_input) + input_bias[:, None]  # [S, 2, B, 3·enc]
    states: Tensor = BothWays.apply(projected, _pair(gru, "weight_hh"), _pair(gru, "bias_hh"))  # [S, 2, B, enc]
    ahead, back = states.permute(1, 2, 0, 3)
    joined = torch.cat([ahead, turn(back, lengths)], -1)
    return joined * mask(lengths, inputs.shape[1]).to(joined.device)[..., None]


def turn(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sentence [B, S, …] in reverse, its padding left at the end."""
    places = torch.arange(x.shape[1], device=x.device)
    lengths = lengths.to(x.device)[:, None]
    order = torch.where(places < lengths, lengths - 1 - places, places)
    return x.gather(1, order[..., None].expand_as(x))


def _pair(gru: nn.GRU, name: str) -> Tensor:
    """Both directions' weights, stacked."""
    return torch.stack([getattr(gru, f"{name}_l0"), getattr(gru, f"{name}_l0_reverse")])


class BothWays(torch.autograd.Function):
    """h_s = GRU(x_s, h_{s-1}) in both directions at once; x comes projected."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        steps, _, rows, gates = projected.shape
        units = gates // 3
        states = projected.new_zeros(steps + 1, 2, rows, units)  # h_0 = 0
        opened = projected.new_empty(steps, 2, rows, 2 * units)  # r and z
        from_state = projected.new_empty(steps, 2, rows, units)  # the candidate's part from h
        candidates = projected.new_empty(steps, 2, rows, units)
        across, added = weight.transpose(1, 2), bias[:, None]
        for s in range(steps):
            products = torch.baddbmm(added, states[s], across)
            torch.add(projected[s, ..., : 2 * units], products[..., : 2 * units], out=opened[s]).sigmoid_()
            from_state[s] = products[..., 2 * units :]
            reset, update = opened[s].chunk(2, -1)
            torch.addcmul(projected[s, ..., 2 * units :], reset, from_state[s], out=candidates[s]).tanh_()
            torch.lerp(candidates[s], states[s], update, out=states[s + 1])
        ctx.save_for_backward(weight, states, opened, from_state, candidates)
        return states[1:]

    @staticmethod
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight, states, opened, from_state, candidates = ctx.saved_tensors
        steps, _, rows, units = candidates.shape
        d_projected = d_states.new_empty(steps, 2, rows, 3 * units)
        d_products = torch.empty_like(d_projected)
        reset, update = opened.chunk(2, -1)
        slope_reset, slope_update = reset * (1 - reset), update * (1 - update)
        slope_candidate = (1 - candidates * candidates) * (1 - update)
        to_update = (states[:-1] - candidates) * slope_update
        d_state = torch.zeros_like(d_states[0])
        for s in range(steps - 1, -1, -1):
            d_state = d_state + d_states[s]
            d_candidate = d_state * slope_candidate[s]
            d_projected[s, ..., 2 * units :] = d_candidate
            torch.mul(d_candidate, reset[s], out=d_products[s, ..., 2 * units :])
            torch.mul(d_state, to_update[s], out=d_products[s, ..., units : 2 * units])
            d_products[s, ..., :units] = d_candidate * from_state[s] * slope_reset[s]
            d_state = torch.baddbmm(d_state * update[s], d_products[s], weight)
        d_projected[..., : 2 * units] = d_products[..., : 2 * units]
        flat = d_products.permute(1, 3, 0, 2).flatten(2)  # [2, 3·enc, S·B]
        d_weight = torch.bmm(flat, states[:-1].transpose(0, 1).flatten(1, 2))
        return d_projected, d_weight, flat.sum(2)
