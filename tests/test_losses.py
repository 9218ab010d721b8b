"""What training minimises, by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pag.attention.base import Glimpse
from pag.data.batch import Batch
from pag.losses import commitment_loss, losses, negative_log_likelihood, policy_loss, replan_loss, smooth
from pag.model import Forward
from pag.ops.unroll.reference import Trace
from pag.readout import Reading
from small import K, model, noise, normal, recipe, sentences


def given(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def forward(log_probs: Tensor, glimpses: Glimpse) -> Forward:
    nothing = torch.zeros(len(log_probs), log_probs.shape[1], 1)
    return Forward(Reading(log_probs), Trace(nothing, nothing, glimpses))


def batch(target: list[list[int]], lengths: list[int]) -> Batch:
    ones = torch.ones(len(target), 1, dtype=torch.long)
    return Batch(ones, ones[:, 0], torch.tensor(target), torch.tensor(lengths))


PLAIN = Glimpse(torch.ones(2, 2, 1), torch.ones(2, 2, 1))
PROBS = torch.tensor(
    [[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], [[0.2, 0.2, 0.6], [0.3, 0.3, 0.4]]], dtype=torch.float64
)  # [B, T, V]
BATCH = batch([[0, 2], [1, 0]], [2, 1])  # the second sentence has one token


def test_the_likelihood_by_hand_and_padding_does_not_count() -> None:
    found = losses(forward(PROBS.log(), PLAIN), BATCH, recipe("baseline"), 0.0)
    assert found.nll.item() == pytest.approx(-math.log(0.5) - math.log(0.8) - math.log(0.2))
    assert found.total.item() == pytest.approx(found.nll.item())


def test_what_is_predicted_at_padding_changes_no_loss() -> None:
    other = PROBS.clone()
    other[1, 1] = given([[0.9, 0.05, 0.05]])[0]
    for smoothing in (0.0, 0.1):
        settings = recipe("baseline", loss={"label_smoothing": smoothing})
        first, second = (losses(forward(p.log(), PLAIN), BATCH, settings, 0.0) for p in (PROBS, other))
        assert first.total == second.total and first.nll == second.nll


def test_every_position_has_its_own_likelihood() -> None:
    found = negative_log_likelihood(PROBS.log(), BATCH).exp()
    torch.testing.assert_close(found, 1 / given([[0.5, 0.8], [0.2, 0.3]]))


def test_label_smoothing_by_hand() -> None:
    """A tenth of the weight goes evenly to the three symbols."""
    p = PROBS[:1, :1]
    target = -math.log(0.5)
    even = -(math.log(0.5) + 2 * math.log(0.25)) / 3
    found = smooth(given([[target]]), p.log(), torch.ones(1, 1), 0.1)
    assert found.item() == pytest.approx(0.9 * target + 0.1 * even)


def test_label_smoothing_leaves_the_reported_likelihood_alone() -> None:
    smoothed = losses(forward(PROBS.log(), PLAIN), BATCH, recipe("baseline", loss={"label_smoothing": 0.1}), 0.0)
    plain = losses(forward(PROBS.log(), PLAIN), BATCH, recipe("baseline"), 0.0)
    assert smoothed.nll == plain.nll and smoothed.total != plain.total


def test_the_commitment_loss_by_hand() -> None:
    """k = 2. Certain steps are ½ each, even ones 0; the mean is over a sentence's real steps."""
    certain, even = [1.0, 0.0], [0.5, 0.5]
    penalised = torch.tensor([[certain, even, certain], [certain, even, certain]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    assert commitment_loss(penalised, mask).tolist() == pytest.approx([(0.5 + 0 + 0.5) / 3, (0.5 + 0) / 2])


def test_the_commitment_loss_is_least_where_the_commitment_is_even() -> None:
    logits = normal(1, 1, 4).requires_grad_()
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert commitment_loss(torch.full((1, 1, 4), 0.25), mask).item() == 0
    commitment_loss(logits.softmax(-1), mask).sum().backward()
    assert logits.grad[0, 0, logits.argmax()] > 0  # descending lowers the largest


def test_the_commitment_loss_is_weighted_and_reported_unweighted() -> None:
    penalised = torch.tensor([[[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2], dtype=torch.float64)
    glimpses = replace(PLAIN, penalised=penalised)
    found = losses(forward(PROBS.log(), glimpses), BATCH, recipe("pag"), 0.25)
    assert found.commitment.item() == pytest.approx(1.0)  # ½ for each of two sentences
    assert found.total.item() == pytest.approx(found.nll.item() + 0.25)


def test_the_loss_of_a_batch_is_the_sum_over_its_sentences() -> None:
    built, settings = model("pag"), recipe("pag")
    both, drawn = sentences((4, 5), (3, 2)), noise(2, 5, K)
    whole = losses(built(both, drawn), both, settings, 0.5)
    parts = []
    for row in range(2):
        one = both.select(torch.tensor([row]))
        parts.append(losses(built(one, drawn[row : row + 1]), one, settings, 0.5))
    for name in ("total", "nll", "commitment"):
        assert getattr(whole, name).item() == pytest.approx(sum(getattr(part, name).item() for part in parts))


def test_re_plans_beyond_the_rate_are_counted_by_hand() -> None:
    """Half of the steps may re-plan. Of 4 steps 3 do; of 4 steps 1; of 2 steps 2, and padding does not count."""
    switch = given([[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]])
    mask = torch.tensor([[True] * 4, [True] * 4, [True, True, False, False]])
    assert replan_loss(switch, mask, 0.5).tolist() == [1.0, 0.0, 1.0]


def test_each_re_plan_beyond_the_rate_costs_its_price_and_below_it_nothing() -> None:
    switch = given([[1, 1, 0, 1], [1, 0, 0, 0]]).requires_grad_()
    replan_loss(switch, torch.tensor([[True] * 4, [True, True, True, False]]), 0.5).sum().backward()
    assert switch.grad is not None and switch.grad.tolist() == [[1.0] * 4, [0.0] * 4]


@pytest.mark.parametrize("name", ["pag", "rpag"])
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_a_step_down_the_price_s_gradient_makes_re_planning_less_likely(name: str, estimator: str) -> None:
    settings = {"estimator": estimator}
    built, many, drawn = model(name, attention=settings), sentences((4, 3), (5, 4)), noise(2, 5, K)
    chosen = recipe(name, attention=settings, loss={"replan_rate": 0.2})

    def price(weight: float) -> Tensor:
        return losses(built(many, drawn), many, chosen, 0.0, weight).total

    bias = built.decoder.attention.commitment.state.bias
    (gradient,) = torch.autograd.grad(price(1.0) - price(0.0), bias)
    assert gradient[0] > 0  # descending lowers the first slot's logit
    plain = losses(built(many, drawn), many, recipe(name, attention=settings), 0.0, 1.0).total
    assert plain == price(0.0)  # no rate, no price


def policy(token_nll: Tensor, mask: Tensor | None = None) -> Tensor:
    """The gradient of the policy loss in each log-probability: minus its advantage."""
    log_prob = torch.zeros_like(token_nll).requires_grad_()
    real = torch.ones_like(token_nll, dtype=torch.bool) if mask is None else mask
    policy_loss(replace(PLAIN, log_prob=log_prob), token_nll, real).backward()
    assert log_prob.grad is not None
    return log_prob.grad


def test_the_policy_gradient_favours_the_row_that_did_better() -> None:
    gradient = policy(given([[1.0], [3.0]]))  # the first row's loss is lower
    assert gradient.flatten().tolist() == pytest.approx([-1.0, 1.0])  # descending raises its log-probability


def test_advantages_have_zero_mean_at_every_step() -> None:
    mask = torch.arange(5) < torch.tensor([5, 3, 4, 1, 5, 2])[:, None]
    gradient = policy(normal(6, 5).abs(), mask)
    torch.testing.assert_close(gradient.sum(0), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-12)
    assert not gradient[~mask].any()


def test_a_choice_is_judged_by_what_follows_it_and_not_by_what_came_before() -> None:
    """Rows differ at the first token only: later choices are judged equal."""
    gradient = policy(given([[1.0, 2.0, 2.0], [5.0, 2.0, 2.0]]))
    assert gradient[:, 0].tolist() == pytest.approx([-1.0, 1.0])
    assert not gradient[:, 1:].any()
    gradient = policy(given([[2.0, 2.0, 1.0], [2.0, 2.0, 5.0]]))
    assert gradient[0].tolist() == pytest.approx([-1.0] * 3)


def test_the_policy_gradient_does_not_reach_the_likelihood() -> None:
    token_nll = normal(3, 2).requires_grad_()
    log_prob = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    policy_loss(replace(PLAIN, log_prob=log_prob), token_nll, torch.ones(3, 2)).backward()
    assert token_nll.grad is None


def test_a_sentence_alone_teaches_the_policy_nothing() -> None:
    assert not policy(given([[1.0, 2.0]])).any()


def test_reinforce_learns_which_choice_pays() -> None:
    """One step, two slots, slot 1 costs 1 and slot 0 nothing: the policy comes to choose slot 0."""
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    for update in range(60):
        choice = (logits.detach() + noise(64, 2, seed=update)).argmax(-1)
        log_prob = logits.log_softmax(-1)[choice][:, None]
        loss = policy_loss(replace(PLAIN, log_prob=log_prob), choice.double()[:, None], torch.ones(64, 1)) / 64
        (gradient,) = torch.autograd.grad(loss, logits)
        with torch.no_grad():
            logits -= gradient
    assert logits.softmax(-1)[0] > 0.95


def test_the_policy_loss_counts_under_reinforce_only() -> None:
    settings = {"estimator": "reinforce", "temperature": 1.0}
    built, many, drawn = model("pag", attention=settings), sentences((4, 3), (3, 3)), noise(2, 3, K)
    passed = built(many, drawn)
    with_policy = losses(passed, many, recipe("pag", attention=settings), 0.0)
    half = losses(passed, many, recipe("pag", attention=settings, loss={"reinforce": 0.5}), 0.0)
    without = losses(passed, many, recipe("pag"), 0.0)
    extra = with_policy.total - without.total
    assert extra != 0
    torch.testing.assert_close(half.total - without.total, 0.5 * extra)
