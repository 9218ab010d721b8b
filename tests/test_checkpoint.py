"""Checkpoints: whole or absent, verified, and built from nothing but their folder."""

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch

from pag import checkpoint as module
from pag.checkpoint import Checkpoint, locate, point, write_atomically, write_folder
from pag.errors import CheckpointError, RunError


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(locate(run), tmp_path / "copy"))


def test_a_checkpoint_builds_its_own_model(run: Path) -> None:
    checkpoint = Checkpoint(locate(run))
    model = checkpoint.model(checkpoint.task())
    weights = checkpoint.tensors("model.safetensors")
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_holds_no_pickle(run: Path) -> None:
    names = {path.name for path in locate(run).iterdir()}
    assert {Path(name).suffix for name in names} == {".json", ".safetensors"}


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "config.json", "vocabulary.json"])
def test_a_truncated_file_is_refused_by_name(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        Checkpoint(copy)


def test_an_edited_file_is_refused_by_name(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["recipe"]["attention"]["k"] = 4
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"config\.json is damaged or was edited"):
        Checkpoint(copy)


def test_a_missing_file_is_refused_by_name(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        Checkpoint(copy)


@pytest.mark.parametrize("content", ["{}", "[]", '{"config.json": 1}', "null"])
def test_an_edited_manifest_is_refused(copy: Path, content: str) -> None:
    (copy / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged or was edited"):
        Checkpoint(copy)


def test_a_manifest_without_the_vocabulary_is_refused(copy: Path) -> None:
    sums = json.loads((copy / "manifest.json").read_text())
    del sums["vocabulary.json"]
    (copy / "manifest.json").write_text(json.dumps(sums))
    with pytest.raises(CheckpointError, match=r"has no vocabulary\.json"):
        Checkpoint(copy).task()


def test_a_model_may_be_written_anew_but_takes_the_place_of_nothing_else(tmp_path: Path) -> None:
    model, checkpoint, mine = (tmp_path / name for name in ("model", "checkpoint", "mine"))
    write_folder(model, {module.WEIGHTS: b"1"})
    write_folder(checkpoint, {module.WEIGHTS: b"1", module.TRAINING: b"1"})
    write_folder(mine / "model", {module.WEIGHTS: b"1"})
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for free in (model, tmp_path / "new", tmp_path / "empty"):
        module.check_free(free)
    for taken in (checkpoint, mine, tmp_path, tmp_path / "file"):
        with pytest.raises(CheckpointError, match=f"{taken} is there and is no model: choose another name"):
            module.check_free(taken)
    with pytest.raises(CheckpointError, match="the folder that you are in"):
        module.check_free(Path("."))


def test_weights_of_another_shape_are_refused(run: Path) -> None:
    checkpoint = Checkpoint(locate(run))
    model = checkpoint.model(checkpoint.task())
    weights = checkpoint.tensors("model.safetensors")
    weights["embedding.weight"] = weights["embedding.weight"][:, :3]
    with pytest.raises(CheckpointError, match=r"embedding\.weight is \(12, 3\), the model has \(12, 8\)"):
        module.load_weights(model, weights, Path("x"))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, run: Path) -> None:
    with pytest.raises(CheckpointError, match="no run or checkpoint folder"):
        locate(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=f"there are: {run}"):
        locate(run.parent / "tinny")
    with pytest.raises(CheckpointError, match="holds no checkpoint yet"):
        locate(tmp_path)


def test_a_full_disk_is_one_line_and_leaves_the_last_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "c", {"a.json": b"1"})

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_durably", full)
    with pytest.raises(RunError, match="no space left on the disk"):
        write_folder(tmp_path / "c", {"a.json": b"2"})
    with pytest.raises(RunError, match="no space left on the disk"):
        write_atomically(tmp_path / "c" / "b.json", b"2")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.json", "c", "manifest.json"]
    assert (tmp_path / "c" / "a.json").read_bytes() == b"1"


def test_a_kill_while_writing_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after some files: the old folder is whole, and the next save clears the rest away."""
    write_folder(tmp_path / "c", {"a.json": b"1", "b.json": b"1"})
    written = []

    def die(path: Path, content: bytes) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path.write_bytes(content))

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_durably", die)
        with pytest.raises(KeyboardInterrupt):
            write_folder(tmp_path / "c", {"a.json": b"2", "b.json": b"2"})
    assert (tmp_path / "c" / "a.json").read_bytes() == b"1"
    write_folder(tmp_path / "c", {"a.json": b"3", "b.json": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_link_is_replaced_in_one_step(tmp_path: Path) -> None:
    point(tmp_path / "last", "1")
    point(tmp_path / "last", "2")
    assert (tmp_path / "last").readlink() == Path("2")
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
