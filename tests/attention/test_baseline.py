"""The plain attention and the pieces that all variants share."""

import math

import pytest
import torch

from pag.attention.base import Memory, Query, attend, masked_softmax
from pag.attention.baseline import BaselineAttention
from small import attention, play, scene, settings


def test_scores_on_paper() -> None:
    """Two annotations 0 and 1, s = 2, y = 3, all weights one but w = 4."""
    built = BaselineAttention(1, 1, 1, settings(size=1)).double()
    with torch.no_grad():
        for weight in built.parameters():
            weight.fill_(0.1)
        built.score.weight.fill_(4.0)
    memory = built.prepare(torch.tensor([[[0.0], [1.0]]], dtype=torch.float64), torch.ones(1, 2, dtype=torch.bool))
    query = Query(torch.tensor([[2.0]], dtype=torch.float64), torch.tensor([[3.0]], dtype=torch.float64))
    glimpse, _ = built.step(query, memory, built.start(memory))
    scores = [4 * math.tanh(0.1 * h + 0.1 + 0.1 * 3 + 0.1 * 2) for h in (0.0, 1.0)]
    second = 1 / (1 + math.exp(scores[0] - scores[1]))
    assert glimpse.alignment[0].tolist() == pytest.approx([1 - second, second])
    assert glimpse.context.item() == pytest.approx(second)


def test_it_makes_no_decisions_and_carries_nothing() -> None:
    _, glimpses, states = play(attention("baseline"), scene(steps=2))
    assert glimpses[0].switch is None and glimpses[0].commitment is None
    assert not vars(states[-1])


def test_a_step_depends_on_no_step_before_it() -> None:
    built, acts = attention("baseline"), scene(steps=3)
    memory, glimpses, _ = play(built, acts)
    glimpse, _ = built.step(acts.query(2), memory, built.start(memory))
    assert torch.equal(glimpse.alignment, glimpses[2].alignment)


def test_the_masked_softmax_is_the_softmax_of_the_real_positions() -> None:
    scores = torch.tensor([[1.0, 2.0, 50.0], [1.0, 2.0, 3.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    found = masked_softmax(scores, mask)
    assert found[0].tolist() == [*scores[0, :2].softmax(-1).tolist(), 0.0]
    assert found[1].tolist() == scores[1].softmax(-1).tolist()


def test_decisions_are_kept_in_float32_where_products_are_bfloat16() -> None:
    assert masked_softmax(torch.zeros(1, 2, dtype=torch.bfloat16), torch.ones(1, 2, dtype=torch.bool)).dtype == (
        torch.float32
    )


def test_the_context_is_the_weighted_sum_of_the_annotations() -> None:
    annotations = torch.tensor([[[1.0, 10.0], [2.0, 20.0]]])
    memory = Memory(annotations, torch.ones(1, 2, dtype=torch.bool), annotations)
    assert attend(torch.tensor([[0.25, 0.75]]), memory).tolist() == [[1.75, 17.5]]


def test_the_default_size_of_the_alignment_mlp_is_that_of_an_annotation() -> None:
    assert BaselineAttention(6, 3, 2).size == 6
    assert BaselineAttention(6, 3, 2, settings(size=4)).size == 4
