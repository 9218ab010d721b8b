"""Training: the loop, what it saves, and how it stops and goes on.

Every process sees the same list of batches and takes its share of each, so a recipe gives the same
model on one device and on several. Chance follows from the seed and the update's number alone.
"""

import json
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import Tensor

from pag.checkpoint import TRAINING, WEIGHTS, Checkpoint, load_weights, model_files, pack, point, write_folder
from pag.config import Recipe
from pag.data.batch import Batch
from pag.data.loader import Loaded, Loader
from pag.data.sampler import Position, Sampler
from pag.errors import RunError
from pag.gradients import Course, Gradients, Tally
from pag.model import Seq2Seq
from pag.optim import MovingAverage, all_gradients, build_optimizer, exchange, learning_rate
from pag.progress import Price, Progress
from pag.runlog import Display, RunLog
from pag.tasks.base import Task
from pag.validate import Validation, untrained, validate


@dataclass(frozen=True)
class Recent:
    """What was done since the last line of the log."""

    since: float
    updates: int = 0
    tokens: float = 0.0


class Trainer:
    def __init__(
        self, fabric: Fabric, recipe: Recipe, task: Task, model: Seq2Seq, folder: Path, console: Console
    ) -> None:
        self.fabric, self.recipe, self.task, self.folder, self.console = fabric, recipe, task, folder, console
        self.settings = recipe.train
        self.model = model.to(fabric.device)
        self.optimizer = build_optimizer(self.model, self.settings)
        self.average = MovingAverage.of(self.model, self.settings.ema) if self.settings.ema else None
        self.progress = Progress()
        self.data = task.examples("train")
        self.gradients = Gradients(fabric, recipe, self.model, self.data.lengths, self.say)
        self.signal: int | None = None
        self.direction = 1 if task.monitors()[self.settings.monitor] == "max" else -1

    def say(self, text: str) -> None:
        self.display.say(text)

    # saving and going on

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def save(self, best: bool) -> None:
        """Write this update's checkpoint, then let `last` (and `best`) point to it."""
        if not self.fabric.is_global_zero:
            return
        raw = dict(self.model.state_dict())
        weights = self.average.weights if self.average else raw
        training = {f"optimizer.{name}": tensor for name, tensor in _optimizer_tensors(self.optimizer).items()}
        if self.average:
            training |= {f"model.{name}": tensor for name, tensor in raw.items()}
        files = model_files(self.recipe, self.task, weights, {"update": self.progress.update})
        progress = json.dumps(asdict(self.progress), indent=1).encode()
        name = f"{self.progress.update:08d}"
        write_folder(self.checkpoints / name, {**files, TRAINING: pack(training), "progress.json": progress})
        point(self.checkpoints / "last", name)
        if best:
            point(self.checkpoints / "best", name)
        self._forget_old()

    def _forget_old(self) -> None:
        links = {(self.checkpoints / link).resolve().name for link in ("last", "best")}
        numbered = sorted(path for path in self.checkpoints.iterdir() if path.name.isdigit() and not path.is_symlink())
        for path in numbered[: -self.settings.keep]:
            if path.name not in links:
                _remove(path)

    def load(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors(TRAINING)
        weights = checkpoint.tensors(WEIGHTS)
        raw = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        load_weights(self.model, raw or weights, checkpoint.folder / WEIGHTS)
        if self.average:
            self.average.weights = {name: weights[name].to(self.fabric.device) for name in self.average.weights}
        _load_optimizer(self.optimizer, tensors, checkpoint.folder)
        self.progress = Progress.read(checkpoint.files["progress.json"])

    # the loop

    def fit(self) -> str:
        """Train to the end; returns why it ended."""
        with (
            self._signals(),
            self._log(),
            self._loader(),
            Display(self.console, self.settings.max_updates, self.progress.update) as self.display,
        ):
            self.clock = time.monotonic() - self.progress.seconds
            self.recent = Recent(time.monotonic())
            if self.progress.first_loss is None:
                self._first_validation()
            reason = self._over()
            while not reason:
                tally, norm = self.update()
                self._after(tally, norm)
                reason = self._over(tally)
            return reason

    def _over(self, tally: Tally | None = None) -> str:
        settings, progress = self.settings, self.progress
        if tally and tally.stop:
            return "interrupted"
        if progress.update >= settings.max_updates:
            return "finished"
        if settings.patience and progress.stale >= settings.patience:
            return f"no better {settings.monitor} in {progress.stale} validations"
        if settings.target is not None and progress.best is not None and self._good_enough(progress.best):
            return f"{settings.monitor} reached {settings.target}"
        return ""

    def _good_enough(self, value: float) -> bool:
        assert self.settings.target is not None
        return (value - self.settings.target) * self.direction >= 0

    def _after(self, tally: Tally, norm: float) -> None:
        """Log, validate and save when it is time."""
        update = self.progress.update
        self.recent = replace(self.recent, updates=self.recent.updates + 1, tokens=self.recent.tokens + tally.tokens)
        if update % self.settings.log_every == 0:
            self._report(tally, norm)
        due = update % self.settings.validate_every == 0
        stopping = tally.stop > 0 or update == self.settings.max_updates
        best = self._validate() if due else False
        if best or stopping or due or update % self.settings.save_every == 0:
            self.save(best)

    @property
    def held(self) -> bool:
        return self.progress.released is None

    def release(self) -> None:
        """Let the switch go once the model attends (see attention.hold_updates and hold_until)."""
        attention, progress = self.recipe.attention, self.progress
        waiting = attention.hold_until is not None and not self._attends
        if self.held and progress.update >= attention.hold_updates and not waiting:
            self.progress = replace(progress, released=progress.update)

    @property
    def _attends(self) -> bool:
        """Has the validation loss dropped under the stated share of its first value?"""
        first, last, share = self.progress.first_loss, self.progress.last_loss, self.recipe.attention.hold_until
        return first is not None and last is not None and share is not None and last < share * first

    def commitment_weight(self) -> float:
        """λ_com of this update."""
        return self.recipe.loss.commitment * self._warmed()

    def replan_weight(self) -> float:
        """What a re-plan beyond loss.replan_rate costs at this update: nothing while the switch is held."""
        return 0.0 if self.held else self.recipe.loss.replan_weight * self._warmed() * self.progress.price.now

    def _warmed(self) -> float:
        """The share of loss.commitment_warmup that has passed since the switch was let go."""
        warmup, released = self.recipe.loss.commitment_warmup, self.progress.released
        if not warmup:
            return 1.0
        return 0.0 if released is None else min(1.0, (self.progress.update - released) / warmup)

    # one update

    def update(self) -> tuple[Tally, float]:
        self.release()
        loaded = [next(self.loader) for _ in range(self.settings.accumulate)]
        self.optimizer.zero_grad(set_to_none=True)
        course = Course(self.progress.update, self.held, self.commitment_weight(), self.replan_weight())
        sums = self.gradients.of(loaded, course)
        sums[-1] = float(self.signal is not None)
        if self.fabric.world_size > 1:
            sums = exchange(all_gradients(self.model), sums, self._add)
        tally = Tally(*sums.tolist())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf))
        if not math.isfinite(tally.nll) or not math.isfinite(norm):
            raise self._not_finite(loaded, tally)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, self.progress.update)
        self.optimizer.step()
        at = self.loader.position
        now = time.monotonic() - self.clock
        self.progress = replace(
            self.progress, update=self.progress.update + 1, epoch=at.epoch, batch=at.batch, seconds=now
        )
        if self.average:
            self.average.follow(self.model, self.progress.update)
        return tally, norm

    def _add(self, tensor: Tensor) -> Tensor:
        return cast(Tensor, self.fabric.all_reduce(tensor, reduce_op="sum"))

    def _not_finite(self, loaded: list[Loaded], tally: Tally) -> RunError:
        numbers = ", ".join(str(n) for item in loaded for n in item.numbers)
        last = self.checkpoints / "last"
        good = f"the last good checkpoint is {last.resolve()}" if last.exists() else "no checkpoint was saved yet"
        return RunError(
            f"the loss or its gradient is not finite (loss {tally.nll}) at update {self.progress.update + 1}; {good}; "
            f"a smaller train.lr or train.clip may help; the batch was training examples {numbers}"
        )

    # what is told

    def _report(self, tally: Tally, norm: float) -> None:
        progress = self.progress
        seconds = max(1e-9, time.monotonic() - self.recent.since)
        facts: dict[str, Any] = {
            "loss": tally.nll / tally.sentences,
            "token_loss": tally.nll / tally.tokens,
            "gradient_norm": norm,
            "lr": self.optimizer.param_groups[0]["lr"],
            "epoch": progress.epoch,
            "seconds": round(progress.seconds, 3),
            "updates_per_second": self.recent.updates / seconds,
            "tokens_per_second": self.recent.tokens / seconds,
        }
        if self.model.decoder.attention.plans:
            facts["commitment_loss"] = tally.commitment / tally.sentences
            facts["replan_rate"] = tally.switched / tally.tokens
            facts["held"] = self.held
            facts["replan_weight"] = self.replan_weight()
        self.recent = Recent(time.monotonic())
        if self.log:
            self.log.write("train", progress.update, facts)
        shown = {
            "loss": facts["loss"],
            "updates/s": facts["updates_per_second"],
            "tokens/s": facts["tokens_per_second"],
        }
        if "replan_rate" in facts:
            shown["re-plan"] = facts["replan_rate"]
        if self.fabric.is_global_zero:
            self.display.show(progress.update, shown)

    def _first_validation(self) -> None:
        """The loss of the untrained model: where curves start, and what attention.hold_until is a share of."""
        values: dict[str, float] = {}
        if self.fabric.is_global_zero:
            values = untrained(self.model, self.task, self.recipe, self.fabric)
            if self.log:
                self.log.write("valid", 0, dict(values))
        self.progress = replace(self.progress, first_loss=self.fabric.broadcast(values)["loss"])

    def _validate(self) -> bool:
        """Validate on the first process, tell the others; is this the best so far?"""
        found = None
        if self.fabric.is_global_zero:
            with self._averaged():
                found = validate(self.model, self.task, self.recipe, self.fabric, self.held)
            self._tell(found)
        values: dict[str, float] = self.fabric.broadcast(found.values if found else {})
        value = values.get(self.settings.monitor)
        assert value is not None
        self.progress = progress = replace(self.progress, last_loss=values["loss"], price=self._price(value))
        if self.held and self.model.decoder.attention.plans:
            return False  # a model that was never let go is not what will be used
        better = progress.best is None or (value - progress.best) * self.direction > 0
        if self._guard is not None:  # as good, and later: it has learnt to re-plan less
            better = not progress.price.resting
        if better:
            self.progress = replace(progress, best=value, best_update=progress.update, stale=0)
        else:
            self.progress = replace(progress, stale=progress.stale + 1)
        return better

    @property
    def _guard(self) -> float | None:
        """loss.replan_guard, where there is a plan."""
        return self.recipe.loss.replan_guard if self.model.decoder.attention.plans else None

    def _price(self, value: float) -> Price:
        guard, price = self._guard, self.progress.price
        if guard is None:
            return price
        after = price.after(value, self.direction, guard, self.held)
        if after.share < price.share:
            worse = f"{self.settings.monitor} is more than {100 * guard:g} % worse than its best, {after.goal:.4g}"
            self.say(f"{worse}: re-plans cost nothing until it is back, and half as much then")
        return after

    def _tell(self, found: Validation) -> None:
        update = self.progress.update
        if self.log:
            samples = [{"input": i, "output": o, "reference": r} for i, o, r in found.samples]
            self.log.write("valid", update, {**found.values, "replan_gaps": found.gaps, "samples": samples})
            self.log.histogram("valid/replan_gaps", update, found.gaps)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in found.values.items())
        self.display.say(f"validation at update {update}: {shown}")
        self.display.samples([(self.task.brief(i), o, r) for i, o, r in found.samples])

    # what surrounds the loop

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The moving average in the model's place."""
        if not self.average:
            yield
            return
        raw = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        self.model.load_state_dict(self.average.weights, strict=False)
        try:
            yield
        finally:
            self.model.load_state_dict(raw, strict=False)

    @contextmanager
    def _loader(self) -> Iterator[None]:
        settings, position = self.settings, Position(self.progress.epoch, self.progress.batch)
        sampler = Sampler(self.data.lengths, settings.batch_size, settings.batch_by, settings.seed, position)
        self.loader = Loader(sampler, self._collate)
        try:
            yield
        finally:
            self.loader.close()

    def _collate(self, numbers: np.ndarray) -> Batch | None:
        mine = numbers[self.fabric.global_rank :: self.fabric.world_size]
        return self.task.collate([self.data[int(i)] for i in mine]) if len(mine) else None

    @contextmanager
    def _log(self) -> Iterator[None]:
        self.log = RunLog(self.folder, self.progress.update or -1) if self.fabric.is_global_zero else None
        try:
            yield
        finally:
            if self.log:
                self.log.close()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the update under way, then save; a second one stops at once."""

        def note(number: int, frame: Any) -> None:
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = number

        kinds = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(kind, note) for kind in kinds]
        try:
            yield
        finally:
            for kind, handler in zip(kinds, before, strict=True):
                signal.signal(kind, handler)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": tensor for index, values in state.items() for name, tensor in values.items()}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], where: Path) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            index, name = rest.split(".")
            state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
