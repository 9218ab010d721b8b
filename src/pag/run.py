"""A run: a folder with a recipe, a log and checkpoints, trained by one live process group at a time."""

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.console import Console

from pag.checkpoint import MANIFEST, Checkpoint, cannot_write, to_json, write_atomically
from pag.config import Recipe
from pag.errors import CheckpointError, RunError, nearest
from pag.model import Seq2Seq
from pag.ops.unroll import choose
from pag.registry import TASKS, find
from pag.tasks.base import Task
from pag.train import Trainer
from pag.vectors import fill

# what may differ between a checkpoint's recipe and the one that resumes it: nothing that changes the model's course
FREE = {f"train.{key}" for key in ("max_updates", "log_every", "validate_every", "save_every", "samples", "keep")} | {
    f"train.{key}" for key in ("patience", "target", "validate_examples", "backend")
}
ACCELERATORS = ("auto", "cpu", "cuda", "gpu", "mps")
PRECISIONS = {"float32": "32-true", "bfloat16": "bf16-mixed"}


@dataclass(frozen=True)
class Machine:
    """What a run runs on."""

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1


@dataclass(frozen=True)
class Outcome:
    reason: str
    signal: int | None
    folder: Path


def train_run(recipe: Recipe, folder: Path, resume: str, machine: Machine, console: Console) -> Outcome:
    """Train a recipe in a folder, from the start or from its last checkpoint."""
    if (folder / MANIFEST).is_file():
        raise RunError(f"{folder} holds a model: choose another --out")
    with in_use(folder):
        fabric = launch(recipe, machine)
        if not fabric.is_global_zero:
            console = Console(quiet=True)
        task = find(TASKS, recipe.task.name, "task").build(recipe.task)
        model = Seq2Seq(recipe, len(task.source), len(task.target))
        last = folder / "checkpoints" / "last"
        if recipe.model.vectors and not last.exists():
            start_from_vectors(model, task, Path(recipe.model.vectors).expanduser(), console)
        trainer = Trainer(fabric, recipe, task, model, folder, console)
        model.unroll, backend = choose(recipe.train.backend, fabric.device, model.decoder)
        if last.exists():
            resume_from(trainer, last, resume, recipe)
        _announce(trainer, fabric, backend, console)
        if fabric.is_global_zero:
            write_atomically(folder / "recipe.json", to_json(recipe.model_dump(mode="json")))
        fabric.barrier()
        reason = trainer.fit()
        if fabric.is_global_zero:
            write_atomically(folder / "summary.json", to_json(summary(trainer, reason)))
        fabric.barrier()
        return Outcome(reason, trainer.signal, folder)


def start_from_vectors(model: Seq2Seq, task: Task, path: Path, console: Console) -> None:
    tables = [(model.encoder.embedding, task.source), (model.embedding, task.target)]
    source, target = fill(tables, path)
    console.print(
        f"{path}: vectors for {source:,} of {len(task.source):,} source and {target:,} of {len(task.target):,} target "
        "symbols",
        highlight=False,
        soft_wrap=True,
    )


def launch(recipe: Recipe, machine: Machine) -> Fabric:
    """One process per device; under torchrun, the processes it started."""
    devices, nodes = machine.devices, machine.nodes
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    _check_devices(machine.accelerator, devices)
    strategy = "ddp" if devices * nodes > 1 else "auto"
    fabric = Fabric(
        accelerator=machine.accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy=strategy,
        precision=PRECISIONS[recipe.train.precision],  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def _check_devices(accelerator: str, devices: int) -> None:
    if accelerator not in ACCELERATORS:
        raise RunError(f"--accelerator must be auto, cpu or cuda, not {accelerator}")
    there = torch.cuda.device_count()
    if accelerator in ("cuda", "gpu") and not there:
        raise RunError("no CUDA device here: use --accelerator cpu or auto")
    if accelerator != "cpu" and there and devices > there:
        raise RunError(f"--devices {devices}, but this machine has {there}")


def leads() -> bool:
    """Is this the first of a run's processes, which speaks for all?"""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; another live run in it is refused. The first process holds it for all."""
    if not leads():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("a+")
    except OSError as error:
        raise cannot_write(folder, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise RunError(
                f"{folder} is in use by a live run (process {file.read().strip()}): choose another --out"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def resume_from(trainer: Trainer, last: Path, resume: str, recipe: Recipe) -> None:
    if resume == "never":
        raise RunError(
            f"{last.parent.parent} already holds a run: choose another --out, or --resume auto to go on with it"
        )
    checkpoint = Checkpoint(last)
    there, here = checkpoint.recipe.flat(), recipe.flat()
    keys = sorted(key for key in there.keys() | here.keys() if not key.startswith("generate.") and key not in FREE)
    changed = [
        f"{key} is {there.get(key)} there, {here.get(key)} here" for key in keys if there.get(key) != here.get(key)
    ]
    if changed:
        raise CheckpointError(
            f"{last} was made by another recipe: {'; '.join(changed)}; choose another --out, or set these back"
        )
    for name, value in trainer.task.files().items():
        if json.loads(checkpoint.files.get(name, b"null")) != json.loads(json.dumps(value)):
            raise CheckpointError(f"{last / name} is not that of the data: it was prepared anew; choose another --out")
    trainer.load(checkpoint)


def _announce(trainer: Trainer, fabric: Fabric, backend: str, console: Console) -> None:
    recipe, model = trainer.recipe, trainer.model
    count = sum(parameter.numel() for parameter in model.parameters())
    where = f"{fabric.world_size} × {fabric.device.type}" if fabric.world_size > 1 else fabric.device.type
    console.print(
        f"{recipe.attention.name} on {recipe.task.name}: {count:,} parameters, {len(trainer.data):,} training "
        f"examples, {where}, {recipe.train.precision}, run folder {trainer.folder}\ndecoder pass: {backend}",
        highlight=False,
        soft_wrap=True,
    )
    if trainer.progress.update:
        done, total = trainer.progress.update, recipe.train.max_updates
        more = "" if done < total else ": nothing left to do; a larger train.max_updates goes on"
        console.print(f"resumed at update {done} of {total}{more}", highlight=False, soft_wrap=True)


def summary(trainer: Trainer, reason: str) -> dict[str, Any]:
    """What a table needs to know of a run."""
    progress = trainer.progress
    return {
        "reason": reason,
        "update": progress.update,
        "seconds": round(progress.seconds, 1),
        "monitor": trainer.settings.monitor,
        "best": progress.best,
        "best_update": progress.best_update,
        "released": progress.released,
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "recipe": trainer.recipe.model_dump(mode="json"),
        **surroundings(),
    }


def surroundings() -> dict[str, Any]:
    """The versions and the hardware that a number was measured with."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    try:
        own = version("plan-attend-generate")
    except Exception:  # run from a source tree that was never installed
        own = "source"
    return {"pag": own, "python": platform.python_version(), "torch": torch.__version__, "device": device}


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run's log; a last line cut short by a kill is left out."""
    path = folder / "log.jsonl"
    if not path.is_file():
        raise CheckpointError(f"no log of a run at {path}: give a run folder, as `pag train --out` makes it")
    events = []
    for line in path.read_text("utf-8").split("\n"):
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def shown_metrics(run: Path, events: list[dict[str, Any]], asked: list[str] | None) -> list[str]:
    """The metrics to draw: those asked for, or the loss and what the run monitors."""
    known = {name for e in events if e["kind"] == "valid" for name, value in e.items() if isinstance(value, float)}
    for name in asked or []:
        if name not in known:
            raise CheckpointError(f"{run} has no validation metric '{name}'{nearest(name, known)}")
    monitored = json.loads((run / "recipe.json").read_text())["train"]["monitor"]
    return asked or list(dict.fromkeys(["loss", monitored]))
