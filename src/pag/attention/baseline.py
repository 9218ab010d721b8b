"""Plain attention: the scores are computed anew at every step (Bahdanau et al.; the paper's baseline)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.attention.base import Attention, Glimpse, Memory, Products, Query, attend, masked_softmax
from pag.config import AttentionSettings
from pag.ops.look import score
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
        return self.look(self.project(query, state), memory, state, noise, held)

    def project(self, query: Query, state: Nothing) -> Products:
        return Products(self.moving(query))

    def look(
        self, products: Products, memory: Memory, state: Nothing, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, Nothing]:
        alignment = masked_softmax(self.scores(products, memory), memory.mask)
        return Glimpse(alignment, attend(alignment, memory)), state

    def scores(self, products: Products, memory: Memory) -> Tensor:
        """w·tanh(W_h h_j + W_y y + W_s s_{t-1}) [B, S]."""
        if torch.is_grad_enabled():
            return self.score(self.energy(products, memory).tanh_())[..., 0]
        return score(memory.keys, products.energy, self.score.weight, memory.mask, None)
