"""rPAG: repeat the last alignment until the commitment switch turns on (paper, section 3.2.1, Algorithm 2)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.attention.base import Attention, Glimpse, Memory, Products, Query, attend, masked_softmax
from pag.attention.commitment import Commitment, CommitmentPlan
from pag.config import AttentionSettings
from pag.ops.look import score
from pag.state import State, exact


@dataclass(frozen=True)
class Repeat(State):
    """What rPAG carries: one alignment, the commitment plan, the last context."""

    alignment: Tensor  # α_t [B, S]
    commitment: Commitment
    context: Tensor  # ψ_t [B, 2·enc]


class RepeatAttention(Attention[Repeat]):
    replayable = True

    def __init__(
        self,
        annotations: int,
        state: int,
        token: int,
        settings: AttentionSettings | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(annotations, state, token, settings, layer_norm)
        self.commitment = CommitmentPlan(state, annotations, self.settings, layer_norm)
        self.score = nn.Linear(self.size, 1, bias=False)  # w

    def start(self, memory: Memory) -> Repeat:
        rows, positions, size = memory.annotations.shape
        like = memory.annotations.to(exact(memory.annotations))
        nowhere = like.new_zeros(rows, positions)
        return Repeat(nowhere, self.commitment.start(like), like.new_zeros(rows, size))

    def step(
        self, query: Query, memory: Memory, state: Repeat, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, Repeat]:
        return self.look(self.project(query, state), memory, state, noise, held)

    def project(self, query: Query, state: Repeat) -> Products:
        return Products(self.moving(query), None, *self.commitment.project(query.state, state.context))

    def look(
        self, products: Products, memory: Memory, state: Repeat, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, Repeat]:
        assert products.logits is not None
        decision, commitment = self.commitment.decide(
            products.logits, products.temperature, state.commitment, noise, held
        )
        if torch.is_grad_enabled():
            switch = decision.switch[:, None]
            alignment = switch * self.fresh(products, memory) + (1 - switch) * state.alignment  # α_t
        else:
            alignment = self.look_where(decision.switch > 0, products, memory, state)
        context = attend(alignment, memory)  # ψ_t
        glimpse = Glimpse(alignment, context, decision.switch, decision.soft, commitment.penalised, decision.log_prob)
        return glimpse, Repeat(alignment, commitment, context)

    def fresh(self, products: Products, memory: Memory) -> Tensor:
        """softmax over w·tanh(W_h h_j + W_y y + W_s s_{t-1}) [B, S]."""
        return masked_softmax(self.score(self.energy(products, memory).tanh_())[..., 0], memory.mask)

    def look_where(self, switch: Tensor, products: Products, memory: Memory, state: Repeat) -> Tensor:
        """At inference a row whose switch is off computes no scores: it keeps its alignment."""
        scores = score(memory.keys, products.energy, self.score.weight, memory.mask, switch)
        return torch.where(switch[:, None], masked_softmax(scores, memory.mask), state.alignment)
