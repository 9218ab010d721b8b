"""Training: exact resume, the same on one process and two, and what happens when things go wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from pag.checkpoint import Checkpoint, write_folder
from pag.config import Recipe
from pag.errors import CheckpointError, RecipeError, RunError
from pag.model import Seq2Seq
from pag.run import Machine, in_use, read_log, train_run
from pag.train import Trainer
from tiny import tiny, train

PAG = [sys.executable, "-m", "pag"]


def tensors(folder: Path, which: str = "last") -> dict[str, torch.Tensor]:
    checkpoint = Checkpoint(folder / "checkpoints" / which)
    return {**checkpoint.tensors("model.safetensors"), **checkpoint.tensors("training.safetensors")}


def assert_same(ours: Path, theirs: Path) -> None:
    """Bit for bit: weights, optimiser, moving average, and the log but for its times."""
    a, b = tensors(ours), tensors(theirs)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert timeless(ours) == timeless(theirs)


def timeless(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in event.items() if "second" not in k} for event in read_log(folder)]


EVERYTHING = (
    {"dropout": 0.3, "embedding_dropout": 0.2, "annotation_dropout": 0.1},
    {"ema": 0.9, "accumulate": 2, "schedule": "cosine", "warmup": 2, "weight_decay": 0.01},
)


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(tmp_path: Path, recipe: Recipe, stop: int) -> None:
    """With dropout, moving average, accumulation and a schedule; stopped before, in and after the hold."""
    model, settings = EVERYTHING
    whole = tiny(attention={"name": recipe.attention.name}, model=model, train=settings)
    train(tmp_path / "whole", whole)
    interrupt_at(stop, tmp_path / "parts", whole)
    train(tmp_path / "parts", whole)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def interrupt_at(update: int, folder: Path, recipe: Recipe) -> None:
    """Train, with Ctrl-C during the given update."""
    before = Trainer.update

    def interrupted(self: Trainer) -> Any:
        if self.progress.update + 1 == update:
            os.kill(os.getpid(), signal.SIGINT)
        return before(self)

    Trainer.update = interrupted  # type: ignore[method-assign]
    try:
        outcome = train(folder, recipe)
    finally:
        Trainer.update = before  # type: ignore[method-assign]
    assert outcome.reason == "interrupted"
    assert outcome.signal == signal.SIGINT


def test_a_killed_run_loses_only_the_work_since_its_last_checkpoint(tmp_path: Path) -> None:
    """kill -9 of the real command, wherever it is, several times over."""
    settings = ["train.max_updates=40", "train.validate_every=10", "train.save_every=1", "attention.hold_updates=5"]
    recipe = write_recipe(tmp_path, tiny())
    command = [*PAG, "train", str(recipe), "--accelerator", "cpu"]
    command += [part for setting in settings for part in ("--set", setting)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, env=environment, capture_output=True)
    last = tmp_path / "killed" / "checkpoints" / "last"
    for wanted in (3, 17):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "killed")], env=environment, stderr=subprocess.PIPE
        )
        while not (last.exists() and int(last.resolve().name) >= wanted):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.01)
        process.kill()
        process.wait()
    subprocess.run([*command, "--out", str(tmp_path / "killed")], check=True, env=environment, capture_output=True)
    assert_same(tmp_path / "whole", tmp_path / "killed")


def write_recipe(folder: Path, recipe: Recipe) -> Path:
    from pag.config import to_toml

    path = folder / "recipe.toml"
    path.write_text(to_toml(recipe), "utf-8")
    return path


@pytest.mark.parametrize("launcher", ["pag", "torchrun"])
def test_two_processes_with_half_the_batch_each_equal_one(tmp_path: Path, launcher: str) -> None:
    """To float tolerance, from noise to gradients, with batches that do not divide evenly."""
    recipe = tiny(train={"batch_size": 7, "max_updates": 5, "validate_every": 5, "accumulate": 2})
    train(tmp_path / "one", recipe)
    arguments = ["train", str(write_recipe(tmp_path, recipe)), "--out", str(tmp_path / "two"), "--accelerator", "cpu"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29577", "-m", "pag"]
    command = [*torchrun, *arguments] if launcher == "torchrun" else [*PAG, *arguments, "--devices", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished; run folder") == 1
    one, two = tensors(tmp_path / "one"), tensors(tmp_path / "two")
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=2e-5, rtol=1e-4, msg=lambda m, name=name: f"{name}: {m}")
    assert timeless(tmp_path / "one")[0]["loss"] == pytest.approx(timeless(tmp_path / "two")[0]["loss"], rel=1e-5)


def test_out_of_memory_halves_the_batch_says_so_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny(train={"max_updates": 3})
    train(tmp_path / "roomy", recipe)
    forward = Seq2Seq.forward

    def cramped(self: Seq2Seq, batch: Any, *rest: Any, **more: Any) -> Any:
        if len(batch.source) > 3 and self.training:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, batch, *rest, **more)

    monkeypatch.setattr(Seq2Seq, "forward", cramped)
    said = said_by(tmp_path / "cramped", recipe)
    assert "out of memory at update 1: its batch of 8 is done in 2 parts" in said
    assert "done in 4 parts" in said
    for name, tensor in tensors(tmp_path / "roomy").items():
        torch.testing.assert_close(tensors(tmp_path / "cramped")[name], tensor, atol=1e-5, rtol=1e-4)


def said_by(folder: Path, recipe: Recipe) -> str:
    console = Console(record=True, width=200, file=open(os.devnull, "w"))  # noqa: SIM115
    train_run(recipe, folder, "auto", Machine("cpu"), console)
    return console.export_text()


def test_out_of_memory_on_a_single_sentence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Trainer, *rest: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("pag.gradients.Gradients._backward", never)
    with pytest.raises(RunError, match="out of memory at update 1 with a single sentence"):
        train(tmp_path, tiny())


def test_a_loss_that_is_not_finite_names_update_batch_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Trainer.update

    def poisoned(self: Trainer) -> Any:
        if self.progress.update == 4:
            with torch.no_grad():
                self.model.embedding.weight.fill_(float("nan"))
        return before(self)

    monkeypatch.setattr(Trainer, "update", poisoned)
    with pytest.raises(RunError, match=r"not finite .*at update 5; .*checkpoints/00000004; .*training examples \d+, "):
        train(tmp_path, tiny())
    assert all(torch.isfinite(tensor).all() for tensor in tensors(tmp_path).values())


def test_a_checkpoint_of_another_recipe_is_refused_with_what_differs(tmp_path: Path) -> None:
    train(tmp_path, tiny(train={"max_updates": 2}))
    with pytest.raises(CheckpointError, match=r"another recipe: attention\.k is 3 there, 4 here; train\.lr is 0\.01"):
        train(tmp_path, tiny(attention={"k": 4}, train={"lr": 0.02}))
    assert train(tmp_path, tiny(train={"max_updates": 4})).reason == "finished"
    assert Checkpoint(tmp_path / "checkpoints" / "last").config["update"] == 4


def test_a_folder_with_a_run_is_not_started_again_unless_asked(tmp_path: Path) -> None:
    train(tmp_path, tiny(train={"max_updates": 2}))
    with pytest.raises(RunError, match="already holds a run"):
        train(tmp_path, tiny(train={"max_updates": 2}), resume="never")


def test_a_folder_in_use_by_a_live_run_is_refused(tmp_path: Path) -> None:
    with in_use(tmp_path), pytest.raises(RunError, match=rf"in use by a live run \(process {os.getpid()}\)"):
        train(tmp_path, tiny())
    assert train(tmp_path, tiny(train={"max_updates": 1})).reason == "finished"


def test_a_folder_with_a_model_is_not_trained_in(tmp_path: Path) -> None:
    """What is loaded from there would go on being that model."""
    write_folder(tmp_path, {"config.json": b"{}"})
    with pytest.raises(RunError, match="holds a model: choose another --out"):
        train(tmp_path, tiny())


def test_an_unknown_accelerator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="--accelerator must be auto, cpu or cuda, not gpuu"):
        train_run(tiny(), tmp_path, "auto", Machine("gpuu"), Console(quiet=True))


def test_training_stops_early_when_the_monitor_no_longer_improves(tmp_path: Path) -> None:
    settings = {"max_updates": 50, "validate_every": 2, "patience": 2, "lr": 1e-12}
    recipe = tiny(train=settings, attention={"hold_updates": 0})
    assert train(tmp_path, recipe).reason == "no better loss in 2 validations"
    assert Checkpoint(tmp_path / "checkpoints" / "last").config["update"] < 50


def test_training_stops_once_the_target_is_reached(tmp_path: Path) -> None:
    recipe = tiny(train={"max_updates": 50, "validate_every": 2, "target": 100.0}, attention={"hold_updates": 0})
    assert train(tmp_path, recipe).reason == "loss reached 100.0"
    assert Checkpoint(tmp_path / "checkpoints" / "last").config["update"] == 2


def test_an_unknown_monitor_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"unknown metric 'exct' .*'exact'"):
        train(tmp_path, tiny(train={"monitor": "exct"}))


def test_best_is_the_checkpoint_with_the_best_monitor(tmp_path: Path) -> None:
    train(tmp_path, tiny(train={"max_updates": 12, "lr": 0.05, "keep": 2}, attention={"hold_updates": 0}))
    losses = {e["update"]: e["loss"] for e in read_log(tmp_path) if e["kind"] == "valid" and e["update"]}
    assert Checkpoint(tmp_path / "checkpoints" / "best").config["update"] == min(losses, key=lambda u: losses[u])
    numbered = {path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.isdigit()}
    assert {"00000012", "00000010"} <= numbered
    assert len(numbered) <= 3


def test_a_checkpoint_made_while_the_switch_is_held_is_never_the_best(tmp_path: Path) -> None:
    """Its commitment was not trained: used with the switch let go, it would be another model."""
    train(tmp_path, tiny(train={"max_updates": 9, "lr": 1e-12}, attention={"hold_updates": 5}))
    assert Checkpoint(tmp_path / "checkpoints" / "best").config["update"] == 6


def test_the_switch_is_held_and_then_released(tmp_path: Path) -> None:
    train(tmp_path, tiny(train={"max_updates": 8}, attention={"hold_updates": 3}))
    held = [event["held"] for event in read_log(tmp_path) if event["kind"] == "train"]
    assert held == [True] * 3 + [False] * 5
    assert json.loads((tmp_path / "summary.json").read_text())["released"] == 3


def test_the_switch_is_held_until_the_validation_loss_has_dropped(tmp_path: Path) -> None:
    attention = {"hold_updates": 0, "hold_until": 0.95}
    train(tmp_path, tiny(train={"max_updates": 12, "validate_every": 2, "lr": 0.02}, attention=attention))
    released = json.loads((tmp_path / "summary.json").read_text())["released"]
    losses = [(e["update"], e["loss"]) for e in read_log(tmp_path) if e["kind"] == "valid"]
    assert released == next(update for update, loss in losses if loss < 0.95 * losses[0][1])


def test_the_commitment_weight_rises_once_the_switch_is_released(tmp_path: Path) -> None:
    from pag.train import Progress

    recipe = tiny()
    loss = {"commitment": 0.5, "replan_weight": 2.0, "commitment_warmup": 4}
    trainer = object.__new__(Trainer)
    trainer.recipe = recipe.model_copy(update={"loss": recipe.loss.model_copy(update=loss)})
    weights = []
    for update, released in [(5, None), (6, 6), (7, 6), (9, 6), (20, 6)]:
        trainer.progress = Progress(update=update, released=released)
        weights.append((trainer.commitment_weight(), trainer.replan_weight()))
    assert weights == [(0.0, 0.0), (0.0, 0.0), (0.125, 0.5), (0.375, 1.5), (0.5, 2.0)]


def test_a_re_plan_costs_nothing_while_the_switch_is_held(tmp_path: Path) -> None:
    from pag.train import Progress

    trainer = object.__new__(Trainer)
    trainer.recipe, trainer.progress = tiny(), Progress(update=3)
    assert trainer.replan_weight() == 0.0
    trainer.progress = Progress(update=3, released=3)
    assert trainer.replan_weight() == trainer.recipe.loss.replan_weight > 0


def test_the_log_tells_of_plan_health(tmp_path: Path) -> None:
    train(tmp_path, tiny())
    event = [e for e in read_log(tmp_path) if e["kind"] == "valid"][-1]
    assert {"replan_rate", "plan_entropy", "gate_mean", "commitment_entropy", "replan_gaps"} <= event.keys()
    assert len(event["samples"]) == 3
    assert any((tmp_path / "tensorboard").iterdir())


def test_both_estimators_of_the_commitment_train(tmp_path: Path) -> None:
    for estimator in ("gumbel", "reinforce"):
        folder = tmp_path / estimator
        train(folder, tiny(attention={"estimator": estimator, "hold_updates": 0}, train={"max_updates": 12}))
        losses = [event["loss"] for event in read_log(folder) if event["kind"] == "train"]
        assert losses[-1] < losses[0]
