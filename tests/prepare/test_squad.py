"""SQuAD's files into a prepared folder: what is kept, mended, dropped and counted."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pag.cli import app
from pag.data.document import WRITTEN, Document
from pag.data.questions import PreparedQuestions
from pag.errors import DataError
from pag.prepare import questions, squad
from pag.prepare.settings import QuestionSettings
from pag.text.vocabulary import END
from squad import FOX, FOXES, GOOD, KING, article, asked, train_file, write


def prepared(folder: Path, *articles: dict[str, Any], **settings: Any) -> tuple[PreparedQuestions, dict[str, Any]]:
    """All of it as training and as validation."""
    file = write(folder / "all.json", *articles)
    splits = {split: squad.read(file) for split in ("train", "valid")}
    report = questions.prepare(
        QuestionSettings(**{"shortlist": 6, **settings}), splits, folder / "out", replace=True, picture=False
    )
    return PreparedQuestions(folder / "out"), report


def test_words_answers_and_questions_are_what_was_written(tmp_path: Path) -> None:
    folder, report = prepared(tmp_path, article("King", (KING, GOOD)))
    data = folder.examples("train")
    assert len(data) == 3 and report["splits"]["train"]["kept"] == 3
    example = data[1]
    assert isinstance(example, Document)
    assert example.spelling[:5] == ["The", "old", "King", "saw", "Zorro"]
    start, end = example.answer
    assert example.spelling[start:end] == ["1874"]
    assert example.source[-1] == example.words[-1] == example.target[-1] == END
    assert (data.lengths == [[len(e.source), len(e.target)] for e in (data[0], data[1], data[2])]).all()
    zorro = [place for place, word in enumerate(example.spelling) if word == "Zorro"]
    assert example.locations[2] == min(zorro, key=lambda place: abs(place - start))
    assert example.locations[0] == WRITTEN  # "When" is nowhere


def test_inputs_are_lines_that_encode_to_the_same_examples(tmp_path: Path) -> None:
    from pag.tasks.questions import QuestionsSettings, QuestionsTask

    prepared(tmp_path, article("King", (KING, GOOD)), article("Fox", (FOX, FOXES)), max_document=9)
    task = QuestionsTask.build(QuestionsSettings(data=str(tmp_path / "out")))
    data = task.examples("valid")
    assert len(data) == 5
    for number, (line, reference) in enumerate(zip(task.inputs("valid"), task.references("valid"), strict=True)):
        assert task.pair(line, reference) == data[number]


def test_vocabularies_know_training_alone_and_only_training_drops_long_questions(tmp_path: Path) -> None:
    read = {
        "train": squad.read(write(tmp_path / "a.json", article("King", (KING, GOOD)))),
        "valid": squad.read(
            write(tmp_path / "b.json", article("Fox", (FOX, [*FOXES, asked("why " * 8, "fox", text=FOX)])))
        ),
    }
    report = questions.prepare(QuestionSettings(max_question=7), read, tmp_path / "out", picture=False)
    lexicon = PreparedQuestions(tmp_path / "out").lexicon
    assert "zorro" in lexicon.source and "isengrim" not in lexicon.source
    assert "knew" in lexicon.shortlist and "wolf" not in lexicon.shortlist
    assert report["splits"]["valid"]["kept"] == 3


def test_case_counts_only_where_asked_to(tmp_path: Path) -> None:
    one = article("a", ("The the THE cat", [asked("the cat", "cat", text="The the THE cat")]))
    lower = prepared(tmp_path, one)[0]
    assert "THE" not in lower.lexicon.source
    assert lower.examples("train")[0].target[0] == lower.examples("train")[0].words[0]
    true = prepared(tmp_path, one, lower_case=False)[0]
    assert true.examples("train")[0].words[0] != true.examples("train")[0].words[1]
    assert "THE" in true.lexicon.source


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (asked("Who?", None), "no_answer"),
        (asked("Who?", "Batman", 3), "answer_not_found"),
        (asked("Who?", " ", 3), "empty_answer"),
        (asked(" \n ", "Zorro"), "empty_question"),
        (asked("why " * 8, "Zorro"), "long_question"),
    ],
)
def test_what_cannot_be_used_is_dropped_and_counted(tmp_path: Path, question: dict[str, Any], reason: str) -> None:
    folder, report = prepared(tmp_path, article("King", (KING, [*GOOD, question])), max_question=7)
    facts = report["splits"]["train"]
    assert facts["dropped"] == {reason: {"questions": 1, "first": [question["id"]]}}
    assert (facts["read"], facts["kept"], len(folder.examples("train"))) == (4, 3, 3)


@pytest.mark.parametrize(
    ("question", "reason", "answer"),
    [
        (asked("Who?", "Zorro", 4), "answer_moved", ["Zorro"]),
        (asked("Who?", "Zorro", 10_000), "answer_moved", ["Zorro"]),
        (asked("Who?", "Zorro", -3), "answer_moved", ["Zorro"]),
        (asked("Which?", "a", 12), "answer_moved", ["a"]),  # "saw" and "Paris" are nearer
        (asked("What?", "known club (the Fox"), "answer_widened", ["well-known", "club", "(", "the", "Foxes"]),
        (asked("Who " + " " * 25_000 + "?", "Zorro"), "blanks", ["Zorro"]),
        (asked("Who?", "Nobody", text=KING), "cut", ["Nobody"]),
    ],
)
def test_what_can_be_mended_is_mended_and_counted(
    tmp_path: Path, question: dict[str, Any], reason: str, answer: list[str]
) -> None:
    most = 12 if reason == "cut" else 100
    folder, report = prepared(tmp_path, article("King", (KING, [question])), max_document=most)
    assert report["splits"]["valid"]["mended"] == {reason: {"questions": 1, "first": [question["id"]]}}
    example = folder.examples("valid")[0]
    assert example.spelling[slice(*example.answer)] == answer
    assert len(folder.references("valid")[0]) < 30


@pytest.mark.parametrize("given", [None, "", "x\ud800", ["a"], " \n"])
def test_a_question_without_a_usable_id_is_named_by_its_place(tmp_path: Path, given: Any) -> None:
    _, report = prepared(tmp_path, article("King", (KING, [*GOOD, {**asked("Who?", None), "id": given}])))
    [name] = report["splits"]["train"]["dropped"]["no_answer"]["first"]
    assert name.endswith("all.json, data[0].paragraphs[0].qas[3]")


def test_the_report_counts_where_question_words_are(tmp_path: Path) -> None:
    """ "who" and "?" are the shortlist; of the document has "cat"; "dog" is nowhere."""
    text = "The cat sat ?"
    asks = [asked("who ?", "cat", text=text), asked("who cat ?", "cat", text=text), asked("dog who", "cat", text=text)]
    _, report = prepared(tmp_path, article("Cat", (text, asks)), shortlist=2)
    found = report["splits"]["train"]["question_words_in"]
    assert {name: value["words"] for name, value in found.items()} == {
        "shortlist_and_document": 2, "shortlist_only": 3, "document_only": 1, "neither": 1,
    }  # fmt: skip


def test_the_report_counts_training_questions_whose_document_is_held_out_too(tmp_path: Path) -> None:
    splits = {
        "train": [article("King", (KING, GOOD)), article("Fox", (FOX, FOXES))],
        "valid": [article("Cat", ("A cat.", [asked("What?", "cat", text="A cat.")]))],
        "test": [article("Wolf", (FOX, FOXES[:1]))],
    }
    read = {split: squad.read(write(tmp_path / f"{split}.json", *found)) for split, found in splits.items()}
    report = questions.prepare(QuestionSettings(), read, tmp_path / "out", picture=False)
    names = [one["id"] for one in FOXES]
    assert report["splits"]["train"]["documents_also_in"] == {
        "valid": {"questions": 0, "first": []}, "test": {"questions": 2, "first": names},
    }  # fmt: skip
    said = (tmp_path / "out" / "report.txt").read_text()
    assert f"2 training questions are about a document that is also in test ({', '.join(names)})" in said
    assert "documents_also_in" not in report["splits"]["test"]


def test_a_title_belongs_to_one_list_alone(tmp_path: Path) -> None:
    read = squad.read(train_file(tmp_path / "train.json"))
    with pytest.raises(DataError, match="'King' is listed for train and for test: an article belongs to one split"):
        questions.share_out(read, {"train": ["King", "Fox_(animal)"], "test": ["King"]})


def test_articles_of_one_title_are_held_out_together(tmp_path: Path) -> None:
    """A file given twice, or an article in two files, must not be in training and in validation."""
    read = squad.read(write(tmp_path / "a.json", *[article(f"A{n}", (f"{KING} {n}", GOOD)) for n in range(4)]))
    for seed in range(5):
        splits = questions.hold_out({"train": [*read, *read]}, QuestionSettings(valid=4, seed=seed), squad.Counted())
        held, left = ({article.title for article in splits[split]} for split in ("valid", "train"))
        assert held.isdisjoint(left) and len(held | left) == 4


def test_articles_whose_titles_differ_in_quoting_are_one(tmp_path: Path) -> None:
    one, other = (f"{text} {KING}" for text in ("One.", "Two."))
    read = squad.read(write(tmp_path / "a.json", article("A_(b)", (one, GOOD)), article("A %28b%29", (other, GOOD))))
    [found] = questions.share_out(read, {"train": ["A_(b)"]})["train"]
    assert [paragraph.text for paragraph in found.paragraphs] == [one, other]


def test_a_title_listed_twice_is_one_article_and_lists_of_one_split_are_joined(tmp_path: Path) -> None:
    file = train_file(tmp_path / "train.json")
    (tmp_path / "one.txt").write_bytes("\ufeffKing\r\nKing\r\n".encode())
    (tmp_path / "two.txt").write_text("Fox (animal)\nFox_%28animal%29\n")
    lists = [f"--articles={split}={tmp_path / name}.txt" for split, name in (("train", "one"), ("valid", "two"))]
    arguments = ["prepare", "questions", str(tmp_path / "out"), "--train", str(file), "--replace"]
    done = CliRunner().invoke(app, [*arguments, *lists])
    assert "train: 3 questions kept of 3" in done.output and "valid: 2 questions kept of 2" in done.output
    joined = [f"--articles=train={tmp_path / name}.txt" for name in ("one", "two")]
    done = CliRunner().invoke(app, [*arguments, *joined, "--valid-questions", "1"])
    assert done.exit_code == 0, done.output


def test_validation_shares_no_article_with_training(tmp_path: Path) -> None:
    articles = [article(f"A{n}", (f"{KING} {n}", GOOD), (FOX, FOXES)) for n in range(6)]
    read = squad.read(write(tmp_path / "train.json", *articles))
    beside = squad.Counted()
    splits = questions.hold_out({"train": read, "test": read[:1]}, QuestionSettings(valid=7), beside)
    held, left = ({article.title for article in splits[split]} for split in ("valid", "train"))
    assert len(held) == 2 and len(left) == 4 and held.isdisjoint(left)
    assert sum(article.questions for article in splits["valid"]) == 7
    assert beside.counts == {"beside_valid": 3}
    again = questions.hold_out({"train": read}, QuestionSettings(valid=7), squad.Counted())
    assert again["valid"] == splits["valid"]
    other = questions.hold_out({"train": read}, QuestionSettings(valid=7, seed=2), squad.Counted())
    assert other["valid"] != splits["valid"]


def test_articles_are_shared_out_by_lists_whatever_the_quoting(tmp_path: Path) -> None:
    read = squad.read(train_file(tmp_path / "train.json"))
    (tmp_path / "one.txt").write_text("Fox_(animal)\n\n")
    (tmp_path / "two.txt").write_text("King\n")
    lists = {"train": squad.titles(tmp_path / "one.txt"), "valid": squad.titles(tmp_path / "two.txt")}
    splits = questions.share_out(read, lists)
    assert [article.title for article in splits["train"]] == ["Fox_%28animal%29"]
    with pytest.raises(DataError, match="1 of the articles listed for test are in no file, as 'Wolf'"):
        questions.share_out(read, {"test": ["Wolf"]})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"data": [', "is not JSON"),
        ('{"version": 1}', "has no list 'data'"),
        ('{"data": [{"title": "a"}]}', r"data\[0\] has no list 'paragraphs'"),
        ('{"data": [{"title": "a", "paragraphs": [{"qas": []}]}]}', r"paragraphs\[0\] has no str 'context'"),
        (
            '{"data": [{"title": "a", "paragraphs": [{"context": "b", "qas": [{"question": "c", "answers": 3}]}]}]}',
            "'answers' must be a list",
        ),
        (
            '{"data": [{"title": "a", "paragraphs": [{"context": "b", "qas": '
            '[{"question": "c", "answers": [{"text": "b", "answer_start": "1"}]}]}]}]}',
            r"answers\[0\] has no int 'answer_start'",
        ),
        ("[" * 100_000, "nested too deeply|is not JSON"),
        ("\x00", "is not JSON"),
        (
            '{"data": [{"title": "a", "paragraphs": [{"context": "b \\ud800", "qas": []}]}]}',
            r"paragraphs\[0\]: 'context' holds half a character \(\\ud800\), which is no text",
        ),
    ],
)
def test_a_file_of_another_layout_is_one_line_that_says_where(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(DataError, match=said) as error:
        squad.read(tmp_path / "bad.json")
    assert "\n" not in str(error.value) and "bad.json" in str(error.value)


def test_the_command_line_from_packed_files_to_a_report(tmp_path: Path) -> None:
    plain = train_file(tmp_path / "train.json")
    packed = tmp_path / "train.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    arguments = ["prepare", "questions", str(tmp_path / "out"), "--train", str(packed), "--test", str(plain)]
    done = CliRunner().invoke(app, [*arguments, "--valid-questions", "1", "--shortlist", "5", "--documents", "9"])
    assert done.exit_code == 0, done.output
    assert "train: " in done.output and "question words are in:" in done.output
    assert (tmp_path / "out" / "lengths.png").read_bytes().startswith(b"\x89PNG")
    folder = PreparedQuestions(tmp_path / "out")
    assert folder.splits == ("train", "valid", "test") and len(folder.lexicon.shortlist) == 8
    files = {path.name for path in folder.folder.iterdir()} - {"manifest.json"}
    assert set(folder.manifest["files"]) == files
    with pytest.raises(DataError, match="already exists: --replace writes it anew"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_split_of_which_nothing_is_left_is_refused_with_the_reasons(tmp_path: Path, split: str) -> None:
    """Training would fail later, and say less."""
    good = squad.read(write(tmp_path / "good.json", article("King", (KING, GOOD))))
    bad = article("Fox", (FOX, [asked("Who?", "Batman", 3), asked("?", None), asked("Who?", "Batman", 3)]))
    splits = dict.fromkeys(("train", "valid", "test"), good) | {split: squad.read(write(tmp_path / "bad.json", bad))}
    said = f"{split}: no question is left of 3; 2: the answer does not occur in its paragraph; 1: no answer is given"
    with pytest.raises(DataError, match=said):
        questions.prepare(QuestionSettings(), splits, tmp_path / "out", picture=False)
    assert not (tmp_path / "out").exists()


def test_files_without_a_question_are_called_so(tmp_path: Path) -> None:
    for articles in ([], [article("King", (KING, []))]):
        read = squad.read(write(tmp_path / "a.json", *articles))
        with pytest.raises(DataError, match="the training files hold no question"):
            questions.prepare(QuestionSettings(valid=1), {"train": read}, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no training questions"),
        (["--train", "missing.json"], "cannot read missing.json"),
        (["--train", "{file}", "--articles", "train"], "--articles train: expected SPLIT=FILE"),
        (["--train", "{file}"], "validation is to have 2,000 questions"),
        (["--train", "{file}", "--shortlist", "0"], "cannot prepare: shortlist"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = train_file(tmp_path / "train.json")
    given = [argument.replace("{file}", str(file)) for argument in arguments]
    with pytest.raises(DataError, match=said):
        CliRunner().invoke(app, ["prepare", "questions", str(tmp_path / "out"), *given], catch_exceptions=False)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.unfinished").exists()


def test_a_damaged_vocabulary_is_noticed(tmp_path: Path) -> None:
    prepared(tmp_path, article("King", (KING, GOOD)))
    path = tmp_path / "out" / "vocabulary.json"
    text = path.read_text()
    path.write_text(text.replace("zorro", "zorra"))
    with pytest.raises(DataError, match="was edited or is damaged"):
        _ = PreparedQuestions(tmp_path / "out").lexicon
    assert json.loads(text)["lower_case"] is True
