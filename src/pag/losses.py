"""What training minimises (paper, section 3.3)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.config import Recipe
from pag.data.batch import Batch
from pag.model import Forward
from pag.readout import Reading
from pag.state import State


@dataclass(frozen=True)
class Losses(State):
    """Sums over the sentences of a batch."""

    total: Tensor  # what is differentiated
    nll: Tensor  # negative log-likelihood of the targets
    commitment: Tensor  # the unweighted commitment loss


def losses(
    forward: Forward,
    batch: Batch,
    recipe: Recipe,
    commitment_weight: float = 0.0,
    replan_weight: float = 0.0,
    held: bool = False,
) -> Losses:
    """Sums over the batch's sentences; the caller divides by how many make an update.

    While the switch is held no choice has an effect, so there is nothing to reinforce.
    """
    mask = batch.target_mask
    ways = likelihoods(forward.reading, batch)
    token_nll = -ways.get(recipe.loss.likelihood, ways["marginal"]) * mask  # [B, T]
    nll = token_nll.sum()
    total = smooth(token_nll, forward.log_probs, mask, recipe.loss.label_smoothing).sum()
    glimpses = forward.trace.glimpses
    commitment = torch.zeros_like(nll)
    if glimpses.penalised is not None:
        commitment = commitment_loss(glimpses.penalised, mask).sum()
        total = total + commitment_weight * commitment
        reinforce = recipe.attention.estimator == "reinforce"
        if recipe.loss.replan_rate is not None and replan_weight:
            switch = expected_switch(glimpses) if reinforce else glimpses.switch
            assert switch is not None
            total = total + replan_weight * replan_loss(switch, mask, recipe.loss.replan_rate).sum()
        if reinforce and not held:
            total = total + recipe.loss.reinforce * policy_loss(glimpses, token_nll, mask)
    return Losses(total, nll.detach(), commitment.detach())


def negative_log_likelihood(log_probs: Tensor, batch: Batch) -> Tensor:
    """−log p(y_t) of every target position [B, T], padding included."""
    assert batch.target is not None
    return -log_probs.gather(-1, batch.target[..., None])[..., 0]


def likelihoods(reading: Reading, batch: Batch) -> dict[str, Tensor]:
    """log p(y_t) of every target position [B, T], padding included.

    "marginal" is the probability of the word by all ways together. Where words can be copied, "paper" is that of
    the one way assigned to it: copying its assigned location, or else writing it.
    """
    found = {"marginal": -negative_log_likelihood(reading.log_probs, batch)}
    if reading.copied is not None and reading.written is not None:
        assert batch.target is not None and batch.pointing is not None and batch.pointing.locations is not None
        location, last = batch.pointing.locations[..., None], reading.written.shape[-1] - 1
        copied = reading.copied.gather(-1, location.clamp_min(0))
        written = reading.written.gather(-1, batch.target[..., None].clamp_max(last))
        found["paper"] = torch.where(location < 0, written, copied)[..., 0]
    return found


def smooth(token_nll: Tensor, log_probs: Tensor, mask: Tensor, smoothing: float) -> Tensor:
    """Label smoothing: a share of each target's weight is spread over all symbols."""
    if not smoothing:
        return token_nll
    return (1 - smoothing) * token_nll - smoothing * log_probs.mean(-1) * mask


def commitment_loss(penalised: Tensor, mask: Tensor) -> Tensor:
    """(1/T) Σ_t Σ_i (1/k − c_ti)² of each sentence [B]: drives the commitment away from re-planning at once."""
    distance = (1 / penalised.shape[-1] - penalised).square().sum(-1)  # [B, T]
    return (distance * mask).sum(1) / mask.sum(1)


def replan_loss(switch: Tensor, mask: Tensor, rate: float) -> Tensor:
    """max(0, Σ_t g_t − rate · T) of each sentence [B]: how many re-plans it makes beyond its share."""
    return ((switch * mask).sum(1) - rate * mask.sum(1)).clamp_min(0)


def expected_switch(glimpses: Glimpse) -> Tensor:
    """g_t with the gradient of c_t[0], its probability, for REINFORCE, whose switch carries none [B, T]."""
    assert glimpses.switch is not None and glimpses.commitment is not None
    soft = glimpses.commitment[..., 0]
    through = soft - soft.detach()
    return glimpses.switch + torch.nn.functional.pad(through[:, 1:], (1, 0))  # g_1 = 1, whatever c_1


def policy_loss(glimpses: Glimpse, token_nll: Tensor, mask: Tensor) -> Tensor:
    """REINFORCE for the commitment: what follows a choice, compared with the other rows at that step.

    The return of step t is −Σ_{t' ≥ t} NLL; its mean over the rows that are still going is the
    baseline and its deviation the scale.
    """
    assert glimpses.log_prob is not None
    alive = mask.to(token_nll.dtype)
    returns = -(token_nll.detach().flip(1).cumsum(1).flip(1))
    count = alive.sum(0).clamp_min(1)
    centred = (returns - (returns * alive).sum(0) / count) * alive
    deviation = (centred.square().sum(0) / count).sqrt().clamp_min(1e-6)
    return -(centred / deviation * glimpses.log_prob).sum()
