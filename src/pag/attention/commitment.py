"""The commitment plan: when to re-plan and when to follow (paper, section 3.2; Algorithms 1 and 2)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pag.config import AttentionSettings
from pag.layers import norm
from pag.state import State, exact

FREED = -10.0  # the logit of a slot freed by shifting: the paper's "appended 0", as a logit
TEMPERATURE_BIAS = -1.8


@dataclass(frozen=True)
class Commitment(State):
    """What the commitment carries from one step to the next."""

    logits: Tensor  # l_t [B, k]
    recompute: Tensor  # c̄_t[0]: does the next step recompute the logits? [B]
    penalised: Tensor  # the soft commitment of the last step that recomputed [B, k]
    first: Tensor  # has no step been taken yet? [B]


@dataclass(frozen=True)
class Decision(State):
    """One step's choice."""

    switch: Tensor  # g_t [B]
    soft: Tensor  # c_t [B, k]
    log_prob: Tensor  # log p(c̄_t) [B]


class CommitmentPlan(nn.Module):
    """f_c, the learned temperature, and the straight-through (or sampled) choice."""

    def __init__(self, state: int, context: int, settings: AttentionSettings, layer_norm: bool) -> None:
        """`context` is the size of ψ_{t-1} where f_c sees it (rPAG), else 0."""
        super().__init__()
        self.k = settings.k
        self.estimator = settings.estimator
        self.state = nn.Linear(state, self.k)
        self.state_norm = norm(self.k, layer_norm)
        self.context = nn.Linear(context, self.k, bias=False) if context else None
        learned = settings.temperature == "learned" and self.estimator == "gumbel"
        self.temperature = nn.Linear(state, 1) if learned else None
        self.fixed = 1.0 if settings.temperature == "learned" else 1.0 / float(settings.temperature)
        self.reset()

    def reset(self) -> None:
        if self.temperature is not None:
            nn.init.constant_(self.temperature.bias, TEMPERATURE_BIAS)

    def start(self, like: Tensor) -> Commitment:
        """c̄_0 = ones: the first step recomputes, and its switch is on."""
        on = torch.ones(len(like), dtype=torch.bool, device=like.device)
        zeros = like.new_zeros(len(like), self.k)
        return Commitment(zeros, on, zeros, on)

    def step(
        self, state: Tensor, context: Tensor | None, carried: Commitment, noise: Tensor | None, held: bool
    ) -> tuple[Decision, Commitment]:
        return self.decide(*self.project(state, context), carried, noise, held)

    def project(self, state: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """f_c [B, k], and what τ_t is the softplus of [B, 1] where it is learned."""
        return self.logits(state, context), None if self.temperature is None else self.temperature(state)

    def decide(
        self, fresh: Tensor, temperature: Tensor | None, carried: Commitment, noise: Tensor | None, held: bool
    ) -> tuple[Decision, Commitment]:
        """The step, given f_c(s_{t-1}) [B, k] and what τ_t is the softplus of [B, 1]."""
        recompute = carried.recompute[:, None]
        logits = torch.where(recompute, fresh, shift(carried.logits, FREED))  # l_t
        perturbed = logits if noise is None else logits + noise
        soft = self.soft(perturbed, logits, temperature)  # c_t
        choice = perturbed.argmax(-1)  # where c̄_t is 1
        log_prob = logits.log_softmax(-1).gather(-1, choice[:, None])[:, 0]
        renew = choice == 0
        decision = Decision(self.switch(renew, soft, carried.first, held), soft, log_prob)
        penalised = torch.where(recompute, soft, carried.penalised)
        return decision, Commitment(logits, renew, penalised, torch.zeros_like(carried.first))

    def logits(self, state: Tensor, context: Tensor | None) -> Tensor:
        """f_c(s_{t-1}) or, for rPAG, f_c(s_{t-1}, ψ_{t-1}) [B, k]."""
        logits = self.state_norm(self.state(state))
        if self.context is not None:
            logits = logits + self.context(context)
        return logits.to(exact(state))

    def soft(self, perturbed: Tensor, logits: Tensor, temperature: Tensor | None) -> Tensor:
        """c_t = softmax((l_t + noise) · τ_t). Under REINFORCE the choice is drawn from softmax(l_t) itself."""
        if self.estimator == "reinforce":
            return logits.softmax(-1)
        if temperature is None:
            return (perturbed * self.fixed).softmax(-1)
        inverse = F.softplus(temperature) + 1.001  # τ_t [B, 1]
        return (perturbed * inverse).softmax(-1)

    def switch(self, renew: Tensor, soft: Tensor, first: Tensor, held: bool) -> Tensor:
        """g_t = c̄_t[0]; the gradient is that of c_t[0] (straight-through). g_1 = 1, and a held switch is 1."""
        chosen = renew.to(soft.dtype)
        if self.estimator == "gumbel":
            chosen = chosen + (soft[:, 0] - soft[:, 0].detach())
        return torch.ones_like(chosen) if held else torch.where(first, torch.ones_like(chosen), chosen)


def shift(rows: Tensor, fill: float) -> Tensor:
    """ρ: every entry of dimension 1 moves one step forward, the last becomes `fill`."""
    return torch.cat([rows[:, 1:], torch.full_like(rows[:, :1], fill)], 1)


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform draws in [0, 1)."""
    tiny = torch.finfo(uniform.dtype).tiny
    exponential = -torch.log(uniform.clamp_min(tiny))
    return -torch.log(exponential.clamp_min(tiny))
