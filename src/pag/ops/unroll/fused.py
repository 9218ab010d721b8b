"""The decoder's teacher-forced pass as one differentiable operation, in plain PyTorch.

The same equations as `reference.py`, rearranged for speed: what does not depend on the loop is
computed before it (`packing.py`), each step makes three products instead of a dozen, the wide tanh
is recomputed in the backward pass instead of being kept for every step, and the weights'
gradients are one product after the loop. Runs wherever PyTorch runs.
"""

from typing import Any

import torch
from torch import Tensor

from pag.attention.base import Memory
from pag.decoder import Decoder
from pag.ops.unroll import reference
from pag.ops.unroll.contexts import contexts
from pag.ops.unroll.looks import LOOKS
from pag.ops.unroll.packing import Layout, Packed, Steps, describe, pack
from pag.ops.unroll.parts import Cell, flat
from pag.ops.unroll.reference import Trace
from pag.state import exact


def unroll(
    decoder: Decoder,
    tokens: Tensor,
    memory: Memory,
    noise: Tensor | None = None,
    held: bool = False,
    record: bool = False,
) -> Trace:
    """As `reference.unroll`. `record` asks for every step's plan and gate, which only a look at a
    model needs: the reference pass gives them."""
    if record:
        return reference.unroll(decoder, tokens, memory, noise, held, record)
    with torch.autocast(tokens.device.type, enabled=False):
        layout, kept = describe(decoder, tokens, memory, held), exact(tokens)
        packed = pack(decoder, tokens, memory).map(lambda x: x.to(kept))
        noise = None if noise is None else noise.transpose(0, 1).to(kept)
        steps = Steps(*Pass.apply(layout, packed.names(), memory.mask, noise, *packed.tensors()))
    return steps.trace()


class Pass(torch.autograd.Function):
    """The loop as autograd sees it: one node."""

    @staticmethod
    def forward(
        ctx: Any, layout: Layout, names: list[str], mask: Tensor, noise: Tensor | None, *tensors: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        packed = Packed(**dict(zip(names, tensors, strict=True)))  # type: ignore[arg-type]
        ctx.names, ctx.loop = names, Loop(layout, packed.map(Tensor.detach), mask, noise, any(ctx.needs_input_grad))
        return ctx.loop.forward()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        grads = ctx.loop.backward(Steps(*given))
        return (None, None, None, None, *(grads.get(name) for name in ctx.names))


class Loop:
    """One pass over all steps, and back. t counts from 0: step t reads states [t] and writes [t + 1]."""

    def __init__(self, layout: Layout, packed: Packed, mask: Tensor, noise: Tensor | None, keep: bool) -> None:
        self.layout, self.packed = layout, packed
        rows, steps, like = layout.rows, layout.steps, packed.upper
        self.lower = like.new_empty(steps + 1, rows, layout.units)  # s'
        self.upper = torch.empty_like(self.lower)  # s
        self.lower[0], self.upper[0] = packed.lower, packed.upper
        self.lower_cell = Cell(self.lower, packed.lower_input_norm, packed.lower_state_norm, keep)
        self.upper_cell = Cell(self.upper, packed.upper_input_norm, packed.upper_state_norm, keep)
        self.look = LOOKS[layout.kind](layout, packed, mask, noise, keep)
        self.contexts = contexts(layout, packed)
        # Columns lie apart in a step's gradients but together in its products: both orders are kept.
        self.down = [w.t().contiguous() for w in (packed.from_upper, packed.from_lower)]

    def forward(self) -> tuple[Tensor | None, ...]:
        layout, packed = self.layout, self.packed
        three, (from_upper, from_lower) = 3 * layout.units, self.down
        columns = layout.planner_columns
        of_upper, of_lower = ([*columns], []) if layout.plans_from == "upper" else ([], [*columns])
        in_context = [three, three, layout.context_columns]
        low = torch.addmm(packed.from_lower_bias, self.lower[0], from_lower)
        to_planner = self.upper.new_zeros(layout.rows, layout.context_columns)
        lower, upper, token = self.lower.unbind(0), self.upper.unbind(0), packed.token_lower.unbind(0)
        for t, alignment in enumerate(self.look.alignments):
            up_state, *planner = torch.addmm(packed.from_upper_bias, upper[t], from_upper).split([three, *of_upper], 1)
            _, low_state, *planner_below = low.split([three, three, *of_lower], 1)
            self.look.step(t, planner or planner_below, to_planner)
            to_lower, to_upper, to_planner = self.contexts.see(t, alignment).split(in_context, 1)
            self.lower_cell.step(t, token[t] + to_lower, low_state)
            low = torch.addmm(packed.from_lower_bias, lower[t + 1], from_lower)
            self.upper_cell.step(t, to_upper + low[:, :three], up_state)
        decisions = self.look.decisions()
        kept = [self.lower[1:], self.upper[1:], self.contexts.all(self.look.alignment), self.look.alignment]
        # Views would tie the outputs' graph to the buffers that the backward pass reads.
        return (*(x.clone() for x in kept), *decisions)

    def backward(self, given: Steps) -> dict[str, Tensor]:
        layout, packed = self.layout, self.packed
        three, steps = 3 * layout.units, layout.steps
        d_up = self.upper.new_empty(steps, layout.rows, len(packed.from_upper))
        d_low = self.upper.new_empty(steps + 1, layout.rows, len(packed.from_lower))
        d_seen = self.upper.new_empty(steps + 1, layout.rows, len(packed.from_context))
        for edge in (d_low[0], d_low[-1], d_seen[-1]):  # where a neighbouring step is missing
            edge.zero_()
        planned = d_up if layout.plans_from == "upper" else d_low[:-1]
        self.lower_cell.prepare(d_seen[1:, :, :three], d_low[:-1, :, three : 2 * three])
        self.upper_cell.prepare(d_low[1:, :, :three], d_up[..., :three])
        self.look.prepare(given, planned[..., layout.planner :], d_seen[:-1, :, 2 * three :])
        self.contexts.prepare(given)
        to_upper, from_low = d_seen[..., three : 2 * three].unbind(0), d_low[..., :three].unbind(0)
        ups, lows, seens = d_up.unbind(0), d_low.unbind(0), d_seen.unbind(0)
        given_lower, given_upper = given.lower.unbind(0), given.upper.unbind(0)
        d_upper, d_lower = given_upper[-1], torch.zeros_like(packed.lower)
        for t in reversed(range(steps)):
            d_upper = self.upper_cell.back(t, d_upper)
            to_upper[t + 1].copy_(from_low[t + 1])
            d_lower = (d_lower + given_lower[t]).addmm_(lows[t + 1], packed.from_lower)
            d_lower = self.lower_cell.back(t, d_lower)
            self.look.back(t, self.contexts.d_alignment(t, seens[t + 1]))
            d_upper.addmm_(ups[t], packed.from_upper)
            if t > 0:
                d_upper += given_upper[t - 1]
        d_lower = d_lower.addmm(d_low[0], packed.from_lower)
        return {
            "token_lower": d_seen[1:, :, :three],
            "lower": d_lower,
            "upper": d_upper,
            "from_upper": flat(d_up).t() @ flat(self.upper[:-1]),
            "from_upper_bias": d_up.sum((0, 1)),
            "from_lower": flat(d_low).t() @ flat(self.lower),
            "from_lower_bias": d_low.sum((0, 1)),
            **self.contexts.gradients(self.look.alignment, d_seen[1:]),
            **self.look.gradients(),
            **self.lower_cell.gradients("lower"),
            **self.upper_cell.gradients("upper"),
        }
