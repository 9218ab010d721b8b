"""BPE: the same text gives the same subwords, words do not depend on their neighbours, and decoding undoes encoding."""

from collections import Counter

import pytest

from pag.text.subwords import Subwords, label
from pag.text.vocabulary import SPECIALS, UNKNOWN

LINES = ["the low lower lowest tower", "the new newer newest tower , the low tower", "a wide wider widest way"] * 5


def learned(lines: list[str] = LINES, size: int = 60) -> Subwords:
    return Subwords.learn(lines, Counter("".join(lines).replace(" ", "")), size)


def test_the_specials_come_first_and_the_size_is_kept() -> None:
    symbols = learned().vocabulary.symbols
    assert tuple(symbols[:3]) == SPECIALS
    assert len(symbols) <= 60


def test_the_same_lines_in_any_order_give_the_same_subwords() -> None:
    assert learned().to_json() == learned(LINES[::-1]).to_json() == learned().to_json()


def test_frequent_words_are_one_symbol_and_rare_ones_several() -> None:
    subwords = learned()
    assert len(subwords.encode("the")) == 1
    assert len(subwords.encode("thewider")) > 1


def test_a_line_is_its_words_one_after_another() -> None:
    subwords = learned()
    for line in LINES[:3]:
        assert subwords.encode(line) == [i for ids in subwords.encode_words(line.split()) for i in ids]


@pytest.mark.parametrize("line", LINES[:3])
def test_decoding_undoes_encoding(line: str) -> None:
    assert learned().decode(learned().encode(line)) == line


def test_a_character_that_was_never_seen_is_unknown() -> None:
    assert UNKNOWN in learned().encode("漢")


def test_a_checkpoint_can_keep_it() -> None:
    again = Subwords.from_json(learned().to_json())
    assert again.vocabulary.symbols == learned().vocabulary.symbols
    assert again.encode("the newest tower") == learned().encode("the newest tower")


def test_labels_show_where_words_go_on() -> None:
    assert [label(symbol) for symbol in ("▁new", "est", "<end>")] == ["new", "··est", "<end>"]
