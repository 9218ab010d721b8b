"""Checkpoints: folders of safetensors and JSON that build their own model. No pickle.

A checkpoint is written under another name, made durable, and renamed; `last` and `best` are links
that are replaced in one step. So a kill at any moment leaves the previous ones whole.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from pag.config import Recipe, build_recipe
from pag.errors import CheckpointError, RunError
from pag.model import Seq2Seq
from pag.registry import TASKS, find
from pag.squeeze import restore
from pag.tasks.base import Task

FORMAT = 1
MANIFEST, CONFIG, WEIGHTS, TRAINING = "manifest.json", "config.json", "model.safetensors", "training.safetensors"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a whole folder or nothing, with the checksum of each file in its manifest."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name, content in {**files, MANIFEST: to_json(sums)}.items():
            write_durably(unfinished / name, content)
        _sync(unfinished)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        _sync(folder.parent)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise cannot_write(folder, error) from None


def check_free(folder: Path) -> None:
    """Refuse to put a model where anything but such a model is: writing a folder replaces the one that is there."""
    if not folder.exists():
        return
    if folder.resolve() == Path.cwd():
        raise CheckpointError(f"{folder} is the folder that you are in: choose another")
    inside = list(folder.iterdir()) if folder.is_dir() else [folder]
    names = {path.name for path in inside}
    model = {MANIFEST, WEIGHTS} <= names and TRAINING not in names and all(path.is_file() for path in inside)
    if inside and not model:
        raise CheckpointError(f"{folder} is there and is no model: choose another name")


def cannot_write(path: Path, error: OSError) -> RunError:
    what = "no space left on the disk" if error.errno == errno.ENOSPC else (error.strerror or str(error)).lower()
    return RunError(f"cannot write {path}: {what}; what was saved before is untouched")


def write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(unfinished, content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise cannot_write(path, error) from None


def point(link: Path, target: str) -> None:
    """Make `link` name `target`, in one step."""
    unfinished = link.with_name(f"{link.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(link)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def model_files(
    recipe: Recipe, task: Task, weights: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> dict[str, bytes]:
    """What a folder needs to build its own model."""
    config = {"format": FORMAT, "recipe": recipe.model_dump(mode="json"), **facts}
    files = {name: to_json(value) for name, value in task.files().items()}
    return {CONFIG: to_json(config), **files, WEIGHTS: pack(weights)}


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    return tensors_to_bytes({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


class Checkpoint:
    """A checkpoint folder, read and verified."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sums = self._json(MANIFEST)
        if not isinstance(sums, dict) or not {CONFIG, WEIGHTS} <= sums.keys():
            raise CheckpointError(f"{folder / MANIFEST} is damaged or was edited: it lists no {CONFIG} and {WEIGHTS}")
        self.files = {name: self._verified(name, checksum) for name, checksum in sums.items()}
        self.config = json.loads(self.files[CONFIG])
        if self.config.get("format") != FORMAT:
            theirs = self.config.get("format")
            raise CheckpointError(f"{folder} has checkpoint format {theirs}; this version reads format {FORMAT}")
        self.recipe = build_recipe(self.config["recipe"], f"{folder / CONFIG}")

    def tensors(self, name: str) -> dict[str, Tensor]:
        if name not in self.files:
            raise CheckpointError(f"{self.folder} has no {name}: it can be used but not resumed")
        try:
            return tensors_from_bytes(self.files[name])
        except SafetensorError as error:
            raise CheckpointError(f"{self.folder / name} is damaged: {error}") from None

    def task(self) -> Task:
        kept = {name: json.loads(content) for name, content in self.files.items() if name.endswith(".json")}
        try:
            return find(TASKS, self.recipe.task.name, "task").load(self.recipe.task, kept)
        except KeyError as error:
            raise CheckpointError(f"{self.folder} has no {error.args[0]}: the checkpoint is incomplete") from None

    def model(self, task: Task) -> Seq2Seq:
        model = Seq2Seq(self.recipe, len(task.source), len(task.target))
        load_weights(model, restore(self.tensors(WEIGHTS)), self.folder / WEIGHTS)
        return model

    def _verified(self, name: str, checksum: str) -> bytes:
        try:
            content = (self.folder / name).read_bytes()
        except OSError:
            raise CheckpointError(f"{self.folder / name} is missing: the checkpoint is incomplete") from None
        if hashlib.sha256(content).hexdigest() != checksum:
            raise CheckpointError(
                f"{self.folder / name} is damaged or was edited: its checksum is not the one in {MANIFEST}"
            )
        return content

    def _json(self, name: str) -> Any:
        path = self.folder / name
        try:
            return json.loads(path.read_bytes())
        except OSError:
            raise CheckpointError(f"{self.folder} is not a checkpoint: it has no {name}") from None
        except ValueError:
            raise CheckpointError(f"{path} is damaged: not JSON") from None


def load_weights(model: Seq2Seq, weights: Mapping[str, Tensor], where: Path) -> None:
    own = model.state_dict()
    for name in own.keys() | weights.keys():
        found = tuple(weights[name].shape) if name in weights else "nothing"
        wanted = tuple(own[name].shape) if name in own else "nothing"
        if found != wanted:
            raise CheckpointError(f"{where} does not fit its recipe: {name} is {found}, the model has {wanted}")
    model.load_state_dict({name: weights[name].to(own[name].dtype) for name in own})


def locate(run: str | Path) -> Path:
    """The checkpoint folder of a run: the best, or the last where there is no best; or the folder itself."""
    folder = Path(run)
    if not folder.is_dir():
        near = (
            sorted(str(path.parent) for path in folder.parent.glob("*/checkpoints")) if folder.parent.is_dir() else []
        )
        hint = f" (there are: {', '.join(near[:5])})" if near else "; `pag train RECIPE --out DIR` makes one"
        raise CheckpointError(f"no run or checkpoint folder at {folder}{hint}")
    for candidate in (folder, folder / "checkpoints" / "best", folder / "checkpoints" / "last"):
        if (candidate / MANIFEST).is_file():
            return candidate
    raise CheckpointError(f"{folder} holds no checkpoint yet: training has not saved one")


def average(run: Path, last: int, out: Path) -> list[int]:
    """Write a checkpoint with the mean weights of a run's last checkpoints; the updates they were made at."""
    check_free(out)
    folders = sorted(p for p in (run / "checkpoints").glob("*") if p.name.isdigit() and not p.is_symlink())[-last:]
    if len(folders) < last:
        raise CheckpointError(f"{run} keeps {len(folders)} checkpoints, not {last}: train with --set train.keep={last}")
    checkpoints = [Checkpoint(folder) for folder in folders]
    weights = [checkpoint.tensors(WEIGHTS) for checkpoint in checkpoints]
    means = {name: sum(each[name].double() for each in weights) / last for name in weights[0]}
    typed = {name: mean.to(weights[0][name].dtype) for name, mean in means.items()}  # type: ignore[union-attr]
    updates = [int(checkpoint.config["update"]) for checkpoint in checkpoints]
    newest = checkpoints[-1]
    write_folder(out, model_files(newest.recipe, newest.task(), typed, {"averaged": updates}))
    return updates
