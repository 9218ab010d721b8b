"""Scores of a split: what they are made of, and lines that no model can take."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from pag.cli import app
from pag.config import build_recipe
from pag.errors import DataError
from pag.evaluate import as_lines, evaluate
from pag.generator import Generator
from pag.model import Seq2Seq
from pag.prepare.reading import Corpus
from pag.prepare.settings import PrepareSettings
from pag.prepare.translation import prepare
from pag.tasks.translation import TranslationTask

ENGLISH = ["the dog sleeps", "the cat sleeps", "a dog and a cat"] * 3


def generator(folder: Path, held_out: list[str]) -> Generator:
    """An untrained model, and a held-out set with these sources."""
    texts = {"train": (ENGLISH, ENGLISH), "valid": (held_out, ["der Hund"] * len(held_out))}
    corpora = {}
    for split, sides in texts.items():
        paths = [folder / f"{split}.{side}" for side in range(2)]
        for path, lines in zip(paths, sides, strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        corpora[split] = Corpus(paths[:1], paths[1:])
    prepare(PrepareSettings(subwords=40), corpora, folder / "prepared")
    told = {
        "task": {"name": "translation", "data": str(folder / "prepared")},
        "model": {"embedding": 8, "encoder": 8, "decoder": 8},
        "attention": {"name": "pag", "k": 3},
        "generate": {"max_length": 12},
    }
    recipe = build_recipe(told, "small")
    task = TranslationTask.build(recipe.task)
    torch.manual_seed(3)
    return Generator(recipe, task, Seq2Seq(recipe, len(task.source), len(task.target)), "cpu")


def test_a_line_that_the_model_cannot_take_is_an_empty_output_and_counted(tmp_path: Path) -> None:
    model = generator(tmp_path, ["a dog", "", "漢字", "a cat"])
    found = evaluate(model, "valid", beam=2)
    scores = model.score(["a dog", "a cat"], ["der Hund"] * 2)
    assert (found["examples"], found["unanswered"]) == (4, 2)
    assert found["loss"] == pytest.approx(-sum(score.log_prob for score in scores) / 2)
    assert "unanswered" not in evaluate(model, "valid", limit=1)


def test_a_split_of_which_no_line_can_be_taken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the model can take no line of 'valid': no character of '漢字' is known"):
        evaluate(generator(tmp_path, ["", "漢字"]), "valid")


def test_the_likelihood_per_token_is_the_logarithm_of_the_perplexity(tmp_path: Path) -> None:
    found = evaluate(generator(tmp_path, ["a dog"]), "valid")
    assert found["nll_per_token"] == pytest.approx(found["loss"] / len("der Hund<")) == math.log(found["perplexity"])


def test_where_in_a_word_it_re_plans_is_told_to_people_too() -> None:
    shown = as_lines({"beam": 2, "loss": 1.0 / 3, "exact": 0.5, "replans_by_place": [1.0, 0.25, None]}, ["exact"])
    assert [line.split() for line in shown] == [
        ["beam", "2"], ["loss", "0.3333"], ["exact", "50.00%"], ["replans_by_place", "100.00%", "25.00%", "-"],
    ]  # fmt: skip


def test_a_model_that_was_handed_on_without_its_data_still_draws_a_text(tmp_path: Path) -> None:
    generator(tmp_path, ["a dog"]).save_pretrained(tmp_path / "model")
    shutil.rmtree(tmp_path / "prepared")
    draw = ["plot", "alignments", str(tmp_path / "model"), "--out", str(tmp_path / "a.png")]
    assert CliRunner().invoke(app, [*draw, "--text", "a dog sleeps"], catch_exceptions=False).exit_code == 0
    assert (tmp_path / "a.png").is_file()
    with pytest.raises(DataError, match=r"no prepared folder at .*prepared"):
        CliRunner().invoke(app, draw, catch_exceptions=False)
