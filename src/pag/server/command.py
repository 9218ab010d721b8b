"""`pag serve`: load models, bind, and serve until told to stop."""

import logging
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn

import pag
from pag.errors import PagError
from pag.generator import Generator
from pag.server.app import create_app
from pag.server.guard import LOOPBACK
from pag.server.limits import Limits


class Server(uvicorn.Server):
    """SIGTERM and Ctrl-C finish what was accepted and end with exit code 0; a second Ctrl-C does not wait."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # uvicorn's own raises the signal again afterwards
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield


def serve(
    runs: Sequence[str], host: str, port: int, device: str, limits: Limits, key: str | None, hosts: Sequence[str]
) -> None:
    listening = bind(host, port)
    generators = _load(runs, device)
    own_names = LOOPBACK if host in ("127.0.0.1", "::1", "localhost") else ()
    app = create_app(generators, limits, key, (*own_names, *hosts))
    listening.listen(2048)
    address, bound, *_ = listening.getsockname()
    shown = f"[{address}]" if ":" in address else address
    print(f"serving {', '.join(generators)} at http://{shown}:{bound}/", flush=True)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="on",
        timeout_graceful_shutdown=int(limits.seconds) + 1, timeout_keep_alive=30,
    )  # fmt: skip
    Server(config).run([listening])


def _load(runs: Sequence[str], device: str) -> dict[str, Generator]:
    """Each run under its name: `NAME=RUN`, or the folder's own."""
    generators: dict[str, Generator] = {}
    for run in runs:
        name, _, folder = run.partition("=") if "=" in run and not Path(run).exists() else ("", "", run)
        name = name or Path(folder).resolve().name
        if name in generators:
            raise PagError(f"two models are called '{name}': give them names, as in `pag serve a=RUN b=RUN`")
        generators[name] = pag.load(folder, device)
    return generators


def bind(host: str, port: int) -> socket.socket:
    """Before the models load, so that a port in use is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise PagError(f"cannot listen on {host} port {port}: {(error.strerror or str(error)).lower()}") from None
    return listening
