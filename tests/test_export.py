"""Models to hand on: small, described, and checked by what they once said."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import pag
from pag.checkpoint import WEIGHTS, locate
from pag.cli import app
from pag.errors import CheckpointError, DataError, InputError
from pag.export import CARD, EXAMPLES, Card, changed, export
from pag.squeeze import restore, squeeze

MODELS = sorted(path.parent for path in (Path(__file__).parents[1] / "models").glob("*/manifest.json"))


def test_a_byte_a_weight_is_off_by_half_a_step_of_its_row_at_most() -> None:
    weight = torch.tensor([[1.27, -0.5, 0.004], [100.0, 0.0, -127.0]])
    stored = squeeze({"w": weight, "b": torch.tensor([0.5])}, "int8")
    assert stored["w"].tolist() == [[127, -50, 0], [100, 0, -127]]
    back = restore(stored)
    assert back.keys() == {"w", "b"}
    torch.testing.assert_close(back["w"], torch.tensor([[1.27, -0.5, 0.0], [100.0, 0.0, -127.0]]))


def test_a_row_of_zeros_stays_zero() -> None:
    assert torch.equal(restore(squeeze({"w": torch.zeros(2, 3)}, "int8"))["w"], torch.zeros(2, 3))


@pytest.mark.parametrize(("kind", "share"), [("float32", 1.0), ("float16", 0.5), ("int8", 0.3)])
def test_an_exported_model_is_small_and_gives_its_examples(run: Path, tmp_path: Path, kind: str, share: float) -> None:
    out = export(run, tmp_path / "model", kind)
    whole = (locate(run) / WEIGHTS).stat().st_size
    assert (out / WEIGHTS).stat().st_size <= whole * share + 8_000  # names and scales
    assert changed(out) == []
    assert json.loads((out / EXAMPLES).read_bytes())


def test_half_precision_changes_no_output(run: Path, tmp_path: Path) -> None:
    theirs, ours = pag.load(run), pag.load(export(run, tmp_path / "model"))
    inputs = theirs.task.inputs("test")[:4]
    assert [r.text for r in ours.generate(inputs)] == [r.text for r in theirs.generate(inputs)]


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_an_exported_model_gives_texts_nearly_their_probability(run: Path, tmp_path: Path, kind: str) -> None:
    theirs, ours = pag.load(run), pag.load(export(run, tmp_path / "model", kind))
    inputs, outputs = theirs.task.inputs("test")[:8], theirs.task.references("test")[:8]
    for new, old in zip(ours.score(inputs, outputs), theirs.score(inputs, outputs), strict=True):
        assert new.log_prob == pytest.approx(old.log_prob, rel=0.02)


def test_a_change_is_told(run: Path, tmp_path: Path) -> None:
    out = export(run, tmp_path / "model")
    examples = json.loads((out / EXAMPLES).read_bytes())
    examples[0]["log_prob"] -= 1
    (out / EXAMPLES).write_text(json.dumps(examples))
    [line] = changed(out)
    assert examples[0]["input"] in line


def test_the_card_says_what_the_model_is(run: Path, tmp_path: Path) -> None:
    out = export(run, tmp_path / "circuits", "int8", Card("Made of graphs.", "mit", {"exact": 0.25, "split": "test"}))
    card = (out / CARD).read_text()
    for part in (
        "license: mit",
        "# circuits",
        "Made of graphs.",
        "| weights | int8",
        "| exact | 0.25 |",
        "## Examples",
    ):
        assert part in card


def test_a_card_s_tables_survive_signatures_and_lists(run: Path, tmp_path: Path) -> None:
    scores = {"bleu": 12.34567, "places": [0.25, 1.0, 0.123456], "signature": "a:1|b:2"}
    card = (export(run, tmp_path / "m", card=Card(scores=scores)) / CARD).read_text("utf-8")
    assert "| bleu | 12.35 |" in card and "| places | 0.25, 1, 0.1235 |" in card and "| signature | a:1\\|b:2 |" in card


def test_a_model_s_examples_are_there_where_its_data_is_not(run: Path, tmp_path: Path) -> None:
    model = pag.load(export(run, tmp_path / "m", inputs=["1-2 2-3 3-1 start 1 2"]))
    assert model.examples == ["1-2 2-3 3-1 start 1 2"] and len(model.inputs(2)) == 2  # a task that makes its data

    def absent(split: str) -> Any:
        raise DataError("no prepared folder")

    model.task.inputs = absent  # type: ignore[method-assign]
    assert model.inputs(2) == model.examples
    with pytest.raises(DataError, match="no prepared folder"):
        model.inputs(2, "valid")
    model.examples = []
    with pytest.raises(DataError, match="no prepared folder"):
        model.inputs(2)


def test_examples_that_are_none_are_refused(run: Path, tmp_path: Path) -> None:
    out = export(run, tmp_path / "m")
    for wrong in ("{", '{"input": 1}', '[{"input": 1}]', "[1]"):
        (out / EXAMPLES).write_text(wrong)
        with pytest.raises(CheckpointError, match="does not hold a model's examples"):
            pag.load(out)


def test_the_command_refuses_what_it_cannot_use(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--weights must be one of float32, float16, int8, not int4"):
        export(run, tmp_path / "model", "int4")
    assert not (tmp_path / "model").exists()
    (tmp_path / "scores.json").write_text("no")
    result = CliRunner().invoke(
        app, ["export", str(run), str(tmp_path / "m"), "--scores", str(tmp_path / "scores.json")]
    )
    assert isinstance(result.exception, InputError)
    assert "holds no scores" in str(result.exception)


def test_an_export_never_replaces_what_is_no_model(run: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="is no model: choose another name"):
        export(run, tmp_path)
    with pytest.raises(CheckpointError, match="is no model: choose another name"):
        export(run, run)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_a_shipped_model_still_gives_its_stored_outputs(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 12_000_000
    assert json.loads((folder / EXAMPLES).read_bytes())
    assert changed(folder) == []


def test_a_card_tells_of_the_model_and_not_of_the_machine(run: Path, tmp_path: Path) -> None:
    card = Card("What it is.", scores={"exact": 0.5, "sentences_per_second": 12.0})
    told = (export(run, tmp_path / "model", card=card) / CARD).read_text()
    assert "What it is." in told and "| exact | 0.5 |" in told and "sentences_per_second" not in told
