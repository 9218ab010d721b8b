"""The Python API: order kept, bad inputs said, folders that Hugging Face users know."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pag
from pag.errors import InputError, PagError
from pag.generator import Generator


@pytest.fixture(scope="module")
def model(run: Path) -> Generator:
    return pag.load(str(run))


def questions(model: Generator) -> list[str]:
    return list(model.task.inputs("test"))


def test_outputs_come_in_the_order_of_the_inputs_whatever_the_batches(model: Generator) -> None:
    inputs = [" ".join(question.split()[3 * (i % 4) :]) for i, question in enumerate(questions(model))]
    one_by_one = [model.generate(text, beam=2)[0].text for text in inputs]
    assert [result.text for result in model.generate(inputs, beam=2, batch_size=3)] == one_by_one
    assert [result.text for result in model.generate(inputs, beam=2, batch_size=100)] == one_by_one


def test_alignments_are_there_when_asked_for_and_sum_to_one(model: Generator) -> None:
    [result] = model.generate(questions(model)[0], alignments=True)
    [output] = result.outputs
    assert output.alignment is not None and output.plan is not None
    assert output.alignment.shape == (len(output.tokens), len(output.source))
    np.testing.assert_allclose(output.alignment.sum(1), 1, atol=1e-5)
    assert output.plan.shape == (len(output.tokens), 3, len(output.source))
    assert output.switch is not None and output.switch[0] == 1
    assert output.source[-1] == "<end>"
    assert model.generate(questions(model)[0])[0].outputs[0].alignment is None


def test_pharaoh_pairs_each_output_token_with_where_it_looked_most() -> None:
    alignment = np.array([[0.1, 0.7, 0.2], [0.6, 0.1, 0.3], [0.2, 0.2, 0.6]])
    output = pag.Output("x y", 0.0, 0.0, ("a", "b", "<end>"), ("x", "y", "<end>"), alignment)
    assert output.pharaoh() == "1-0 0-1"


def test_an_empty_input_gives_an_empty_result(model: Generator) -> None:
    results = model.generate(["", questions(model)[0], "   "])
    assert [bool(result.outputs) for result in results] == [False, True, False]


def test_an_unknown_symbol_is_refused_by_place_and_name(model: Generator) -> None:
    with pytest.raises(InputError, match=r"input 2: symbol 3, 'x', is not in the vocabulary \('connected-to', "):
        model.generate([questions(model)[0], "1 connected-to x"])


def test_an_input_that_is_too_long_is_cut_with_a_warning(model: Generator) -> None:
    most = model.recipe.generate.max_source
    [result] = model.generate(" ".join(["1"] * (most + 5)), max_length=3)
    assert result.warning == f"{most + 6} tokens are more than generate.max_source = {most}: cut"
    assert len(result.outputs[0].source) == most


@pytest.mark.parametrize("option", ["beam", "n_best", "max_length", "temperature", "top_p"])
@pytest.mark.parametrize("value", [0, float("nan")])
def test_an_option_out_of_range_is_refused_by_name(model: Generator, option: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{option} must be above 0"):
        model.generate("1", **{option: value})


@pytest.mark.parametrize("option", ["length_penalty", "top_k", "seed"])
def test_an_option_below_0_is_refused_by_name(model: Generator, option: str) -> None:
    with pytest.raises(InputError, match=f"{option} must be at least 0, not -1"):
        model.generate("1", **{option: -1})


def test_a_device_that_is_not_here_is_refused(run: Path) -> None:
    for name in ("gpuu", "xpu"):
        with pytest.raises(PagError, match=f"device must be auto, cpu, cuda or cuda:1, not {name}"):
            pag.load(str(run), name)
    with pytest.raises(PagError, match=r"no cuda:99 here \(CUDA devices: \d+\): use cpu or auto"):
        pag.load(str(run), "cuda:99")


def test_score_agrees_with_what_search_found(model: Generator) -> None:
    inputs = questions(model)
    outputs = [result.outputs[0] for result in model.generate(inputs, beam=3)]
    scores = model.score(inputs, [output.text for output in outputs])
    np.testing.assert_allclose([s.log_prob for s in scores], [o.log_prob for o in outputs], atol=1e-4)
    assert all(
        len(s.tokens) == len(s.log_probs) == len(o.text.split()) + 1 for s, o in zip(scores, outputs, strict=True)
    )


def test_score_wants_as_many_outputs_as_inputs(model: Generator) -> None:
    with pytest.raises(InputError, match="2 inputs but 1 outputs"):
        model.score(["1", "2"], ["1"])


def test_a_saved_model_loads_again_and_says_the_same(model: Generator, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "shared")
    again = Generator.from_pretrained(str(tmp_path / "shared"))
    inputs = questions(model)
    assert [r.text for r in again.generate(inputs)] == [r.text for r in model.generate(inputs)]
    assert (tmp_path / "shared" / "README.md").exists()  # the hub's model card
    model.save_pretrained(tmp_path / "shared")  # and again over it
    assert Generator.from_pretrained(str(tmp_path / "shared")).score(inputs, inputs)


def test_a_pushed_model_comes_back_from_the_hub(
    model: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hub:
        """Keeps in a folder what it is sent."""

        def __init__(self, token: str | None = None) -> None:
            assert token == "secret"

        def create_repo(self, repo_id: str, **options: object) -> SimpleNamespace:
            return SimpleNamespace(repo_id=repo_id)

        def upload_folder(self, *, folder_path: Path, **options: object) -> str:
            return str(shutil.copytree(folder_path, tmp_path / "hub"))

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **options: tmp_path / "hub")
    model.push_to_hub("someone/circuits", token="secret")
    again = Generator.from_pretrained("someone/circuits", token="secret")
    assert again.generate(questions(model)[:2]) == model.generate(questions(model)[:2])


def test_a_model_that_is_nowhere_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PagError, match="no folder and no model on the hub named nobody/nothing"):
        Generator.from_pretrained("nobody/nothing", local_files_only=True, cache_dir=tmp_path)


def test_importing_pag_does_not_import_torch() -> None:
    import subprocess
    import sys

    code = "import pag, pag.cli, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
