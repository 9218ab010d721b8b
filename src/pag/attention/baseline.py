"""Plain attention: the scores are computed anew at every step (Bahdanau et al.; the paper's baseline)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.attention.base import Attention, Glimpse, Memory, Query, attend, masked_softmax
from pag.config import AttentionSettings
from pag.ops.look import fast
from pag.state import State


@dataclass(frozen=True)
class Nothing(State):
    """The baseline remembers nothing between steps."""


class BaselineAttention(Attention[Nothing]):
    replayable = True
    plans = False

    def __init__(
        self,
        annotations: int,
        state: int,
        token: int,
        settings: AttentionSettings | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(annotations, state, token, settings, layer_norm)
        self.score = nn.Linear(self.size, 1, bias=False)  # w

    def start(self, memory: Memory) -> Nothing:
        return Nothing()

    def step(
        self, query: Query, memory: Memory, state: Nothing, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, Nothing]:
        alignment = masked_softmax(self.scores(query, memory), memory.mask)
        return Glimpse(alignment, attend(alignment, memory)), state

    def scores(self, query: Query, memory: Memory) -> Tensor:
        """w·tanh(W_h h_j + W_y y + W_s s_{t-1}) [B, S]."""
        if fast(query.state):
            from pag.ops.look.kernel import score

            everyone = torch.ones(len(query.state), dtype=torch.bool, device=query.state.device)
            return score(memory.keys, self.moving(query), self.score.weight, memory.mask, everyone)
        return self.score(self.energy(query, memory).tanh_())[..., 0]
