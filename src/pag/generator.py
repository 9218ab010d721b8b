"""A trained model, ready to use: `pag.load(folder).generate(["…"])`."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import ModelHubMixin

from pag.checkpoint import Checkpoint, locate, model_files, write_folder
from pag.config import Recipe
from pag.data.batch import Example
from pag.data.document import Document, copies
from pag.ensemble import Ensemble, mean
from pag.errors import CheckpointError, DataError, InputError, PagError
from pag.hypotheses import Hypothesis, Slots, Step
from pag.losses import likelihoods
from pag.model import Seq2Seq
from pag.search import Options, search, sentences_at_once
from pag.tasks.base import Task

EXAMPLES = "examples.json"
CHUNK = 8  # batches whose inputs are sorted by length together while streaming
Watch = Callable[[Sequence[int], Sequence[Step], Slots], None]  # inputs' numbers by sentence, steps so far, slots


@dataclass(frozen=True)
class Output:
    """One output, with what the model looked at where that was asked for. T counts the end symbol."""

    text: str
    score: float  # log-probability divided by length to the length penalty
    log_prob: float
    source: tuple[str, ...] = ()  # names of the source positions
    tokens: tuple[str, ...] = ()  # names of the output positions
    alignment: np.ndarray | None = None  # α [T, S]
    plan: np.ndarray | None = None  # A [T, k, S], logits
    gate: np.ndarray | None = None  # u [T, k, S]
    switch: np.ndarray | None = None  # g [T]
    commitment: np.ndarray | None = None  # c [T, k]
    copying: np.ndarray | None = None  # z [T], probability of copying
    copied: np.ndarray | None = None  # source position that each token was copied from, −1 where it was written [T]
    copy_share: np.ndarray | None = None  # share of each token's probability that comes from copying [T]
    answer: tuple[int, int] | None = None  # of a question: the answer's first source position, and the one after it
    left_out: tuple[int, int] = (0, 0)  # words of its document before and after the source positions

    def pharaoh(self) -> str:
        """`source-target` pairs of positions: each output token with where it looked most; ends left out."""
        assert self.alignment is not None, "generate with alignments=True"
        best = self.alignment[:-1, :-1].argmax(1) if self.alignment.shape[1] > 1 else []
        return " ".join(f"{source}-{target}" for target, source in enumerate(best))


@dataclass(frozen=True)
class Result:
    """All outputs for one input, best first; empty where the input was."""

    outputs: tuple[Output, ...] = ()
    warning: str = ""  # what was done to an input that did not fit
    error: str = ""  # why an input was refused

    @property
    def text(self) -> str:
        return self.outputs[0].text if self.outputs else ""

    def _repr_html_(self) -> str:
        """What a notebook shows: the alignment and the plan, to look at step by step."""
        from pag.viewer import frame

        return frame(self)


@dataclass(frozen=True)
class Score:
    """A given output under the model."""

    log_prob: float
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]  # of each token
    paper_log_prob: float | None = None  # by the ways the paper assigns, where tokens can be written or copied


class Generator(ModelHubMixin, library_name="plan-attend-generate", tags=["planning-attention", "seq2seq"]):
    """A model with its task and recipe. `pag.load` and `from_pretrained` make one."""

    def __init__(
        self, recipe: Recipe, task: Task, model: Seq2Seq, device: str = "auto", others: Sequence[Seq2Seq] = ()
    ) -> None:
        """`others` are further models with the same vocabularies that decode together with the first."""
        self.recipe, self.task, self.device = recipe, task, device_of(device)
        self.models = [each.to(self.device).eval() for each in (model, *others)]
        self.model = self.models[0]
        self.examples: Sequence[str] = ()  # inputs that came with the model

    def inputs(self, most: int, split: str = "test") -> list[str]:
        """Inputs to try: the first of a split, or what came with the model where the test set is not at hand."""
        try:
            self.task.check_split(split)
            return list(self.task.inputs(split)[:most])
        except DataError:
            if split != "test" or not self.examples:
                raise
            return list(self.examples[:most])

    def generate(
        self,
        inputs: str | Iterable[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        alignments: bool = False,
        max_length: int | None = None,
        length_penalty: float | None = None,
        batch_size: int | None = None,
        sample: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[Result]:
        """Outputs for each input, in order. An input that cannot be used raises InputError."""
        options = self.options(
            beam=beam, n_best=n_best, record=alignments, max_length=max_length, length_penalty=length_penalty,
            sample=sample, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
        )  # fmt: skip
        results = list(self.stream([inputs] if isinstance(inputs, str) else inputs, options, batch_size))
        for number, result in enumerate(results):
            if result.error:
                raise InputError(f"input {number + 1}: {result.error}")
        return results

    def options(self, **given: Any) -> Options:
        """The recipe's search settings with what is given (and not None) in their place."""
        settings = self.recipe.generate
        base = Options(
            beam=settings.beam, length_penalty=settings.length_penalty, max_length=settings.max_length,
            unknown=settings.unknown,
        )  # fmt: skip
        options = replace(base, **{name: value for name, value in given.items() if value is not None})
        for name in ("beam", "n_best", "max_length", "temperature", "top_p"):
            if not getattr(options, name) > 0:
                raise InputError(f"{name} must be above 0, not {getattr(options, name)}")
        for name in ("length_penalty", "top_k", "seed"):
            if not getattr(options, name) >= 0:
                raise InputError(f"{name} must be at least 0, not {getattr(options, name)}")
        return options

    def stream(
        self,
        inputs: Iterable[str | InputError],
        options: Options,
        batch_size: int | None = None,
        watch: Watch | None = None,
    ) -> Iterator[Result]:
        """Results in the order of the inputs, a few batches at a time. Bad inputs give a Result with an error.
        `watch` sees every step of every batch."""
        size = self._size(batch_size, max(options.beam, options.n_best))
        numbered = enumerate(inputs)
        while chunk := list(islice(numbered, CHUNK * size)):
            ready = {number: self._encode(text) for number, text in chunk}
            found = self._search({n: e for n, e in ready.items() if isinstance(e, _Ready)}, options, size, watch)
            for number, item in ready.items():
                yield item if isinstance(item, Result) else found[number]

    def score(self, inputs: Sequence[str], outputs: Sequence[str], batch_size: int | None = None) -> list[Score]:
        """The log-probability of each given output after its input (forced decoding)."""
        if len(inputs) != len(outputs):
            raise InputError(f"{len(inputs)} inputs but {len(outputs)} outputs: there must be one of each per line")
        size = self._size(batch_size, 1)
        examples = [self._pair(n, i, o) for n, (i, o) in enumerate(zip(inputs, outputs, strict=True))]
        order = sorted(range(len(examples)), key=lambda n: -len(examples[n].source))
        scores: dict[int, Score] = {}
        for at in range(0, len(order), size):
            numbers = order[at : at + size]
            scores |= dict(zip(numbers, self._forced([examples[n] for n in numbers]), strict=True))
        return [scores[n] for n in range(len(examples))]

    def _size(self, asked: int | None, width: int) -> int:
        return sentences_at_once(asked or self.recipe.generate.batch_size, self.device, width)

    def _autocast(self) -> torch.autocast:
        """The recipe's precision, on a GPU."""
        half = self.recipe.train.precision == "bfloat16" and self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half)

    @torch.inference_mode()
    def _forced(self, examples: list[Example]) -> list[Score]:
        batch = self.task.collate(examples).to(self.device)
        with self._autocast():
            each = [likelihoods(model(batch).reading, batch) for model in self.models]
        ways = {way: mean([found[way] for found in each]).cpu().tolist() for way in each[0]}
        return [self._score(e, {way: rows[n] for way, rows in ways.items()}) for n, e in enumerate(examples)]

    def _score(self, example: Example, ways: dict[str, list[float]]) -> Score:
        target = example.target or ()
        kept = {way: tuple(row[: len(target)]) for way, row in ways.items()}
        labels = tuple(self.task.target_labels(target, example))
        assigned = sum(kept["paper"]) if "paper" in kept else None
        return Score(sum(kept["marginal"]), labels, kept["marginal"], assigned)

    def _pair(self, number: int, text: str, output: str) -> Example:
        try:
            return self.task.pair(text, output)
        except InputError as error:
            raise InputError(f"line {number + 1}: {error}") from None

    def _encode(self, text: str | InputError) -> "_Ready | Result":
        if isinstance(text, InputError):
            return Result(error=str(text))
        if not text.strip():
            return Result()
        try:
            example = self.task.encode(text)
        except InputError as error:
            return Result(error=str(error))
        most = self.recipe.generate.max_source
        if len(example.source) <= most:
            return _Ready(example, _cut_before(example))
        return _Ready(
            example.cut(most), f"{len(example.source)} tokens are more than generate.max_source = {most}: cut"
        )

    def _search(
        self, ready: dict[int, "_Ready"], options: Options, size: int, watch: Watch | None
    ) -> dict[int, Result]:
        order = sorted(ready, key=lambda number: -len(ready[number].example.source))
        results: dict[int, Result] = {}
        for at in range(0, len(order), size):
            numbers = order[at : at + size]
            batch = self.task.collate([ready[n].example for n in numbers]).to(self.device)
            with self._autocast():
                all_found = search(
                    self.model if len(self.models) == 1 else Ensemble(self.models), batch, options, numbers,
                    watch and partial(watch, numbers),
                )  # fmt: skip
            for number, found in zip(numbers, all_found, strict=True):
                item = ready[number]
                results[number] = Result(tuple(self._output(item.example, h) for h in found), item.warning)
        return results

    def _output(self, example: Example, found: Hypothesis) -> Output:
        record: dict[str, Any] = dict(found.record or {})
        if isinstance(example, Document):
            record |= asdict(copies(example.words, found.ids, found.log_probs, record["alignment"], record["copying"]))
            record |= {"answer": example.answer, "left_out": example.left_out}
        return Output(
            self.task.decode(found.ids, example, record.get("copied")),
            found.score,
            found.log_prob,
            tuple(self.task.source_labels(example.source, example)),
            tuple(self.task.target_labels(found.ids, example)),
            **record,
        )

    # folders

    @classmethod
    def load(cls, run: str | Path, device: str = "auto", ensemble: Sequence[str | Path] = ()) -> "Generator":
        checkpoint = Checkpoint(locate(run))
        task = checkpoint.task()
        others = [Checkpoint(locate(other)) for other in ensemble]
        for other in others:
            if other.task().files() != task.files():
                raise CheckpointError(f"{other.folder} cannot decode together with {run}: their vocabularies differ")
        models = [other.model(task) for other in others]
        generator = cls(checkpoint.recipe, task, checkpoint.model(task), device, models)
        generator.examples = [example["input"] for example in read_examples(checkpoint.folder)]
        return generator

    def _save_pretrained(self, save_directory: Path) -> None:
        write_into(save_directory, model_files(self.recipe, self.task, self.model.state_dict(), {}))

    @classmethod
    def from_pretrained(  # the mixin's would read its own meaning into our config.json
        cls, pretrained_model_name_or_path: str | Path, *, device: str = "auto", **hub: Any
    ) -> "Generator":
        """A folder, or a model on the Hugging Face hub; `hub` takes revision, token, cache_dir, local_files_only …"""
        if Path(pretrained_model_name_or_path).is_dir():
            return cls.load(pretrained_model_name_or_path, device)
        from huggingface_hub import snapshot_download

        try:
            folder = snapshot_download(str(pretrained_model_name_or_path), **hub)
        except Exception as error:
            name = pretrained_model_name_or_path
            raise PagError(f"no folder and no model on the hub named {name}: {error}") from None
        return cls.load(folder, device)


def read_examples(folder: Path) -> list[dict[str, Any]]:
    """The examples that a model folder holds: input, output and log-probability of each."""
    path = folder / EXAMPLES
    if not path.is_file():
        return []
    try:
        found = json.loads(path.read_bytes())
        assert all(isinstance(example["input"], str) for example in found)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise CheckpointError(f"{path} does not hold a model's examples; `pag export` writes them") from None
    return list(found)


def device_of(name: str) -> torch.device:
    """A device by its name; `auto` is a GPU where there is one."""
    there = torch.cuda.device_count()
    try:
        device = torch.device(("cuda" if there else "cpu") if name == "auto" else name)
        if device.type != "cuda":
            torch.empty(0, device=device)  # a name that PyTorch knows, of a device that it may not have
    except (RuntimeError, AssertionError, ImportError):
        raise InputError(f"device must be auto, cpu, cuda or cuda:1, not {name}") from None
    if device.type == "cuda" and (device.index or 0) >= there:
        raise InputError(f"no {name} here (CUDA devices: {there}): use cpu or auto")
    return device


@dataclass(frozen=True)
class _Ready:
    example: Example
    warning: str = ""


def _cut_before(example: Example) -> str:
    """What is to be said of an input that its task has cut."""
    if not isinstance(example, Document) or not any(example.left_out):
        return ""
    kept = len(example.spelling)
    whole = kept + sum(example.left_out)
    return f"{whole:,} words are more than the {kept:,} that the model was prepared for: cut around the answer"


def write_into(folder: Path, files: dict[str, bytes]) -> None:
    """Write a checkpoint's files into a folder that may hold other things."""
    whole = folder / "model.new"
    write_folder(whole, files)
    for path in whole.iterdir():
        path.replace(folder / path.name)
    whole.rmdir()
