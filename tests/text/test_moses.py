"""Fast normalising and tokenising give what sacremoses gives, on text made to trip them up."""

import pytest
from hypothesis import example, given
from hypothesis import settings as trials
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from pag.text import moses as module
from pag.text.moses import Moses, moses

SLOW = {language: (MosesPunctNormalizer(language), MosesTokenizer(language)) for language in ("en", "de", "cs", "fi")}
PIECES = st.sampled_from(
    [
        *(
            "a",
            "B",
            "ß",
            "č",
            "5",
            "12",
            "٣",
            "No",
            "Mr",
            "z.B",
            "i.e",
            "U.S",
            "s",
            "n't",
            "DOTMULTI",
            "漢",
            "e\u0301",
            "_",
        ),
        *(
            ".",
            ",",
            "'",
            "''",
            '"',
            "`",
            "-",
            "--",
            "...",
            "…",
            "(",
            ")",
            "%",
            ":",
            ";",
            "«",
            "»",
            "„",
            "“",
            "’",
            "´",
            "‚",
        ),
        *(
            " ",
            " ",
            " ",
            "  ",
            "\t",
            "\u00a0",
            "\u2028",
            "\x01",
            "\x1c",
            "&",
            "<",
            ">",
            "|",
            "[",
            "º",
            "€",
            "—",
            "–",
            "\r",
        ),
    ]
)


def slowly(line: str, language: str) -> tuple[str, str]:
    normaliser, tokeniser = SLOW[language]
    normal = normaliser.normalize(line)
    return normal, " ".join(tokeniser.tokenize(normal, escape=False))


@trials(deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=14).map("".join), st.sampled_from(sorted(SLOW)))
@example("5' '6", "en")
@example("'tis the dogs'", "en")
@example(", a,b,c ,5 5, .' x.'", "en")
@example("See No. 5 and No. five. Mr. Smith (U.S.) went home. then", "en")
@example('Er sagte, "ja." Und ging.', "de")
@example("\x01 a\x02b \x1c c", "fi")
def test_the_fast_path_gives_what_sacremoses_gives(line: str, language: str) -> None:
    normal, tokens = slowly(line, language)
    assert moses(language).normalise(line) == normal
    assert moses(language).clean(line) == tokens


@trials(deadline=None, max_examples=150)
@given(st.lists(st.lists(PIECES, max_size=10).map("".join), max_size=6))
def test_what_was_remembered_does_not_change_a_later_line(lines: list[str]) -> None:
    tool = moses("en")
    assert [tool.clean(line) for line in lines] == [slowly(line, "en")[1] for line in lines]


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 3)
    tool, line = Moses("en"), "One, two. (Three) four's five; six - seven 8% of Mr. Nine."
    assert tool.clean(line) == tool.clean(line) == slowly(line, "en")[1]
    assert len(tool._inside) <= 3 and len(tool._placed) <= 3


def test_tokens_by_hand() -> None:
    assert moses("en").clean("He didn't say: “Mr. Smith’s dog (2,5 kg)...”") == (
        "He didn 't say : \" Mr. Smith 's dog ( 2,5 kg ) ... \""
    )


def test_czech_numbers_are_not_glued_to_the_word_before() -> None:
    """A slip of sacremoses' own Czech rule: it looks at the sentence's last two tokens, not at the two before."""
    assert moses("cs").detokenise("v roce 2012 , ne v roce 2010 .") == "v roce 2012, ne v roce 2010."


def test_detokenising_undoes_tokenising_on_plain_sentences() -> None:
    for line in ("Guten Tag, wie geht's?", "Das (und nur das) kostet 5 %.", 'Er sagte: "Nein!"'):
        tool = moses("de")
        assert tool.clean(tool.detokenise(tool.clean(line))) == tool.clean(line)
