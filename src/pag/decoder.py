"""The decoder: two GRU layers around an attention (paper, equation 1 and Figure 1)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.attention.base import Attention, Glimpse, Memory, Query
from pag.layers import GRUCell
from pag.state import State, exact


@dataclass(frozen=True)
class DecoderState(State):
    lower: Tensor  # s'_t [B, d]
    upper: Tensor  # s_t [B, d]
    attention: State


class Decoder(nn.Module):
    """Plan and attend, then generate: ψ_t from the attention, s'_t and s_t from two GRUs."""

    def __init__(
        self, attention: Attention, annotations: int, token: int, size: int, layer_norm: bool, answer: int = 0
    ) -> None:
        super().__init__()
        self.attention = attention
        self.start_lower = nn.Linear(annotations + answer, size)  # W_1, b_1
        self.start_upper = nn.Linear(annotations + answer, size)  # W_2, b_2
        self.lower = GRUCell(token + annotations, size, layer_norm)
        self.upper = GRUCell(size + annotations, size, layer_norm)

    def start(self, memory: Memory) -> DecoderState:
        """s'_0 and s_0 from the mean annotation, and from the answer where one is marked."""
        real = memory.mask[..., None].to(memory.annotations.dtype)
        mean = (memory.annotations * real).sum(1) / real.sum(1)  # h̄ [B, 2·enc]
        if memory.answer is not None:
            mean = torch.cat([mean, memory.answer.to(mean.dtype)], -1)
        kept = exact(mean)
        lower, upper = torch.tanh(self.start_lower(mean)).to(kept), torch.tanh(self.start_upper(mean)).to(kept)
        return DecoderState(lower, upper, self.attention.start(memory))

    def step(
        self, token: Tensor, memory: Memory, state: DecoderState, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, DecoderState]:
        """One output step, given the embedding `token` of the output before it [B, e]."""
        planner = state.upper if self.attention.settings.plans_from == "upper" else state.lower
        glimpse, attention = self.attention.step(Query(planner, token), memory, state.attention, noise, held)
        context = glimpse.context.to(token.dtype)
        lower = self.lower(torch.cat([token, context], -1), state.lower)  # s'_t
        upper = self.upper(torch.cat([lower.to(token.dtype), context], -1), state.upper)  # s_t
        return glimpse, DecoderState(lower, upper, attention)
