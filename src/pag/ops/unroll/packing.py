"""What both fast passes share: everything that does not depend on the loop, computed before it.

The decoder's step multiplies four things by weights: the upper state, the lower state, the
context, and the plan. All products of one of them are packed into one matrix, and the products
of the target tokens and of the annotations leave the loop altogether. This part is ordinary
PyTorch, so autograd carries the gradients from here to the parameters.
"""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pag.attention.base import Attention, Glimpse, Memory
from pag.attention.baseline import BaselineAttention
from pag.attention.commitment import CommitmentPlan
from pag.attention.pag import PlanningAttention
from pag.attention.rpag import RepeatAttention
from pag.decoder import Decoder
from pag.layers import GateNorm
from pag.ops.unroll.reference import Trace
from pag.state import State

KINDS: dict[type[Attention], str] = {
    BaselineAttention: "baseline",
    PlanningAttention: "pag",
    RepeatAttention: "rpag",
}


@dataclass(frozen=True)
class Layout:
    """What the loop must know besides numbers: which variant, and where each product's columns lie."""

    kind: str  # baseline, pag or rpag
    rows: int  # B
    positions: int  # S
    steps: int  # T
    annotations: int  # 2·enc
    energy: int  # a
    units: int  # d
    k: int  # steps planned ahead; 0 without a commitment
    plans_from: str
    context_columns: int  # how many columns of the context's product the *next* step's planner reads
    learned: bool  # is τ_t learned (and used)?
    fixed: float  # else this inverse temperature
    reinforce: bool
    held: bool
    layer_norm: bool

    @property
    def planner(self) -> int:
        """First column of the planner's part in the product of the state that plans."""
        return 3 * self.units if self.plans_from == "upper" else 6 * self.units

    @property
    def planner_columns(self) -> list[int]:
        """How many columns of the planner's part are W_s s, then W_us s (PAG), f_c's logits, and τ_t."""
        of_gate = [self.k] if self.kind == "pag" else []
        return [self.energy, *of_gate, *([self.k] if self.k else []), *([1] if self.learned else [])]


@dataclass(frozen=True)
class Packed(State):
    """Every tensor the loop reads and differentiates."""

    annotations: Tensor  # h [B, S, 2·enc]
    keys: Tensor  # W_h h + b [B, S, a]
    token_energy: Tensor  # W_y y [T, B, a]
    token_lower: Tensor  # the tokens' part of the lower GRU's input, bias included [T, B, 3d]
    lower: Tensor  # s'_0 [B, d]
    upper: Tensor  # s_0 [B, d]
    from_upper: Tensor  # rows: U of the upper GRU, planner [·, d]
    from_upper_bias: Tensor
    from_lower: Tensor  # rows: upper GRU's input, U of the lower GRU, planner [·, d]
    from_lower_bias: Tensor
    from_context: Tensor  # rows: lower GRU's input, upper GRU's input, planner [·, 2·enc]
    head: Tensor  # W_p [k, a], or w [1, a]
    head_bias: Tensor | None = None  # b_p [k]
    gate_keys: Tensor | None = None  # W_uh h + b [B, S, k]
    read: Tensor | None = None  # W_r [r, k]
    read_bias: Tensor | None = None
    summary: Tensor | None = None  # W_β [a, r]
    lower_input_norm: Tensor | None = None  # weight and bias [2, 3, d]
    lower_state_norm: Tensor | None = None
    upper_input_norm: Tensor | None = None
    upper_state_norm: Tensor | None = None
    state_norm: Tensor | None = None  # [2, 1, a]
    gate_norm: Tensor | None = None  # [2, 1, k]
    commitment_norm: Tensor | None = None  # [2, 1, k]
    read_norm: Tensor | None = None  # [2, 1, r]

    def names(self) -> list[str]:
        return [f.name for f in fields(self)]

    def tensors(self) -> list[Tensor | None]:
        return [getattr(self, name) for name in self.names()]


@dataclass(frozen=True)
class Steps(State):
    """What the loop gives, time first; `Trace` is this with rows first."""

    lower: Tensor  # [T, B, d]
    upper: Tensor  # [T, B, d]
    context: Tensor  # [T, B, 2·enc]
    alignment: Tensor  # [T, B, S]
    switch: Tensor | None = None  # [T, B]
    soft: Tensor | None = None  # [T, B, k]
    penalised: Tensor | None = None  # [T, B, k]
    log_prob: Tensor | None = None  # [T, B]

    def trace(self) -> Trace:
        rows_first = self.map(lambda x: x.transpose(0, 1))
        glimpses = Glimpse(
            rows_first.alignment,
            rows_first.context,
            rows_first.switch,
            rows_first.soft,
            rows_first.penalised,
            rows_first.log_prob,
        )
        return Trace(rows_first.lower, rows_first.upper, glimpses)


def describe(decoder: Decoder, tokens: Tensor, memory: Memory, held: bool) -> Layout:
    attention = decoder.attention
    settings = attention.settings
    plan = committed(attention)
    rows, positions, annotations = memory.annotations.shape
    context = getattr(attention, "gate_context", None) or (plan.context if plan else None)
    return Layout(
        KINDS[type(attention)],
        rows,
        positions,
        tokens.shape[1],
        annotations,
        attention.size,
        decoder.lower.size,
        settings.k if plan else 0,
        settings.plans_from,
        settings.k if context is not None else 0,
        tempered(plan),
        plan.fixed if plan else 1.0,
        settings.estimator == "reinforce",
        held,
        isinstance(decoder.lower.input_norm, GateNorm),
    )


def pack(decoder: Decoder, tokens: Tensor, memory: Memory) -> Packed:
    """Hoist and concatenate. Gradients reach the parameters, `tokens` and `memory` through here."""
    attention = decoder.attention
    time_first = tokens.transpose(0, 1)
    lower_input, upper_input = decoder.lower.input, decoder.upper.input
    token, units = tokens.shape[-1], decoder.lower.size
    start = decoder.start(memory)
    planner = planner_rows(attention)
    nothing: list[tuple[Tensor, Tensor | None]] = []
    from_upper = planner if attention.settings.plans_from == "upper" else nothing
    from_lower = nothing if attention.settings.plans_from == "upper" else planner
    upper_weight, upper_bias = joined([rows_of(decoder.upper.state), *from_upper])
    lower_weight, lower_bias = joined(
        [(upper_input.weight[:, :units], upper_input.bias), rows_of(decoder.lower.state), *from_lower]
    )
    packed = Packed(
        memory.annotations,
        memory.keys,
        attention.token(time_first),
        F.linear(time_first, lower_input.weight[:, :token], lower_input.bias),
        start.lower,
        start.upper,
        upper_weight,
        upper_bias,
        lower_weight,
        lower_bias,
        torch.cat([lower_input.weight[:, token:], upper_input.weight[:, units:], *context_rows(attention)]),
        head(attention).weight,
    )
    return replace(packed, **planning(attention, memory), **norms(decoder))


def rows_of(linear: nn.Linear) -> tuple[Tensor, Tensor | None]:
    return linear.weight, linear.bias


def joined(parts: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor]:
    """Weights below one another, with zeros for the biases that are not there."""
    biases = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in parts]
    return torch.cat([weight for weight, _ in parts]), torch.cat(biases)


def planner_rows(attention: Attention) -> list[tuple[Tensor, Tensor | None]]:
    """Every product of the state that plans: W_s, then W_us, f_c and τ where there are."""
    rows = [rows_of(attention.state)]
    if isinstance(attention, PlanningAttention):
        rows.append(rows_of(attention.gate_state))
    plan = committed(attention)
    if plan is not None:
        rows.append(rows_of(plan.state))
        if tempered(plan):
            assert plan.temperature is not None
            rows.append(rows_of(plan.temperature))
    return rows


def context_rows(attention: Attention) -> list[Tensor]:
    """W_uψ (PAG) or the commitment's own (rPAG)."""
    if isinstance(attention, PlanningAttention):
        return [] if attention.gate_context is None else [attention.gate_context.weight]
    plan = committed(attention)
    return [] if plan is None or plan.context is None else [plan.context.weight]


def head(attention: Attention) -> nn.Linear:
    linear = attention.candidate if isinstance(attention, PlanningAttention) else attention.score
    assert isinstance(linear, nn.Linear)
    return linear


def committed(attention: Attention) -> CommitmentPlan | None:
    plan = getattr(attention, "commitment", None)
    assert plan is None or isinstance(plan, CommitmentPlan)
    return plan


def tempered(plan: CommitmentPlan | None) -> bool:
    """Is τ_t learned? Under REINFORCE, which draws from softmax(l_t) itself, there is none."""
    return plan is not None and plan.temperature is not None


def planning(attention: Attention, memory: Memory) -> dict[str, Tensor]:
    if not isinstance(attention, PlanningAttention):
        return {}
    return {
        "head_bias": attention.candidate.bias,
        "gate_keys": attention.gate_annotation(memory.annotations),
        "read": attention.read.weight,
        "read_bias": attention.read.bias,
        "summary": attention.summary.weight,
    }


def norms(decoder: Decoder) -> dict[str, Tensor]:
    """Weight and bias of each layer normalisation there is, stacked [2, parts, size]."""
    attention = decoder.attention
    plan = committed(attention)
    there = {
        "lower_input_norm": decoder.lower.input_norm,
        "lower_state_norm": decoder.lower.state_norm,
        "upper_input_norm": decoder.upper.input_norm,
        "upper_state_norm": decoder.upper.state_norm,
        "state_norm": attention.state_norm,
        "gate_norm": getattr(attention, "gate_norm", None),
        "commitment_norm": None if plan is None else plan.state_norm,
        "read_norm": getattr(attention, "read_norm", None),
    }
    return {
        name: torch.stack([norm.weight, norm.bias]).view(2, -1, norm.weight.shape[-1])
        for name, norm in there.items()
        if isinstance(norm, GateNorm | nn.LayerNorm)
    }
