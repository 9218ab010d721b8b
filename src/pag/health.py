"""Is the model planning? Numbers that show a plan at work, or a commitment that has collapsed."""

import torch
from torch import Tensor

from pag.attention.base import Glimpse

LONGEST_GAP = 20  # longer runs without re-planning are counted with this one


def plan_health(glimpses: Glimpse, source_mask: Tensor, target_mask: Tensor) -> dict[str, float]:
    """Means over real steps of a recorded pass; empty for an attention that does not plan."""
    if glimpses.switch is None:
        return {}
    assert glimpses.commitment is not None
    health = {
        "replan_rate": _mean(glimpses.switch, target_mask),
        "commitment_entropy": _mean(_entropy(glimpses.commitment), target_mask),
    }
    if glimpses.plan is not None and glimpses.gate is not None:
        real = source_mask[:, None, None]
        rows = glimpses.plan.masked_fill(~real, float("-inf")).softmax(-1)
        health["plan_entropy"] = _mean(_entropy(rows).mean(-1), target_mask)
        gate = (glimpses.gate * real).sum(-1) / real.sum(-1)
        health["gate_mean"] = _mean(gate.mean(-1), target_mask)
    return health


def replan_gaps(switch: Tensor, target_mask: Tensor) -> list[int]:
    """How often 1, 2, … steps lie between one re-plan and the next; the last entry counts all longer gaps."""
    gaps = [0] * LONGEST_GAP
    for row, real in zip(switch.tolist(), target_mask.tolist(), strict=True):
        at = [t for t, (g, r) in enumerate(zip(row, real, strict=True)) if g > 0 and r]
        for before, after in zip(at, [*at[1:], sum(real)], strict=True):
            gaps[min(after - before, LONGEST_GAP) - 1] += 1
    return gaps


def _mean(values: Tensor, mask: Tensor) -> float:
    return float((values * mask).sum() / mask.sum())


def _entropy(probabilities: Tensor) -> Tensor:
    """In nats, over the last dimension."""
    return -torch.special.xlogy(probabilities, probabilities).sum(-1)
