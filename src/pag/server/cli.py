"""The command `pag serve`; what it needs is imported when it runs."""

from typing import Annotated

import typer

from pag.errors import PagError
from pag.server.limits import Limits

DEFAULT = Limits()


def serve(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, each as RUN or NAME=RUN.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than loopback can be reached from outside.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    key: Annotated[
        str | None, typer.Option("--api-key", envvar="PAG_API_KEY", help="A key that every API request must send.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name that the server answers to besides localhost; may be repeated.")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait for each model.")] = DEFAULT.queue,
    batch: Annotated[
        int, typer.Option(min=1, help="Hypotheses (requests × beam) searched together; 1 switches batching off.")
    ] = DEFAULT.batch,
    window: Annotated[
        float, typer.Option(min=0, help="Seconds that a request waits for others to join it.")
    ] = DEFAULT.window,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = DEFAULT.seconds,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of one request.")] = DEFAULT.body,
    max_beam: Annotated[int, typer.Option(min=1, help="Widest beam, longest n-best list.")] = DEFAULT.beam,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
) -> None:
    """Serve models: a page in the browser that shows what they plan, and an HTTP API.

    SIGTERM or Ctrl-C finishes the requests that were accepted, then stops.
    """
    try:
        from pag.server.command import serve as run
    except ModuleNotFoundError as error:
        raise PagError(f"`pag serve` needs {error.name}: pip install 'plan-attend-generate[serve]'") from None

    limits = Limits(queue=queue, batch=batch, window=window, seconds=timeout, body=max_body, beam=max_beam)
    run(runs, host, port, device, limits, key or None, allow_host or ())
