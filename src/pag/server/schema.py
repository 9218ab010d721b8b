"""What requests and answers look like."""

import json
import unicodedata
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pag.errors import nearest
from pag.server.limits import Refusal
from pag.tasks.euler import EDGE, QUERY

Record = Literal["alignment", "plan", "gate", "switch", "commitment"]
Node = Annotated[int, Field(ge=0, le=1_000_000)]
PLAIN = "\t\n\r"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class Graph(Strict):
    """Edges, and the first two nodes of the circuit that is asked for."""

    edges: list[Annotated[list[Node], Field(min_length=2, max_length=2)]] = Field(min_length=1, max_length=2000)
    first: Node
    second: Node

    def question(self) -> str:
        """Every edge in both directions, mixed as in training but always in the same way."""
        told = [f"{a} {EDGE} {b}" for pair in self.edges for a, b in (pair, pair[::-1])]
        Random(repr(told)).shuffle(told)
        return f"{' '.join(told)} {QUERY} {self.first} {self.second}"


class Input(Strict):
    """One input: `text`, or `graph`, or `document` with its answer."""

    model: str | None = Field(None, max_length=200, description="a name from /api/models; default: the first")
    text: str | None = Field(None, description="a line as `pag generate` takes it")
    graph: Graph | None = Field(None, description="a graph, for a model of Eulerian circuits")
    document: str | None = Field(None, description="a document, for a model that asks questions")
    answer: str | None = Field(None, description="the answer, some text of the document")
    answer_start: int | None = Field(
        None, ge=0, le=10_000_000, description="where the answer starts in the document, in characters"
    )

    @field_validator("model", "text", "document", "answer")
    @classmethod
    def _no_control_characters(cls, text: str | None) -> str | None:
        for place, character in enumerate(text or ""):
            if unicodedata.category(character) in ("Cc", "Cs") and character not in PLAIN:
                raise ValueError(f"U+{ord(character):04X} at character {place + 1} is not text")
        return text

    @model_validator(mode="after")
    def _one_input(self) -> Self:
        given = [name for name in ("text", "graph", "document") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of `text`, `graph`, or `document` with its answer")
        if (self.document is None) != (self.answer is None and self.answer_start is None):
            raise ValueError("`document` goes together with `answer`, or `answer_start`, or both")
        return self

    @property
    def kind(self) -> Literal["text", "graph", "document"]:
        return "text" if self.text is not None else "graph" if self.graph is not None else "document"

    def line(self) -> str:
        """The input as one line, as the command line takes it."""
        if self.graph is not None:
            return self.graph.question()
        if self.document is not None:
            asked = {"document": self.document, "answer": self.answer, "answer_start": self.answer_start}
            return json.dumps({key: value for key, value in asked.items() if value is not None}, ensure_ascii=False)
        return " ".join((self.text or "").splitlines())


class GenerateRequest(Input):
    beam: int | None = Field(None, ge=1, le=1000, description="beam width; default: the recipe's")
    n_best: int = Field(1, ge=1, le=1000, description="how many outputs")
    max_length: int | None = Field(None, ge=1, le=100_000, description="longest output in tokens; at most the model's")
    length_penalty: float | None = Field(
        None, ge=0, le=10, description="power of the length that scores are divided by"
    )
    include: list[Record] = Field(default=[], max_length=5, description="what to return of every step")
    stream: bool = Field(False, description="tokens as server-sent events while they are generated")


class ScoreRequest(Input):
    output: str = Field(description="the output to score")

    @field_validator("output")
    @classmethod
    def _is_text(cls, text: str) -> str:
        return cls._no_control_characters(text) or ""


class OutputAnswer(BaseModel):
    """One output. T counts its end symbol, S the source's."""

    text: str
    score: float = Field(description="log-probability divided by length to the length penalty")
    log_prob: float
    source: list[str] = Field(description="names of the source positions [S]")
    tokens: list[str] = Field(description="names of the output positions [T]")
    alignment: list[list[float]] | None = Field(None, description="α [T, S]: where each step looked")
    plan: list[list[list[float]]] | None = Field(
        None, description="A [T, k, S] as logits: a softmax makes rows attention"
    )
    gate: list[list[list[float]]] | None = Field(None, description="u [T, k, S]: how much of the plan was renewed")
    switch: list[float] | None = Field(None, description="g [T]: 1 where the step re-planned")
    commitment: list[list[float]] | None = Field(None, description="c [T, k]")
    copied: list[int | None] | None = Field(None, description="the source position that each token was copied from [T]")
    answer: list[int] | None = Field(None, description="the answer's first source position, and the one after it")
    left_out: list[int] | None = Field(None, description="words of the document before and after the source positions")


class GenerateAnswer(BaseModel):
    model: str
    text: str = Field(description="the best output")
    outputs: list[OutputAnswer]
    warning: str | None = None


class ScoreAnswer(BaseModel):
    model: str
    log_prob: float
    tokens: list[str]
    log_probs: list[float]


class ModelCard(BaseModel):
    name: str
    task: str
    input: Literal["text", "graph", "document"] = Field(description="what it takes, besides `text`")
    attention: str
    k: int | None = Field(description="steps planned ahead; none for a model without a plan")
    parameters: int
    device: str
    beam: int = Field(description="beam width unless told otherwise")
    max_source: int
    max_length: int
    examples: list[str] = Field(description="inputs to try")


class Models(BaseModel):
    models: list[ModelCard]


class Health(BaseModel):
    status: Literal["ok"]
    waiting: dict[str, int] = Field(description="requests that wait for each model")


class Problem(BaseModel):
    code: str
    message: str


class ErrorAnswer(BaseModel):
    error: Problem


def told(errors: list[Any], asked: type[Input]) -> Refusal:
    """All that is wrong with a request, in one line."""
    if any(error["type"] == "json_invalid" for error in errors):
        return Refusal(400, "json", f"the body is not valid JSON: {errors[0].get('ctx', {}).get('error', '')}")
    lines = []
    for error in errors:
        place = ".".join(str(part) for part in error["loc"] if part != "body")
        if error["type"] == "extra_forbidden":
            known = (Graph if "graph" in error["loc"] else asked).model_fields
            lines.append(f"unknown field '{place[:60]}'{nearest(str(error['loc'][-1])[:60], known)}")
            continue
        message = error["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {message}" if place else message)
    return Refusal(422, "invalid", "; ".join(lines))
