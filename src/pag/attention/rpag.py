"""rPAG: repeat the last alignment until the commitment switch turns on (paper, section 3.2.1, Algorithm 2)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.attention.base import Attention, Glimpse, Memory, Query, attend, masked_softmax
from pag.attention.commitment import Commitment, CommitmentPlan
from pag.config import AttentionSettings
from pag.ops.look import fast
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
        decision, commitment = self.commitment.step(query.state, state.context, state.commitment, noise, held)
        if torch.is_grad_enabled():
            switch = decision.switch[:, None]
            alignment = switch * self.look(query, memory) + (1 - switch) * state.alignment  # α_t
            context = attend(alignment, memory)  # ψ_t
        else:
            alignment, context = self.look_where(decision.switch > 0, query, memory, state)
        glimpse = Glimpse(alignment, context, decision.switch, decision.soft, commitment.penalised, decision.log_prob)
        return glimpse, Repeat(alignment, commitment, context)

    def look(self, query: Query, memory: Memory) -> Tensor:
        """softmax over w·tanh(W_h h_j + W_y y + W_s s_{t-1}) [B, S]."""
        return masked_softmax(self.score(self.energy(query, memory).tanh_())[..., 0], memory.mask)

    def look_where(self, switch: Tensor, query: Query, memory: Memory, state: Repeat) -> tuple[Tensor, Tensor]:
        """At inference a row whose switch is off computes neither scores nor a context: it keeps both."""
        if fast(query.state):
            return self.look_on_gpu(switch, query, memory, state)
        rows = switch.nonzero()[:, 0]
        if not len(rows):
            return state.alignment, state.context
        looking = memory.of_rows(rows, len(switch))
        fresh = self.look(query.select(rows), looking)
        alignment = state.alignment.index_copy(0, rows, fresh.to(state.alignment.dtype))
        return alignment, state.context.index_copy(0, rows, attend(fresh, looking).to(state.context.dtype))

    def look_on_gpu(self, switch: Tensor, query: Query, memory: Memory, state: Repeat) -> tuple[Tensor, Tensor]:
        """The same without asking the GPU which rows these are: the kernel passes the others over."""
        from pag.ops.look.kernel import score

        scores = score(memory.keys, self.moving(query), self.score.weight, memory.mask, switch)
        fresh = masked_softmax(scores, memory.mask)
        alignment = torch.where(switch[:, None], fresh, state.alignment)
        return alignment, attend(alignment, memory).to(state.context.dtype)
