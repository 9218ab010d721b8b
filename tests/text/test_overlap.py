"""BLEU-n and ROUGE-L by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pag.text.overlap import bleu, longest_common, rouge_l

WORDS = st.lists(st.sampled_from("abc"), max_size=7)


def test_the_same_words_score_100() -> None:
    words = ["who", "saw", "the", "old", "king", "?"]
    assert bleu([words], [[words]]) == pytest.approx({f"bleu{n}": 100.0 for n in (1, 2, 3, 4)})
    assert rouge_l([words], [[words]]) == pytest.approx(100.0)


def test_bleu_by_hand() -> None:
    """Four of five words, two of four pairs; as long as the reference, so no penalty."""
    found = bleu([["who", "saw", "the", "king", "?"]], [[["who", "saw", "a", "king", "?"]]])
    assert found["bleu1"] == pytest.approx(80)
    assert found["bleu2"] == pytest.approx(100 * math.sqrt(0.8 * 0.5))
    assert found["bleu4"] == 0


def test_each_output_may_have_its_own_number_of_references() -> None:
    outputs = [["a", "b"], ["c", "d"]]
    assert bleu(outputs, [[["x"], ["a", "b"]], [["c", "d"]]])["bleu1"] == pytest.approx(100)


def test_rouge_by_hand() -> None:
    """Three words in common: precision 3/4, recall 3/6, weighed with β = 1.2."""
    expected = 100 * (1 + 1.44) * 0.75 * 0.5 / (0.5 + 1.44 * 0.75)
    assert rouge_l([["a", "b", "c", "x"]], [[["a", "y", "b", "z", "c", "w"]]]) == pytest.approx(expected)
    assert rouge_l([[]], [["a"]]) == 0


@given(WORDS, WORDS)
def test_the_longest_common_sequence_is_that_of_every_subsequence_tried(left: list[str], right: list[str]) -> None:
    def within(short: list[str]) -> bool:
        rest = iter(right)
        return all(word in rest for word in short)

    chosen = ([w for n, w in enumerate(left) if mask >> n & 1] for mask in range(2 ** len(left)))
    assert longest_common(left, right) == max(len(some) for some in chosen if within(some))
