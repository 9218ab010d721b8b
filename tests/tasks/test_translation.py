"""Translation as a task: raw text in, plain text out, and data that does not fit is refused."""

import shutil
from pathlib import Path

import pytest

from pag.config import build_recipe
from pag.data.prepared import Prepared
from pag.errors import CheckpointError, DataError, InputError
from pag.prepare.reading import Corpus
from pag.prepare.settings import PrepareSettings
from pag.prepare.translation import prepare
from pag.tasks.translation import LOST, TranslationSettings, TranslationTask
from pag.text.vocabulary import END, UNKNOWN
from tiny import train

ENGLISH = ["The dog, the cat.", "A dog (a big dog) sleeps.", 'He said: "no!"', "It is 5 o'clock."] * 4
GERMAN = ["Der Hund, die Katze.", "Ein Hund (ein großer Hund) schläft.", 'Er sagte: "nein!"', "Es ist 5 Uhr."] * 4


def folder(at: Path, languages: tuple[str, str] = ("en", "de"), extra: str = "") -> Path:
    at.mkdir()
    for name, lines in (("en", ENGLISH), ("de", [line + extra for line in GERMAN])):
        (at / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    text = Corpus([at / "en"], [at / "de"])
    asked = PrepareSettings(source_language=languages[0], target_language=languages[1], subwords=90, max_source=90)
    prepare(asked, {"train": text, "valid": text}, at / "prepared")
    return at / "prepared"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("translation") / "en-de")


def settings(data: Path | None, **more: str) -> TranslationSettings:
    return TranslationSettings(data=None if data is None else str(data), **more)  # type: ignore[arg-type]


@pytest.fixture
def task(data: Path) -> TranslationTask:
    return TranslationTask.build(settings(data))


def test_examples_are_the_encoded_inputs_and_references(task: TranslationTask) -> None:
    for split in ("train", "valid"):
        examples = task.examples(split)
        for number in range(4):
            assert task.encode(task.inputs(split)[number]).source == examples[number].source
            assert task.encode_output(task.references(split)[number]) == examples[number].target


def test_inputs_and_references_are_plain_text(task: TranslationTask) -> None:
    for split in ("train", "valid"):  # decoded from ids, and kept as they came
        assert list(task.inputs(split)) == ENGLISH
        assert list(task.references(split)[:2]) == GERMAN[:2]
        assert len(task.references(split)[2:]) == 14


def test_output_is_detokenised(task: TranslationTask) -> None:
    for line in GERMAN[:4]:
        assert task.decode(task.encode_output(line)) == line


def test_a_character_that_the_model_cannot_name_is_shown(task: TranslationTask) -> None:
    assert task.decode([UNKNOWN, END]) == LOST
    assert task.encode_output("漢") == [UNKNOWN, END]


def test_references_score_full_marks_and_every_metric_is_scored(task: TranslationTask) -> None:
    scores = task.score(GERMAN, ENGLISH, GERMAN)
    assert scores.keys() == task.metrics.keys() == {*task.signatures, "exact"}
    assert all(value == pytest.approx(100) for value in scores.values())


def test_lines_that_are_right_are_counted_however_they_are_spaced(task: TranslationTask) -> None:
    """Short lines have no four tokens in a row, so that BLEU is 0 however good they are."""
    scores = task.score(["2021-03-03", "1 Mai", "1Mai", ""], [""] * 4, ["2021-03-03", " 1  Mai", "1 Mai", "1 Mai"])
    assert scores["exact"] == 50 and scores["bleu"] == 0


def test_tokenised_bleu_does_not_see_how_words_were_joined(task: TranslationTask) -> None:
    """Curly quotes and blanks go in the normalisation; sacreBLEU on plain text sees them."""
    typed = [line.replace('"', "“").replace("(", "( ") for line in GERMAN]
    scores = task.score(typed, ENGLISH, GERMAN)
    assert scores["bleu"] == pytest.approx(100) and scores["sacrebleu"] < 99


def test_labels_name_subwords_and_characters(task: TranslationTask) -> None:
    labels = task.source_labels(task.encode("dog zzz").source)
    assert labels[0] == "dog" and labels[-1] == "<end>"
    assert task.target_labels(task.encode_output("a u")) == ["a", " ", "u", "<end>"]


def test_a_checkpoint_keeps_what_is_needed_to_read_and_write(task: TranslationTask) -> None:
    again = TranslationTask.load(settings(None), task.files())
    assert again.encode(ENGLISH[1]) == task.encode(ENGLISH[1])
    assert again.decode(task.encode_output(GERMAN[1])) == GERMAN[1]


def test_other_splits_can_be_had_by_their_folder(task: TranslationTask, data: Path) -> None:
    again = TranslationTask.load(settings(None), task.files()).with_data(str(data))
    assert list(again.inputs("valid")) == ENGLISH and again.splits == ("train", "valid")


# what is refused


def test_a_source_that_is_all_unknown_is_refused(task: TranslationTask) -> None:
    with pytest.raises(InputError, match="no character of '漢字 漢' is known to the model, which reads en"):
        task.encode("漢字 漢")
    assert UNKNOWN in task.encode("dog 漢").source


def test_a_line_of_control_characters_is_refused(task: TranslationTask) -> None:
    with pytest.raises(InputError, match="nothing is left"):
        task.encode("\x01\x02")


def test_no_folder_says_how_to_make_one() -> None:
    with pytest.raises(DataError, match=r"task.data is not set: .*pag prepare translation.*--set task.data="):
        TranslationTask.build(settings(None))


def test_another_language_pair_is_refused(data: Path) -> None:
    with pytest.raises(DataError, match="holds en-de text, but the recipe translates en-cs"):
        TranslationTask.build(settings(data, target_language="cs"))


def test_languages_that_are_not_given_are_those_of_the_data(data: Path, tmp_path: Path) -> None:
    unnamed = TranslationTask.build(settings(data))
    assert unnamed.languages == ("en", "de")
    kept = TranslationTask.load(unnamed.settings, unnamed.files())
    assert kept.decode(kept.encode_output("Der Hund, die Katze.")) == "Der Hund, die Katze."
    with pytest.raises(DataError, match="holds cs-en text, but the recipe translates en-de"):
        kept.with_data(str(folder(tmp_path / "other", languages=("cs", "en")))).inputs("valid")


def test_a_vocabulary_that_does_not_fit_the_checkpoint_is_refused(task: TranslationTask, tmp_path: Path) -> None:
    other = TranslationTask.load(settings(folder(tmp_path / "other", extra=" ß")), task.files())
    assert len(other.inputs("valid")) == 16  # text fits any model
    with pytest.raises(DataError, match=r"vocabularies of .* are not this model's"):
        other.examples("valid")


def test_a_run_does_not_go_on_with_text_that_was_prepared_anew(tmp_path: Path) -> None:
    prepared = folder(tmp_path / "text")
    told = {
        "task": {"name": "translation", "data": str(prepared)},
        "model": {"embedding": 8, "encoder": 8, "decoder": 8},
        "train": {"max_updates": 1, "validate_examples": 1},
        "generate": {"max_length": 4},
    }
    train(tmp_path / "run", build_recipe(told, "small"))
    shutil.rmtree(prepared)
    folder(tmp_path / "other", extra=" ß").rename(prepared)
    with pytest.raises(CheckpointError, match=r"characters.json is not that of the data: it was prepared"):
        train(tmp_path / "run", build_recipe({**told, "train": {**told["train"], "max_updates": 2}}, "small"))


def test_a_missing_split_is_named(task: TranslationTask) -> None:
    with pytest.raises(DataError, match="no split 'test'"):
        task.references("test")


def test_a_prepared_folder_keeps_its_languages(data: Path) -> None:
    assert Prepared(data).languages == ("en", "de")


def test_settings_are_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    from pag.errors import RecipeError
    from pag.registry import TASKS

    monkeypatch.setitem(TASKS, "translation", "pag.tasks.translation:TranslationTask")
    with pytest.raises(RecipeError, match=r"unknown key 'task.date' \(did you mean 'data'"):
        build_recipe({"task": {"name": "translation", "date": "x"}}, "test")
