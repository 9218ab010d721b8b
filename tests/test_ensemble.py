"""Several models as one, and several checkpoints as one."""

from pathlib import Path

import numpy as np
import pytest
import torch

import pag
from pag.checkpoint import Checkpoint, average
from pag.ensemble import mean
from pag.errors import CheckpointError
from tiny import tiny, train


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of another variant and seed with the same vocabulary, which keeps three checkpoints."""
    folder = tmp_path_factory.mktemp("other") / "rpag"
    train(folder, tiny(attention={"name": "rpag"}, train={"seed": 3, "keep": 3}))
    return folder


def test_the_mean_of_probabilities_by_hand() -> None:
    found = mean([torch.tensor([0.2, 0.8]).log(), torch.tensor([0.6, 0.4]).log()]).exp()
    torch.testing.assert_close(found, torch.tensor([0.4, 0.6]))


def test_a_model_together_with_itself_is_itself(run: Path) -> None:
    alone, twice = pag.load(str(run)), pag.load(str(run), ensemble=[str(run)])
    inputs = list(alone.task.inputs("test"))
    for one, two in zip(
        alone.generate(inputs, beam=3, n_best=3), twice.generate(inputs, beam=3, n_best=3), strict=True
    ):
        assert [o.text for o in one.outputs] == [o.text for o in two.outputs]
        np.testing.assert_allclose([o.log_prob for o in one.outputs], [o.log_prob for o in two.outputs], atol=1e-4)


def test_what_an_ensemble_finds_is_scored_as_the_mean_of_its_models(run: Path, other: Path) -> None:
    together = pag.load(str(run), ensemble=[str(other)])
    inputs = list(together.task.inputs("test"))
    outputs = [result.outputs[0] for result in together.generate(inputs, beam=4)]
    scores = together.score(inputs, [output.text for output in outputs])
    np.testing.assert_allclose([s.log_prob for s in scores], [o.log_prob for o in outputs], atol=1e-4)
    singles = [pag.load(str(each)).score(inputs, [o.text for o in outputs]) for each in (run, other)]
    for n, score in enumerate(scores):
        tokens = [np.exp(single[n].log_probs) for single in singles]
        np.testing.assert_allclose(np.exp(score.log_probs), (tokens[0] + tokens[1]) / 2, atol=1e-5)


def test_models_with_other_vocabularies_do_not_decode_together(run: Path, tmp_path: Path) -> None:
    train(tmp_path / "larger", tiny(task={"nodes": 5}, train={"max_updates": 1}))
    with pytest.raises(CheckpointError, match="their vocabularies differ"):
        pag.load(str(run), ensemble=[str(tmp_path / "larger")])


def test_an_averaged_model_has_the_mean_weights_and_works(other: Path, tmp_path: Path) -> None:
    updates = average(other, 3, tmp_path / "averaged")
    assert updates == [3, 4, 6]
    parts = [Checkpoint(other / "checkpoints" / f"{u:08d}").tensors("model.safetensors") for u in updates]
    found = Checkpoint(tmp_path / "averaged").tensors("model.safetensors")
    for name, weight in found.items():
        torch.testing.assert_close(weight, torch.stack([part[name] for part in parts]).mean(0))
    assert average(other, 2, tmp_path / "two") == [4, 6]  # the last ones
    model = pag.load(str(tmp_path / "averaged"))
    assert model.generate(list(model.task.inputs("test"))[:2])


def test_an_average_never_replaces_its_run(other: Path) -> None:
    with pytest.raises(CheckpointError, match="is no model: choose another name"):
        average(other, 3, other)
    assert (other / "checkpoints" / "last").exists()


def test_averaging_more_checkpoints_than_are_kept_says_how_to_keep_them(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"not 9: train with --set train\.keep=9"):
        average(run, 9, tmp_path / "averaged")
