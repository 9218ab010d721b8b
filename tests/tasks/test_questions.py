"""Question generation as a task: lines of JSON in, questions out, their scores; and made-up facts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pag
from pag.config import build_recipe, read_recipe
from pag.data.document import Document
from pag.errors import DataError, InputError
from pag.evaluate import evaluate
from pag.ops.unroll import fused, reference
from pag.prepare import questions, squad
from pag.prepare.settings import QuestionSettings
from pag.tasks.facts import FactsSettings, FactsTask, prepared_facts
from pag.tasks.questions import QuestionsSettings, QuestionsTask, of_sentence, parse
from pag.text.vocabulary import END, UNKNOWN
from pag.textio import as_json
from pointing import K, documents, pointer
from small import noise
from squad import FOX, FOXES, GOOD, KING, article, write
from tiny import train


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> QuestionsTask:
    folder = tmp_path_factory.mktemp("squad")
    read = squad.read(write(folder / "a.json", article("King", (KING, GOOD)), article("Fox", (FOX, FOXES))))
    questions.prepare(QuestionSettings(shortlist=6), {"train": read, "valid": read, "test": read}, folder / "out")
    return QuestionsTask.build(QuestionsSettings(data=str(folder / "out")))


def line(**given: Any) -> str:
    return json.dumps({"document": KING, **given})


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"answer": "Zorro"}, ["Zorro"]),
        ({"answer": "Zorro", "answer_start": 42}, ["Zorro"]),
        ({"answer": "The old King", "answer_start": 0}, ["The", "old", "King"]),
        ({"answer_start": 26}, ["Paris"]),
        ({"answer_start": 28}, ["Paris"]),
        ({"answer": "a"}, ["a"]),  # not of "saw" or "Paris"
        ({"answer": "aris"}, ["Paris"]),
        ({"answer": "Nobody knew."}, ["Nobody", "knew", "."]),
    ],
)
def test_an_answer_may_be_given_as_text_or_by_its_place(
    task: QuestionsTask, given: dict[str, Any], answer: list[str]
) -> None:
    example = task.encode(line(**given))
    assert example.spelling[slice(*example.answer)] == answer
    assert "answer_start" not in given or parse(line(**given)).start == given["answer_start"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("What?", "is not JSON"),
        ("[1]", "there is no text 'document'"),
        ('{"document": 3, "answer": "3"}', "there is no text 'document'"),
        ('{"document": "a b"}', "there is neither an 'answer' nor an 'answer_start'"),
        ('{"document": "a b", "answer": "c"}', "the answer 'c' does not occur in the document"),
        ('{"document": "a b", "answer": "b", "answer_start": 0}', "the answer 'b' is not at character 0"),
        ('{"document": "a b", "answer": "b", "answer_start": -1}', "is not at character -1"),
        ('{"document": "a b", "answer": " "}', "'answer' must be some text"),
        ('{"document": "a b", "answer": 7}', "'answer' must be some text"),
        ('{"document": "a b", "answer_start": 1}', "no word is at character 1 of the document, which has 3"),
        ('{"document": "a b", "answer_start": 99}', "no word is at character 99"),
        ('{"document": "a b", "answer_start": "1"}', "'answer_start' must be a whole number, not '1'"),
        ("[" * 100_000, "is not JSON"),
        ('{"document": "a \\udc80 b", "answer": "b"}', r"'document' holds half a character \(\\udc80\)"),
    ],
)
def test_a_line_that_cannot_be_used_says_why(task: QuestionsTask, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        task.encode(text)


def test_a_question_of_known_and_copied_words_comes_back_as_it_was(task: QuestionsTask) -> None:
    for text, reference_ in zip(task.inputs("test"), task.references("test"), strict=True):
        example = task.pair(text, reference_)
        if UNKNOWN not in example.target:
            assert task.decode(example.target, example, example.locations) == reference_


def test_copied_words_are_spelled_as_in_the_document(task: QuestionsTask) -> None:
    example = task.encode(line(answer="1874"))
    king = example.spelling.index("King")
    ids = [example.words[king], END]
    assert task.decode(ids, example) == "King"
    foxes = example.spelling.index("Foxes")
    zorro = example.spelling.index("Zorro")
    ids = [example.words[zorro], example.words[foxes], END]
    assert task.decode(ids, example, [zorro, foxes, -1]) == "Zorro Foxes"


def test_a_common_word_loses_the_capital_of_a_sentence_s_start(task: QuestionsTask) -> None:
    text = "Who knew Zorro? Who saw him there, Who?"
    example = task.encode(json.dumps({"document": text, "answer": "him"}))
    who, zorro = task.target.ids["who"], example.words[2]
    assert task.decode([zorro, who, END], example, [2, 4, -1]) == "Zorro who"
    assert task.decode([zorro, who, END], example, [2, 9, -1]) == "Zorro Who"
    assert task.decode([who, END], example, [0, len(example.spelling)]) == "Who"
    assert task.decode([UNKNOWN, END], example) == "\ufffd"


def test_an_input_is_shown_by_its_answer_and_whole_words_around_it(task: QuestionsTask) -> None:
    document = "The Nile is a river in Africa. It is 6,650 km long and flows north."
    assert task.brief(line(document=document, answer="6,650 km"), 40) == "… Africa. It is [6,650 km] long and flows …"
    assert task.brief(line(document=document, answer="The Nile"), 300) == "[The Nile]" + document[8:]
    assert task.brief(line(document="It rains.", answer="rains")) == "It [rains]."


def test_labels_are_words(task: QuestionsTask) -> None:
    example = task.encode(line(answer="1874"))
    ids = [example.words[example.spelling.index("King")], END]
    assert task.target_labels(ids, example) == ["King", "<end>"]
    assert task.source_labels(example.source, example) == [*example.spelling, "<end>"]


def test_scores_by_hand(task: QuestionsTask) -> None:
    inputs = [line(answer="Paris"), line(answer="the Foxes"), line(answer="The old King")]
    right = ["Where did he go?", "What club did Zorro found?", "Who saw Zorro?"]
    scores = task.score(["Where did he go?", "What club did the foxes found?", "who saw Zorro ?"], inputs, right)
    assert scores["answer_leaks"] == pytest.approx(100 / 3)  # "foxes" is a leak
    assert (
        task.score(["Who are the wolves?"], [line(answer="the Foxes")], ["Who?"])["answer_leaks"] == 0
    )  # "the" is none
    assert scores["bleu1"] == pytest.approx(100 * 14 / 16)
    assert task.score(right, inputs, right)["bleu4"] == pytest.approx(100)
    assert set(task.metrics) == set(scores)


def test_a_question_may_be_any_of_those_about_its_sentence(task: QuestionsTask) -> None:
    inputs, right = [line(answer="Paris"), line(answer="King")], ["Where did he see him?", "Who saw Zorro in Paris?"]
    scores = task.score([right[1], right[1]], inputs, right)
    assert scores["bleu4_of_sentence"] == pytest.approx(100) and scores["bleu4"] < 99


def test_the_questions_about_one_sentence_are_each_other_s_references(task: QuestionsTask) -> None:
    given = [parse(line(answer=answer)) for answer in ("Paris", "1874", "King")]
    assert of_sentence(given, [["a"], ["b"], ["c"]]) == [[["a"], ["c"]], [["b"]], [["a"], ["c"]]]


def test_a_checkpoint_s_files_make_the_same_task(task: QuestionsTask) -> None:
    again = QuestionsTask.load(task.settings, json.loads(json.dumps(task.files())))
    text = line(answer="1874")
    assert again.encode(text) == task.encode(text)
    assert again.max_document == task.max_document


def test_data_of_other_vocabularies_is_refused(task: QuestionsTask, tmp_path: Path) -> None:
    read = squad.read(write(tmp_path / "a.json", article("King", (KING, GOOD))))
    questions.prepare(QuestionSettings(shortlist=3), {"train": read, "valid": read}, tmp_path / "out")
    with pytest.raises(DataError, match="are not this model's"):
        task.with_data(str(tmp_path / "out")).examples("valid")
    with pytest.raises(DataError, match="data is not set"):
        QuestionsTask.build(QuestionsSettings())


# made-up facts

SMALL = FactsSettings(train=60, valid=8, test=8)
TINY = {
    "task": {"name": "facts", "train": 60, "valid": 8, "test": 8},
    "model": {"embedding": 8, "encoder": 10, "decoder": 10, "readout": "pointer", "answer": "mean"},
    "attention": {"name": "pag", "k": 3, "read_size": 8, "hold_updates": 2},
    "loss": {"likelihood": "paper"},
    "train": {"max_updates": 6, "batch_size": 8, "lr": 0.01, "validate_every": 3, "save_every": 3, "log_every": 1},
    "generate": {"max_length": 12, "batch_size": 4, "unknown": False, "beam": 2},
}


def test_facts_can_be_asked_about_by_copying() -> None:
    task = FactsTask.build(SMALL)
    for split in ("train", "valid", "test"):
        for text, example in zip(task.inputs(split), task.examples(split), strict=False):
            given = json.loads(text)
            assert given["document"][given["answer_start"] :].startswith(given["answer"])
            assert UNKNOWN not in example.target
    names = {word for text in task.inputs("test") for word in json.loads(text)["answer"].split()}
    assert names - set(task.source.symbols), "some names must be new"
    assert prepared_facts(SMALL) is prepared_facts(SMALL)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    train(folder, build_recipe(TINY, "tiny"))
    return folder


def test_a_trained_model_is_scored_by_both_likelihoods(run: Path) -> None:
    model = pag.load(run, "cpu")
    found = evaluate(model, "test", beam=2)
    inputs = list(model.task.inputs("test"))
    scores = model.score(inputs, list(model.task.references("test")))
    assert found["loss"] == found["nll_paper"] == pytest.approx(-np.mean([score.paper_log_prob for score in scores]))
    assert found["nll_marginal"] == pytest.approx(-np.mean([score.log_prob for score in scores]))
    assert found["nll_paper"] > found["nll_marginal"]
    words = np.concatenate([score.log_probs for score in scores])  # and the end of each question
    assert found["perplexity"] == pytest.approx(np.exp(-words.mean()))
    shares = [result.outputs[0].copy_share[:-1] for result in model.generate(inputs, beam=2)]
    assert found["copy_rate"] == pytest.approx(np.concatenate(shares).mean())  # of words, not of the end
    assert 0 <= found["answer_leaks"] <= 100
    assert {"bleu1", "bleu4", "rouge_l", "exact", "perplexity"} <= found.keys()


def test_a_model_of_facts_is_scored_on_the_folder_that_is_asked_for(run: Path, task: QuestionsTask) -> None:
    model = pag.load(run, "cpu")
    model.task = model.task.with_data(str(task.data.folder))
    assert evaluate(model, "test", beam=1)["examples"] == 5
    with pytest.raises(DataError, match="no prepared folder at nowhere"):
        model.task.with_data("nowhere")


def test_an_output_says_what_was_copied_and_from_where(run: Path) -> None:
    model = pag.load(run, "cpu")
    inputs = list(model.task.inputs("test"))
    for text, result in zip(inputs, model.generate(inputs, beam=3), strict=True):
        best, example = result.outputs[0], model.task.encode(text)
        assert isinstance(example, Document)
        assert best.copied is not None and best.copy_share is not None
        assert len(best.copied) == len(best.tokens) == len(best.copy_share)
        assert best.source == (*example.spelling, "<end>")
        for token, place, share in zip(best.tokens[:-1], best.copied, best.copy_share, strict=False):
            assert (place >= 0) == (share > 0.5)
            assert place < 0 or best.source[place].lower() == token.lower()


def test_a_question_scored_alone_has_the_score_it_was_found_with(run: Path) -> None:
    model = pag.load(run, "cpu")
    inputs = list(model.task.inputs("test"))[:3]
    outputs = [result.outputs[0] for result in model.generate(inputs, beam=2)]
    for output, score in zip(outputs, model.score(inputs, [output.text for output in outputs]), strict=True):
        if len(score.tokens) == len(output.tokens):
            np.testing.assert_allclose(score.log_prob, output.log_prob, atol=1e-4)
            assert score.paper_log_prob is not None and score.paper_log_prob <= score.log_prob + 1e-5


def test_a_document_that_is_too_long_is_cut_around_its_answer(run: Path) -> None:
    model = pag.load(run, "cpu")
    model.recipe = model.recipe.model_copy(
        update={"generate": model.recipe.generate.model_copy(update={"max_source": 10})}
    )
    text = json.dumps({"document": "so " * 40 + "Zorro slept." + " and so" * 40, "answer": "Zorro"})
    [result] = model.generate(text)
    assert "more than generate.max_source = 10: cut" in result.warning
    assert len(result.outputs[0].source) == 10 and "Zorro" in result.outputs[0].source


def test_a_document_cut_as_in_training_is_told_and_its_places_can_be_found(run: Path) -> None:
    """The model's documents have 660 words; 700 before the answer are some too many."""
    model = pag.load(run, "cpu")
    text = json.dumps({"document": "so " * 700 + "Zorro slept.", "answer": "Zorro"})
    [result] = model.generate(text, beam=1)
    assert result.warning == "703 words are more than the 660 that the model was prepared for: cut around the answer"
    told = as_json(result, records=False)["outputs"][0]
    assert told["left_out"] == (43, 0) and told["answer"][0] + told["left_out"][0] == 700
    assert not model.generate(json.dumps({"document": "Zorro slept.", "answer": "Zorro"}))[0].warning


@pytest.mark.parametrize("likelihood", ["paper", "marginal"])
@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_the_fused_pass_gives_a_copying_model_the_same_gradients(name: str, likelihood: str) -> None:
    from pag.losses import losses

    gradients = []
    for unroll in (reference.unroll, fused.unroll):
        built, batch = pointer(name, likelihood=likelihood), documents()
        built.unroll = unroll
        forward = built(batch, noise(4, 8, K))
        recipe = replace_likelihood(likelihood, name)
        losses(forward, batch, recipe, 0.1).total.backward()
        gradients.append({n: p.grad for n, p in built.named_parameters()})
    for parameter, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][parameter], expected, rtol=1e-8, atol=1e-10)


def replace_likelihood(likelihood: str, name: str) -> Any:
    return build_recipe({**TINY, "attention": {"name": name}, "loss": {"likelihood": likelihood}}, "tiny")


@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_the_recipes_have_the_paper_s_sizes(name: str) -> None:
    recipe = read_recipe(f"questions/{name}")
    assert (recipe.model.decoder, recipe.model.encoder, recipe.model.embedding) == (800, 800, 600)
    assert recipe.attention.name == name and recipe.train.weight_decay == 5e-5
    settings = QuestionSettings()
    assert (settings.documents, settings.shortlist, settings.max_document) == (64_000, 2_000, 660)
    assert recipe.generate.max_source > settings.max_document
