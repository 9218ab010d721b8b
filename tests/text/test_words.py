"""Words with their places, and text made of them again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pag.text.words import covering, join, occurrences, sentence_at, tokenise, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's Levi's Stadium, isn't it?", ["It", "'s", "Levi", "'s", "Stadium", ",", "is", "n't", "it", "?"]),
        (
            "the U.S. team won 24–10 on 1,000.5 points",
            ["the", "U.S.", "team", "won", "24", "–", "10", "on", "1,000.5", "points"],
        ),
        ("a well-known (old) $5 book...", ["a", "well-known", "(", "old", ")", "$", "5", "book", "..."]),
        ("Can’t they’ve", ["Ca", "n’t", "they", "’ve"]),
        ("", []),
        ("  \n\t ", []),
        ("cafe\u0301s", ["cafe\u0301s"]),
    ],
)
def test_words_by_hand(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.text())
def test_every_character_but_blanks_is_in_one_token_and_each_token_is_at_its_place(text: str) -> None:
    tokens = tokenise(text)
    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert [token.text for token in tokens] == words_of(text)


def test_25_000_blanks_are_no_words() -> None:
    assert words_of("I" + " " * 25_000 + "couldn't") == ["I", "could", "n't"]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 3, (0, 1)), (4, 8, (1, 2)), (5, 6, (1, 2)), (2, 5, (0, 2)), (3, 4, None), (8, 9, (2, 3)), (50, 60, None)],
)
def test_the_tokens_that_hold_some_characters(start: int, end: int, found: tuple[int, int] | None) -> None:
    assert covering(tokenise("The king."), start, end) == found


@pytest.mark.parametrize(
    ("part", "found"),
    [("a", [11, 20]), ("he", [1]), (" a", [10, 19]), ("a ", [11, 20]), ("The cat", [0]), ("dog", []), ("t", [22])],
)
def test_a_part_is_found_as_whole_words_where_it_is_any(part: str, found: list[int]) -> None:
    text = "The cat is a box of a t"
    assert occurrences(text, tokenise(text), part) == found


@pytest.mark.parametrize(
    "text",
    [
        "Who wasn't in Levi's Stadium?",
        'What is the "golden anniversary" (of 50%), in $?',
        "When did the U.S. buy 1,000 ships?",
        "What does 'Normans' mean?",
        "When was the German Peasants' War?",
    ],
)
def test_words_joined_are_the_text_that_they_came_from(text: str) -> None:
    assert join(words_of(text)) == text


def test_the_sentence_that_holds_a_character() -> None:
    text = "The U.S. won. It was fun! (Or so.) Who knows?"
    starts = [sentence_at(text, place) for place in (0, 5, 12, 14, 26, 35)]
    assert starts == [0, 0, 0, 14, 26, 35]
