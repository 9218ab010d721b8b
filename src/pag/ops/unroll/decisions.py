"""The commitment without its loop: only which slot is chosen must be known step by step.

From the logits of all steps follow, at once, the soft commitments, the penalised ones and the
log-probabilities; and their gradients, all but the part that comes back through the switch,
which is linear in one number per row and step.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pag.ops.unroll.packing import Layout
from pag.state import State


@dataclass(frozen=True)
class Choices(State):
    """What the loop decided, time first."""

    logits: Tensor  # l_t [T, B, k]
    choice: Tensor  # argmax of the perturbed logits [T, B]
    recompute: Tensor  # did step t compute its logits anew? [T, B]
    temperature: Tensor | None  # w·s_{t-1} + b [T, B]


@dataclass(frozen=True)
class Decisions(State):
    """What the losses see, time first."""

    switch: Tensor  # g_t [T, B]
    soft: Tensor  # c_t [T, B, k]
    penalised: Tensor  # [T, B, k]
    log_prob: Tensor  # [T, B]


@dataclass(frozen=True)
class Pull(State):
    """The gradient of l_t and of τ_t's pre-activation: `fixed + dg_t · through`."""

    logits: Tensor  # [T, B, k]
    logits_through: Tensor
    temperature: Tensor  # [T, B]
    temperature_through: Tensor


def decide(layout: Layout, choices: Choices, noise: Tensor | None) -> Decisions:
    """`noise` [T, B, k]."""
    soft = soften(layout, choices, noise)
    switch = (choices.choice == 0).to(soft.dtype)
    switch[0] = 1
    if layout.held:
        switch.fill_(1)
    log_probs = choices.logits.log_softmax(-1).gather(-1, choices.choice[..., None])[..., 0]
    return Decisions(switch, soft, soft.gather(0, origin(choices, layout.k)), log_probs)


def soften(layout: Layout, choices: Choices, noise: Tensor | None) -> Tensor:
    if layout.reinforce:
        return choices.logits.softmax(-1)
    return (perturbed(choices, noise) * sharpness(layout, choices)).softmax(-1)


def perturbed(choices: Choices, noise: Tensor | None) -> Tensor:
    return choices.logits if noise is None else choices.logits + noise


def sharpness(layout: Layout, choices: Choices) -> Tensor | float:
    """τ_t [T, B, 1], or the fixed one."""
    if choices.temperature is None:
        return layout.fixed
    return F.softplus(choices.temperature)[..., None] + 1.001


def origin(choices: Choices, k: int) -> Tensor:
    """The last step up to t that recomputed, as an index for gather and scatter [T, B, k]."""
    steps = torch.arange(len(choices.recompute), device=choices.recompute.device)[:, None]
    last = torch.where(choices.recompute, steps, 0).cummax(0).values
    return last[..., None].expand(-1, -1, k)


def pull(layout: Layout, choices: Choices, decisions: Decisions, noise: Tensor | None, given: Decisions) -> Pull:
    """`given` holds the gradients of `decisions`; the switch's own arrives later, inside the loop."""
    soft, k = decisions.soft, layout.k
    towards = given.soft.scatter_add(0, origin(choices, k), given.penalised)
    first_slot = F.one_hot(torch.zeros((), dtype=torch.long, device=soft.device), k).to(soft.dtype)
    fixed = soft * (towards - (soft * towards).sum(-1, keepdim=True))
    through = soft * (first_slot - soft[..., :1])
    through[0] = 0
    if layout.held or layout.reinforce:
        through.zero_()
    chosen = F.one_hot(choices.choice, k).to(soft.dtype)
    from_log_prob = given.log_prob[..., None] * (chosen - choices.logits.softmax(-1))
    if layout.reinforce:
        nothing = torch.zeros_like(decisions.switch)
        return Pull(fixed + from_log_prob, through, nothing, nothing)
    scale, values = sharpness(layout, choices), perturbed(choices, noise)
    slope = torch.zeros_like(decisions.switch) if choices.temperature is None else choices.temperature.sigmoid()
    return Pull(
        fixed * scale + from_log_prob,
        through * scale,
        (fixed * values).sum(-1) * slope,
        (through * values).sum(-1) * slope,
    )
