"""The models that are served, and what can be asked of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pag.data.batch import Example
from pag.errors import InputError, PagError, nearest
from pag.generator import Generator, Output, Result, Score
from pag.search import Options
from pag.server.batcher import Batcher, Job
from pag.server.limits import Limits, Refusal
from pag.server.metrics import Metrics
from pag.server.schema import GenerateRequest, Input, ModelCard, ScoreRequest
from pag.textio import arrays, copies
from pag.watch import Prefix

EXAMPLES = 8
BULKY = ("plan", "gate")  # [T, k, S]: left out where an answer would be too long
DIGITS = 4


class Served:
    """One model with its queue."""

    def __init__(self, name: str, generator: Generator, limits: Limits, metrics: Metrics) -> None:
        self.name, self.generator, self.limits, self.metrics = name, generator, limits, metrics
        self.batcher = Batcher(name, generator, limits, metrics)
        self.card = _card(name, generator)

    async def generate(self, asked: GenerateRequest) -> dict[str, Any]:
        job = Job(self._input(asked)[0], self._options(asked))
        self.batcher.submit(job)
        return self._told(await self._answer(job), asked)

    async def score(self, asked: ScoreRequest) -> dict[str, Any]:
        job = Job(self._input(asked)[0], None, self._output(asked.output))
        self.batcher.submit(job)
        found = await self._answer(job)
        assert isinstance(found, Score)
        log_probs = [round(value, 6) for value in found.log_probs]
        return {"model": self.name, "log_prob": found.log_prob, "tokens": list(found.tokens), "log_probs": log_probs}

    def stream(self, asked: GenerateRequest) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Accepts the request now, or refuses it; then gives named events until the result or an error."""
        news: asyncio.Queue[Prefix | None] = asyncio.Queue()
        line, example = self._input(asked)
        job = Job(line, self._options(asked), show=news.put_nowait)
        job.answer.add_done_callback(lambda _: news.put_nowait(None))
        self.batcher.submit(job)
        return self._events(asked, job, example, news)

    async def _events(
        self, asked: GenerateRequest, job: Job, example: Example, news: "asyncio.Queue[Prefix | None]"
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        yield "source", {"model": self.name, "source": self.generator.task.source_labels(example.source, example)}
        shown: tuple[int, ...] = ()
        until = time.monotonic() + self.limits.seconds
        try:
            while (seen := await asyncio.wait_for(news.get(), until - time.monotonic())) is not None:
                yield "tokens", {**self._added(seen, shown, example, asked), "provisional": job.width > 1}
                shown = seen.ids
            yield "result", self._told(await job.answer, asked)
        except TimeoutError:
            yield "error", self._too_slow().body
        except Refusal as refusal:
            yield "error", refusal.body
        finally:
            job.gone = True

    def _added(self, seen: Prefix, shown: Sequence[int], example: Example, asked: GenerateRequest) -> dict[str, Any]:
        """Keep that many of the tokens told before, then add these."""
        task, keep = self.generator.task, seen.since(shown)
        event: dict[str, Any] = {"keep": keep, "tokens": task.target_labels(seen.ids[keep:], example)}
        event["text"] = task.decode(seen.ids, example)
        if seen.alignment is not None and "alignment" in asked.include:
            event["alignment"] = _rounded(seen.alignment[keep:, : len(example.source)])
        if seen.switch is not None and "switch" in asked.include:
            event["switch"] = _rounded(seen.switch[keep:])
        return event

    async def _answer(self, job: Job) -> Result | Score:
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await job.answer
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            job.gone = True

    def _too_slow(self) -> Refusal:
        return Refusal(408, "timeout", f"no answer within {self.limits.seconds:g} s: ask for less, or try again later")

    def _input(self, asked: Input) -> tuple[str, Example]:
        """The input as a line that the model can take, and encoded."""
        if asked.kind not in ("text", own := self.card.input):
            takes = "text" if own == "text" else f"a {own} or text"
            raise Refusal(422, "input", f"the model '{self.name}' takes {takes}, not a {asked.kind}")
        line = asked.line()
        if not line.strip():
            raise Refusal(422, "empty", "the input is empty")
        try:
            example, most = self.generator.task.encode(line), self.card.max_source
        except InputError as error:
            raise Refusal(422, "input", str(error)) from None
        if (length := len(example.source)) > most:
            raise Refusal(422, "too_long", f"the input has {length:,} tokens, its end included: {most:,} are the most")
        return line, example

    def _output(self, text: str) -> str:
        try:
            length, most = len(self.generator.task.encode_output(text)), self.card.max_length
        except InputError as error:
            raise Refusal(422, "output", str(error)) from None
        if length > most:
            raise Refusal(422, "too_long", f"the output has {length:,} tokens, its end included: {most:,} are the most")
        return text

    def _options(self, asked: GenerateRequest) -> Options:
        options = self.generator.options(
            beam=asked.beam, n_best=asked.n_best, max_length=asked.max_length, length_penalty=asked.length_penalty,
            record=bool(asked.include),
        )  # fmt: skip
        for name in ("beam", "n_best"):
            if (value := getattr(options, name)) > self.limits.beam:
                raise Refusal(422, "limit", f"{name} is at most {self.limits.beam} here, not {value}")
        return replace(options, max_length=min(options.max_length, self.card.max_length))

    def _told(self, result: Result | Score, asked: GenerateRequest) -> dict[str, Any]:
        assert isinstance(result, Result)
        if result.error:
            raise Refusal(422, "input", result.error)
        self.metrics.tokens.labels(self.name).inc(len(result.outputs[0].tokens) if result.outputs else 0)
        include, warning = list(asked.include), result.warning
        if sum(_values(output, include) for output in result.outputs) > self.limits.values:
            include = [name for name in include if name not in BULKY]
            warning = (
                f"plans and gates left out: an answer has at most {self.limits.values:,} numbers. {warning}".strip()
            )
        outputs = [_output(output, include) for output in result.outputs]
        answer = {"model": self.name, "text": result.text, "outputs": outputs}
        return answer | ({"warning": warning} if warning else {})


class Service:
    """All models by name."""

    def __init__(self, generators: dict[str, Generator], limits: Limits, metrics: Metrics) -> None:
        self.models = {name: Served(name, generator, limits, metrics) for name, generator in generators.items()}
        metrics.watch_queues(self.waiting)

    def find(self, name: str | None) -> Served:
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refusal(404, "model", f"no model '{name[:60]}' is served here{nearest(name[:60], self.models)}")
        return self.models[name]

    def waiting(self) -> dict[str, int]:
        return {name: len(model.batcher.waiting) for name, model in self.models.items()}

    def start(self) -> None:
        for model in self.models.values():
            model.batcher.start()

    def close(self) -> None:
        for model in self.models.values():
            model.batcher.close()


def _card(name: str, generator: Generator) -> ModelCard:
    recipe = generator.recipe
    plans = recipe.attention.name != "baseline"
    try:
        examples = generator.inputs(EXAMPLES)
    except PagError:  # the data that it was trained on is not here
        examples = []
    return ModelCard(
        name=name, task=recipe.task.name, input=_kind(generator),
        attention=recipe.attention.name, k=recipe.attention.k if plans else None,
        parameters=sum(weights.numel() for weights in generator.model.parameters()), device=str(generator.device),
        beam=recipe.generate.beam, max_source=recipe.generate.max_source, max_length=recipe.generate.max_length,
        examples=examples,
    )  # fmt: skip


def _kind(generator: Generator) -> Literal["text", "graph", "document"]:
    return "document" if generator.task.points else "graph" if generator.recipe.task.name == "euler" else "text"


def _values(output: Output, include: Sequence[str]) -> int:
    return sum(value.size for name, value in arrays(output).items() if name in include)


def _output(output: Output, include: Sequence[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"text": output.text, "score": round(output.score, 6), "log_prob": round(output.log_prob, 6)}
    told |= {"source": list(output.source), "tokens": list(output.tokens)}
    recorded = {name: _rounded(value) for name, value in arrays(output).items() if name in include}
    return told | recorded | copies(output)


def _rounded(values: np.ndarray) -> Any:
    """Short JSON: float32 shows its own noise otherwise."""
    return np.round(values.astype(np.float64), DIGITS).tolist()
