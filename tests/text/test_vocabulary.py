"""Symbols and their ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pag.text.vocabulary import END, PAD, SPECIALS, UNKNOWN, Vocabulary

LETTERS = Vocabulary.of("abc")


def test_padding_end_and_unknown_come_first() -> None:
    assert (LETTERS.symbols[PAD], LETTERS.symbols[END], LETTERS.symbols[UNKNOWN]) == SPECIALS
    assert len(LETTERS) == 6 and LETTERS.ids["a"] == 3


@given(st.lists(st.sampled_from("abc")))
def test_decoding_undoes_encoding(symbols: list[str]) -> None:
    ids = LETTERS.encode(symbols)
    assert ids[-1] == END
    assert LETTERS.decode(ids) == symbols


def test_decoding_stops_at_the_first_end() -> None:
    assert LETTERS.decode([3, END, 4, END]) == ["a"]
    assert LETTERS.decode([END]) == []
    assert LETTERS.decode([3, 4]) == ["a", "b"]


def test_an_unknown_symbol_has_the_unknown_id() -> None:
    assert LETTERS.encode(["a", "z"]) == [3, UNKNOWN, END]
    assert "a" in LETTERS and "z" not in LETTERS


def test_counting_keeps_the_most_frequent_and_breaks_ties_by_the_symbol() -> None:
    assert Vocabulary.count("cabbac" + "d", 3).symbols[3:] == ["a", "b", "c"]
    assert Vocabulary.count("zzya", 2).symbols[3:] == ["z", "a"]
    assert Vocabulary.count("ab", 9).symbols[3:] == ["a", "b"]


@given(st.permutations("aabbbc"))
def test_counting_does_not_depend_on_the_order_of_the_text(text: list[str]) -> None:
    assert Vocabulary.count(text, 2).symbols == Vocabulary.count("aabbbc", 2).symbols


def test_a_vocabulary_survives_its_list_of_symbols() -> None:
    again = Vocabulary(LETTERS.symbols)
    assert again.ids == LETTERS.ids


def test_a_list_without_the_specials_is_no_vocabulary() -> None:
    with pytest.raises(AssertionError):
        Vocabulary(["a", "b", "c", "d"])
