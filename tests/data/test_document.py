"""Documents by hand: what is cut, how words are numbered, where a word is copied from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pag.data.document import WRITTEN, collate_documents, copies, window
from pag.text.vocabulary import END, PAD, UNKNOWN
from pointing import LEXICON, documents, example, examples

SHORT = len(LEXICON.shortlist)
WHO, SAW, THE, ASKING = (LEXICON.shortlist.ids[word] for word in ("who", "saw", "the", "?"))


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ((0, 2), (0, 6)),  # at the start
        ((18, 20), (14, 20)),  # at the end
        ((9, 11), (7, 13)),  # in the middle
        ((2, 4), (0, 6)),  # near the start
        ((5, 11), (5, 11)),  # as long as the window
        ((5, 15), (5, 11)),  # longer: its beginning
    ],
)
def test_a_document_is_cut_around_its_answer(answer: tuple[int, int], kept: tuple[int, int]) -> None:
    assert window(20, *answer, 6) == kept


def test_a_document_that_fits_is_not_cut() -> None:
    assert window(6, 5, 6, 6) == (0, 6)


@given(st.integers(1, 60), st.integers(1, 20), st.data())
def test_the_window_is_full_and_holds_as_much_of_the_answer_as_fits(
    length: int, most: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start + 1, length))
    first, last = window(length, start, end, most)
    assert 0 <= first <= start and last <= length
    assert last - first == min(most, length)
    assert min(end, last) - start == min(end - start, most)


def test_words_that_the_shortlist_lacks_are_numbered_as_they_first_occur() -> None:
    found = example("The old King saw Zorro , the Zorro", (2, 3), "Who saw Zorro ?")
    old, king, zorro, comma = (SHORT + number for number in range(4))
    assert found.words == [THE, old, king, SAW, zorro, comma, THE, zorro, END]
    assert found.extra == [LEXICON.source.ids["old"], LEXICON.source.ids["king"], UNKNOWN, UNKNOWN]
    assert found.target == [WHO, SAW, zorro, ASKING, END]
    assert found.locations == [WRITTEN, 3, 4, WRITTEN, WRITTEN]
    assert found.spelling[2] == "King" and found.source[-1] == END


def test_a_word_is_copied_from_the_place_nearest_the_answer() -> None:
    text = "the king saw the fox , the cat , the hen and Zorro"
    for answer, place in (((0, 1), 0), ((2, 3), 3), ((5, 6), 6), ((10, 12), 9), ((12, 13), 9)):
        assert example(text, answer, "the").locations[0] == place
    assert example("the a b c d the", (2, 5), "the").locations[0] == 5  # an answer has two ends


def test_a_word_that_is_nowhere_is_unknown_and_written() -> None:
    found = example("Zorro saw Batman", (0, 1), "Joker")
    assert found.target == [UNKNOWN, END] and found.locations == [WRITTEN, WRITTEN]


def test_an_answer_over_the_cut_keeps_its_beginning() -> None:
    found = example("a b c d e f g h", (2, 7), "d g", most=3)
    assert found.spelling == ["c", "d", "e"] and found.answer == (0, 3) and found.left_out == (2, 3)
    assert found.target == [SHORT + 1, UNKNOWN, END]  # g was cut off


@pytest.mark.parametrize("answer", [(0, 1), (7, 8), (3, 5)])
def test_a_document_cut_later_is_the_document_cut_at_once(answer: tuple[int, int]) -> None:
    whole, short = (example("a b c d e f g h", answer, None, most) for most in (100, 4))
    cut = whole.cut(5)  # with the end symbol
    assert cut.source == short.source and cut.answer == short.answer and cut.spelling == short.spelling
    assert cut.left_out == short.left_out and sum(cut.left_out) == 4 and whole.left_out == (0, 0)
    assert short.cut(3).left_out == whole.cut(3).left_out


def test_a_batch_pads_and_marks_the_answers() -> None:
    batch, given_ones = documents(), examples()
    pointing = batch.pointing
    assert pointing.words.shape == batch.source.shape and pointing.answer.shape == batch.source.shape
    assert [row.nonzero()[:, 0].tolist() for row in pointing.answer] == [[2], [0], [0], [10, 11]]
    assert (pointing.extra != PAD).sum(1).tolist() == [len(one.extra) for one in given_ones]
    assert pointing.locations.shape == batch.target.shape


def test_a_document_without_words_of_its_own_still_has_room_for_one() -> None:
    batch = collate_documents([example("saw the", (0, 1), None)])
    assert batch.pointing.extra.tolist() == [[PAD]] and batch.pointing.locations is None


def test_where_a_token_was_copied_from_by_hand() -> None:
    words = [7, 4, 7, END]
    alignment = np.array([[0.1, 0.2, 0.6, 0.1], [0.1, 0.8, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0]])
    found = copies(words, [7, 4, END], np.log([0.35, 0.9, 0.6]).tolist(), alignment, np.array([0.5, 0.5, 0.1]))
    assert found.copied.tolist() == [2, WRITTEN, WRITTEN]
    np.testing.assert_allclose(found.copy_share, [1.0, 0.4 / 0.9, 0.1 / 0.6])
