"""Alignment statistics and word alignments on alignments drawn by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from pag.errors import InputError
from pag.generator import Output, Result
from pag.text.alignment_stats import alignment_stats, places
from pag.text.word_alignment import word_alignment
from pag.textio import RecordWriter

SOURCE = ("a", "new", "··est", "<end>")
TOKENS = (*"ab cd", "<end>")
LOOKS = (0, 3, 3, 1, 2, 3)  # where each of the six steps looks


def output(switch: list[int] | None = None, looks: tuple[int, ...] = LOOKS) -> Output:
    alignment = np.eye(4, dtype=np.float32)[list(looks)]
    return Output("ab cd", 0.0, 0.0, SOURCE, TOKENS, alignment, switch=None if switch is None else np.array(switch))


def test_a_sharp_alignment_by_hand() -> None:
    """Steps 0 3 3 1 2 (the end's is left out): 3 of 4 moves go on or stay; jumps are 3, 0, 2, 1."""
    found = alignment_stats([output()])
    assert found.outputs == 1 and found.steps == 5
    assert found.entropy == pytest.approx(0.0, abs=1e-6)
    assert found.monotonicity == 0.75
    assert found.jump == pytest.approx(1.5)
    assert found.last_token == pytest.approx(2 / 5)
    assert found.last_token_in_word == pytest.approx(1 / 2)  # b looks at the end, d does not
    assert found.replan_rate is None and "replan_rate" not in found.as_dict()


def test_an_even_alignment_has_the_largest_entropy() -> None:
    even = Output("ab cd", 0.0, 0.0, SOURCE, TOKENS, np.full((6, 4), 0.25, np.float32))
    assert alignment_stats([even]).entropy == pytest.approx(math.log(4))


def test_where_in_a_word_it_re_plans() -> None:
    """It re-plans at both words' first characters and at one of their second ones; never at the blank."""
    found = alignment_stats([output([1, 1, 0, 1, 0, 1])])
    assert found.replan_rate == pytest.approx(3 / 5)
    assert found.replans_by_place[:3] == (0.0, 1.0, 0.5)
    assert all(math.isnan(rate) for rate in found.replans_by_place[3:])


def test_places_from_the_eighth_on_are_counted_together() -> None:
    """A word of ten characters after a blank: it re-plans at the seventh and at the last."""
    alignment = np.full((12, 4), 0.25, np.float32)
    switch = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0])
    found = alignment_stats([Output("x", 0.0, 0.0, SOURCE, (*" abcdefghij", "<end>"), alignment, switch=switch)])
    assert found.replans_by_place == (0, 0, 0, 0, 0, 0, 0, 1, pytest.approx(1 / 3))


def test_following_a_plan_is_told_from_repeating_a_look() -> None:
    """Looks 0 3 3 1 2 (3); it follows at the second, third and fifth step: two of these look elsewhere."""
    assert alignment_stats([output([1, 0, 0, 1, 0, 0])]).followed_moves == pytest.approx(2 / 3)
    assert alignment_stats([output([1, 1, 1, 1, 1, 0])]).followed_moves is None
    assert alignment_stats([output()]).followed_moves is None


def test_what_is_not_made_of_words_has_no_places_in_words() -> None:
    nodes = Output("1 4 2", 0.0, 0.0, SOURCE, ("1", "4", "2", "<end>"), np.eye(4, dtype=np.float32), switch=np.ones(4))
    found = alignment_stats([nodes])
    assert math.isnan(found.last_token_in_word) and found.replans_by_place == () and found.replan_rate == 1.0


def test_places_in_words() -> None:
    assert places([*"ab  c"]).tolist() == [1, 2, 0, 0, 1]


def test_outputs_without_a_character_say_nothing() -> None:
    empty = Output("", 0.0, 0.0, SOURCE, ("<end>",), np.ones((1, 4), np.float32) / 4)
    assert alignment_stats([empty]).outputs == 0
    assert math.isnan(alignment_stats([]).entropy)


def test_words_align_by_their_pieces_and_characters() -> None:
    """The first word looks half at "a" and half at the end; the second at both pieces of "newest"."""
    found = word_alignment(output())
    assert found.source == ("a", "newest", "<end>")
    assert found.target == ("ab", "cd")
    assert found.weights.tolist() == [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    assert found.pharaoh() == "0-0 1-1"


@pytest.mark.parametrize(
    ("words", "pairs"),
    [("both", "0-0 1-1"), ("source", "0-0 1-3 1-4"), ("target", "0-0 1-1"), (None, "0-0 0-1 0-2 1-3 2-4")],
)
def test_either_side_can_be_counted_in_words(tmp_path: Path, words: str | None, pairs: str) -> None:
    """ "b" and the blank look at the end: their words are left out, as pieces they get the best of the others."""
    with RecordWriter(tmp_path / "a.pharaoh", words) as writer:
        writer.write(Result((output(),)))
    assert (tmp_path / "a.pharaoh").read_text() == f"{pairs}\n"


def test_only_pairs_of_positions_can_be_counted_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--words is for --save FILE.pharaoh"):
        RecordWriter(tmp_path / "a.jsonl", "both")
    with pytest.raises(InputError, match=r"--words must be source, target or both, not 'all'"):
        RecordWriter(tmp_path / "a.pharaoh", "all")


def test_an_output_that_was_cut_short_has_no_end_to_leave_out() -> None:
    cut = Output("ab", 0.0, 0.0, SOURCE, ("a", "b"), np.eye(4, dtype=np.float32)[[0, 1]])
    assert alignment_stats([cut]).steps == 2
    assert word_alignment(cut).target == ("ab",)
