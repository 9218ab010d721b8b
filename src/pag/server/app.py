"""The HTTP interface: routes, errors, the page."""

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import pag.server.schema as schema
from pag.generator import Generator
from pag.server.guard import Guard
from pag.server.limits import Limits, Refusal
from pag.server.metrics import Metrics
from pag.server.service import Service

DESCRIPTION = "Outputs of planning-attention models, with where they looked and what they planned to look at."
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "not JSON"},
    401: {"description": "the server wants a key"},
    404: {"description": "no such model"},
    408: {"description": "it took too long"},
    413: {"description": "the request is too large"},
    415: {"description": "the body is not declared as JSON"},
    422: {"description": "an input or an option that the model cannot take"},
    429: {"description": "too many requests are waiting; see the header Retry-After"},
    503: {"description": "the server is shutting down"},
}
REFUSED = {status: {"model": schema.ErrorAnswer, **about} for status, about in ERRORS.items()}
EVENTS = {
    "description": "with `stream`: the events source, tokens …, then result or error",
    "schema": {"type": "string"},
}
GENERATED = {"model": schema.GenerateAnswer, "content": {"text/event-stream": EVENTS}}


def create_app(
    generators: dict[str, Generator], limits: Limits | None = None, key: str | None = None, hosts: Collection[str] = ()
) -> ASGIApp:
    """The server as an ASGI application; `key` is wanted of every API request where it is given."""
    limits, metrics = limits or Limits(), Metrics()
    service = Service(generators, limits, metrics)
    return Guard(_application(service, metrics), limits, metrics, key, hosts)


def _application(service: Service, metrics: Metrics) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    app = FastAPI(
        title="pag", description=DESCRIPTION, version="1", docs_url=None, redoc_url=None, lifespan=lifespan,
    )  # fmt: skip
    _routes(app, service, metrics)
    _errors(app)
    _page(app)
    return app


def _routes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.post("/api/generate", responses={200: GENERATED, **REFUSED})
    async def generate(asked: schema.GenerateRequest) -> Response:
        """Outputs for one input, best first."""
        model = service.find(asked.model)
        if asked.stream:
            return StreamingResponse(_server_sent(model.stream(asked)), media_type="text/event-stream")
        return _json(await model.generate(asked))

    @app.post("/api/score", responses={200: {"model": schema.ScoreAnswer}, **REFUSED})
    async def score(asked: schema.ScoreRequest) -> Response:
        """The log-probability of a given output."""
        return _json(await service.find(asked.model).score(asked))

    @app.get("/api/models", responses={401: REFUSED[401]})
    async def models() -> schema.Models:
        """What is served."""
        return schema.Models(models=[model.card for model in service.models.values()])

    @app.get("/api/health")
    async def health() -> schema.Health:
        """Is the server there?"""
        return schema.Health(status="ok", waiting=service.waiting())

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, 401: REFUSED[401]})
    async def numbers() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


def _page(app: FastAPI) -> None:
    files = StaticFiles(directory=str(resources.files("pag.server") / "page"))

    @app.api_route("/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        return await files.get_response(name, request.scope)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)


def _errors(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> Response:
        return _refusal(refusal)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        asked = schema.ScoreRequest if request.url.path == "/api/score" else schema.GenerateRequest
        return _refusal(schema.told(list(error.errors()), asked))

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        if error.status_code == 400:  # how FastAPI tells of bytes that are no text, or nest too deep
            return _refusal(Refusal(400, "json", "the body is not valid JSON in UTF-8"))
        phrase = HTTPStatus(error.status_code).phrase.lower()
        refusal = Refusal(error.status_code, phrase.replace(" ", "_"), f"{phrase}: {request.method} {request.url.path}")
        answer = _refusal(refusal)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return _refusal(Refusal(500, "internal", "the server failed; its log says why"))


def _refusal(refusal: Refusal) -> Response:
    return _json(refusal.body, refusal.status, refusal.headers)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_compact(value), status, headers, "application/json")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


async def _server_sent(events: AsyncIterator[tuple[str, dict[str, Any]]]) -> AsyncIterator[str]:
    async for name, value in events:
        yield f"event: {name}\ndata: {_compact(value)}\n\n"
