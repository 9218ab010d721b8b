"""PAG: plan, attend, generate (paper, section 3.2 and Algorithm 1)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pag.attention.base import Attention, Glimpse, Memory, Products, Query, at_positions, attend, masked_softmax
from pag.attention.commitment import Commitment, CommitmentPlan, shift
from pag.config import AttentionSettings
from pag.layers import norm
from pag.ops.look import replan
from pag.state import State, exact


@dataclass(frozen=True)
class Plan(State):
    """What PAG carries: the alignment plan, the commitment plan, the last context."""

    plan: Tensor  # A_t [B, k, S]
    commitment: Commitment
    context: Tensor  # ψ_t [B, 2·enc], zeros before the first step


class PlanningAttention(Attention[Plan]):
    """Keeps k future alignments and, at each step, follows them or re-plans."""

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
        k, read = self.settings.k, self.settings.read_size
        self.commitment = CommitmentPlan(state, 0, self.settings, layer_norm)
        self.read = nn.Linear(k, read)  # W_r
        self.read_norm = norm(read, layer_norm)
        self.summary = nn.Linear(read, self.size, bias=False)  # W_β
        self.candidate = nn.Linear(self.size, k)  # W_p
        self.gate_annotation = nn.Linear(annotations, k)  # W_uh
        self.gate_state = nn.Linear(state, k, bias=False)  # W_us
        self.gate_norm = norm(k, layer_norm)
        self.gate_context = nn.Linear(annotations, k, bias=False) if self.settings.gate_context else None  # W_uψ
        self.reset()

    def reset(self) -> None:
        """The gate starts open, so that the untrained model takes its candidate, as the baseline does."""
        nn.init.constant_(self.gate_annotation.bias, self.settings.gate_bias)

    def prepare(self, annotations: Tensor, mask: Tensor) -> Memory:
        return replace(super().prepare(annotations, mask), gate=self.gate_annotation(annotations))

    def start(self, memory: Memory) -> Plan:
        rows, positions, size = memory.annotations.shape
        like = memory.annotations.to(exact(memory.annotations))
        plan = like.new_ones(rows, self.settings.k, positions)  # A_0
        return Plan(plan, self.commitment.start(like), like.new_zeros(rows, size))

    def step(
        self, query: Query, memory: Memory, state: Plan, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, Plan]:
        return self.look(self.project(query, state), memory, state, noise, held)

    def project(self, query: Query, state: Plan) -> Products:
        gate = self.gate_moving(query, state)
        return Products(self.moving(query), gate, *self.commitment.project(query.state, None))

    def look(
        self, products: Products, memory: Memory, state: Plan, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, Plan]:
        assert products.logits is not None
        decision, commitment = self.commitment.decide(
            products.logits, products.temperature, state.commitment, noise, held
        )
        if torch.is_grad_enabled():
            renewed, gate = self.replan(products, memory, state)
            switch = decision.switch[:, None, None]
            plan = switch * renewed + (1 - switch) * shift(state.plan, 0.0)  # A_t
        else:
            plan, gate = self.replan_where(decision.switch > 0, products, memory, state)
        alignment = masked_softmax(plan[:, 0], memory.mask)  # α_t
        context = attend(alignment, memory)  # ψ_t
        glimpse = Glimpse(
            alignment, context, decision.switch, decision.soft, commitment.penalised, decision.log_prob, plan, gate
        )
        return glimpse, Plan(plan, commitment, context)

    def replan(self, products: Products, memory: Memory, state: Plan) -> tuple[Tensor, Tensor]:
        """(1 − u) ⊙ A_{t-1} + u ⊙ Ā, and u [B, k, S]."""
        assert products.gate is not None
        beta = torch.tanh(self.read_norm(self.read(state.plan.transpose(1, 2))))  # β_j [B, S, r]
        hidden = self.energy(products, memory).add_(self.summary(beta)).tanh_()
        candidate = self.candidate(hidden).transpose(1, 2)  # Ā_t
        gate = torch.sigmoid(at_positions(self.gate_keys(memory), products.gate)).transpose(1, 2)  # u_t
        return state.plan + gate * (candidate - state.plan), gate

    def gate_keys(self, memory: Memory) -> Tensor:
        """W_uh h_j [N, S, k], from the memory where `prepare` made it."""
        return self.gate_annotation(memory.annotations) if memory.gate is None else memory.gate

    def gate_moving(self, query: Query, state: Plan) -> Tensor:
        """W_us s_{t-1} + W_uψ ψ_{t-1} [B, k]."""
        moving = self.gate_norm(self.gate_state(query.state))
        return moving if self.gate_context is None else moving + self.gate_context(state.context)

    def replan_where(self, switch: Tensor, products: Products, memory: Memory, state: Plan) -> tuple[Tensor, Tensor]:
        """At inference only the rows that re-plan pay for it; a row that follows shows a closed gate."""
        assert products.gate is not None
        return replan(
            state.plan, memory.keys, products.energy, self.gate_keys(memory), products.gate, memory.mask, switch,
            self.read, self.read_norm, self.summary.weight, self.candidate,
        )  # fmt: skip
