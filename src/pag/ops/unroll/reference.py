"""The decoder's teacher-forced pass as a plain loop: what every faster one must equal."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pag.attention.base import Glimpse, Memory
from pag.decoder import Decoder
from pag.state import State, stack


@dataclass(frozen=True)
class Trace(State):
    """All steps of one pass; what the readout and the losses need."""

    lower: Tensor  # s' [B, T, d]
    upper: Tensor  # s [B, T, d]
    glimpses: Glimpse  # alignment [B, T, S], context [B, T, 2·enc], …


def unroll(
    decoder: Decoder,
    tokens: Tensor,
    memory: Memory,
    noise: Tensor | None = None,
    held: bool = False,
    record: bool = False,
) -> Trace:
    """Run the decoder over `tokens` [B, T, e], the embeddings of the outputs before each step.

    `noise` [B, T, k] is Gumbel noise. `record` keeps the plans and gates of every step too.
    Targets are padded at their end, so no step that counts ever sees a state from padding.
    """
    state = decoder.start(memory)
    lower, upper, glimpses = [], [], []
    for t in range(tokens.shape[1]):
        glimpse, state = decoder.step(tokens[:, t], memory, state, None if noise is None else noise[:, t], held)
        lower.append(state.lower)
        upper.append(state.upper)
        glimpses.append(glimpse if record else replace(glimpse, plan=None, gate=None))
    return Trace(torch.stack(lower, 1), torch.stack(upper, 1), stack(glimpses))
