"""What every request passes first: host, key, size and kind of its body; and headers that every answer gets."""

import asyncio
import json
import secrets
import time
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pag.server.limits import Limits, Refusal
from pag.server.metrics import Metrics

CONTENT = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'"
HEADERS = {
    "Content-Security-Policy": f"{CONTENT}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ROUTES = ("/api/generate", "/api/score", "/api/models", "/api/health", "/metrics", "/openapi.json")
OPEN = ("/api/health",)  # needs no key


class Guard:
    """An ASGI application around another."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, key: str | None = None, hosts: Collection[str] = ()
    ) -> None:
        """`hosts`: the names under which the server may be called; empty for any. A page elsewhere that
        points its own name at a server on loopback is refused by it."""
        self.app, self.limits, self.metrics, self.key, self.hosts = app, limits, metrics, key, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(scope, send, self.metrics)
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_key(scope["path"], headers)
            body = await self._body(headers, receive) if scope["method"] in ("POST", "PUT", "PATCH") else b""
        except Refusal as refusal:
            await answer.refuse(refusal)
            return
        await self.app(scope, _once(body, receive), answer.send)

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        if self.hosts and name.lower() not in self.hosts:
            raise Refusal(421, "host", f"this server does not answer to that name (it does to {', '.join(self.hosts)})")

    def _check_key(self, path: str, headers: Headers) -> None:
        if self.key is None or path in OPEN or not (path.startswith("/api/") or path == "/metrics"):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), self.key.encode()):
            raise Refusal(401, "key", "this server wants a key: send the header `Authorization: Bearer KEY`")

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body; too much, too slow or the wrong kind is refused."""
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(
                415, "content_type", "the body must be JSON: send the header `Content-Type: application/json`"
            )
        size = headers.get("content-length", "0")
        if size.isdecimal() and (len(size) > 15 or int(size) > self.limits.body):
            raise self._too_large()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._read(receive)
        except TimeoutError:
            message = f"the request's body did not arrive within {self.limits.seconds:g} s"
            raise Refusal(408, "timeout", message) from None

    async def _read(self, receive: Receive) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "disconnected", "the connection closed before the request was whole")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.limits.body:
                raise self._too_large()
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> Refusal:
        return Refusal(413, "too_large", f"the request is larger than {self.limits.body:,} bytes")


def _once(body: bytes, receive: Receive) -> Receive:
    """The body in one message; then whatever the connection says."""
    told = False

    async def next_message() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


class _Answer:
    """Puts the headers on an answer and counts it."""

    def __init__(self, scope: Scope, send: Send, metrics: Metrics) -> None:
        self.route = scope["path"] if scope["path"] in ROUTES else "page"
        self.out, self.metrics, self.started, self.status = send, metrics, time.monotonic(), 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-cache" if self.route == "page" else "no-store")
            self.status = message["status"]
        elif not message.get("more_body", False):
            self.metrics.request(self.route, self.status, time.monotonic() - self.started)
        await self.out(message)

    async def refuse(self, refusal: Refusal) -> None:
        body = json.dumps(refusal.body).encode()
        given: dict[str, Any] = {"content-type": "application/json", "content-length": str(len(body))}
        if refusal.status in (408, 413):  # what is left of the body is not read
            given["connection"] = "close"
        if refusal.status == 401:
            given["www-authenticate"] = "Bearer"
        headers = [(name.lower().encode(), value.encode()) for name, value in {**given, **refusal.headers}.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
