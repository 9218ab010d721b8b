"""Numbers in words and digits: the pairs, and the whole path from raw text to scores in seconds."""

from pathlib import Path

import pytest
import torch
from rich.console import Console

import pag
from pag.config import build_recipe
from pag.evaluate import evaluate
from pag.registry import TASKS
from pag.run import Machine, train_run
from pag.tasks.numbers import NumbersSettings, NumbersTask, pairs, spell
from pag.text.alignment_stats import alignment_stats
from pag.text.word_alignment import word_alignment

SMALL = NumbersSettings(train=200, valid=20, test=20, subwords=80)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (19, "nineteen"),
        (40, "forty"),
        (91, "ninety-one"),
        (100, "one hundred"),
        (902, "nine hundred and two"),
        (12_006, "twelve thousand and six"),
        (100_100, "one hundred thousand one hundred"),
        (7_000_030, "seven million and thirty"),
        (342_107, "three hundred and forty-two thousand one hundred and seven"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert spell(number) == words


def test_different_numbers_have_different_names() -> None:
    assert len({spell(number) for number in range(0, 200_000, 7)}) == len(range(0, 200_000, 7))


def test_no_held_out_line_is_in_another_split() -> None:
    made = {split: {source for source, _ in lines} for split, lines in pairs(SMALL).items()}
    assert not made["train"] & made["valid"] and not made["train"] & made["test"] and not made["valid"] & made["test"]


def test_the_test_set_does_not_depend_on_the_training_set() -> None:
    assert pairs(SMALL.model_copy(update={"train": 9}))["test"] == pairs(SMALL)["test"]


def test_the_pairs_go_through_the_same_preparation_as_any_text() -> None:
    task = NumbersTask.build(SMALL)
    assert list(zip(task.inputs("test"), task.references("test"), strict=True)) == pairs(SMALL)["test"]
    for number, (source, target) in enumerate(pairs(SMALL)["train"][:20]):
        example = task.examples("train")[number]
        assert task.encode(source).source == example.source
        assert task.decode(example.target or ()) == target


@pytest.mark.parametrize("variant", ["pag", "rpag"])
def test_from_text_to_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    """Train a little, then generate, score and look at alignments from the checkpoint alone."""
    monkeypatch.setitem(TASKS, "numbers", "pag.tasks.numbers:NumbersTask")
    recipe = build_recipe(
        {
            "task": SMALL.model_dump(),
            "model": {"embedding": 16, "encoder": 24, "decoder": 24},
            "attention": {"name": variant, "k": 4, "hold_updates": 2},
            "train": {"max_updates": 6, "validate_every": 6, "batch_size": 16, "lr": 0.01, "monitor": "chrf"},
            "generate": {"max_length": 30, "beam": 2},
        },
        "numbers",
    )
    train_run(recipe, tmp_path / "run", "auto", Machine("cpu"), Console(quiet=True))
    model = pag.load(str(tmp_path / "run"), "cpu")
    results = model.generate(["twelve plus ninety-one", "seven"], alignments=True)
    assert all(isinstance(result.text, str) for result in results)
    outputs = [result.outputs[0] for result in results]
    assert outputs[0].source[-1] == "<end>"
    if any(len(output.tokens) > 1 for output in outputs):
        found = alignment_stats(outputs)
        assert 0 <= found.last_token <= 1 and found.replan_rate is not None
        assert word_alignment(outputs[0]).source[:2] == ("twelve", "plus")
    scores = evaluate(model, "test", limit=8)
    assert scores["examples"] == 8 and 0 <= scores["chrf"] <= 100 and scores["loss"] > 0
    assert not torch.isnan(torch.tensor(scores["perplexity"]))
