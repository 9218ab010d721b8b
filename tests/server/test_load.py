"""Under load and when things go wrong: bounded, on time, and nothing accepted is lost."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import Serving, gated, generator, serving

import pag
from pag.errors import PagError
from pag.generator import Generator
from pag.server.command import serve
from pag.server.limits import Limits


def post(server: Serving, **body: Any) -> httpx.Response:
    with server.client() as client:
        return client.post("/api/generate", json=body)


def waiting(server: Serving) -> int:
    with server.client() as client:
        return client.get("/api/health").json()["waiting"]["pag"]


def until(true: Any) -> None:
    while not true():
        time.sleep(0.01)


def test_a_full_queue_answers_429_and_says_when_to_come_back() -> None:
    with gated(Limits(queue=3, window=0)) as (server, gate), ThreadPoolExecutor(8) as pool:
        text = server.inputs()[0]
        first = pool.submit(post, server, text=text)
        assert gate.reached.wait(60)
        queued = [pool.submit(post, server, text=text) for _ in range(3)]
        until(lambda: waiting(server) == 3)
        for more in ({}, {"stream": True}):
            refused = post(server, text=text, **more)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "busy"
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
        gate.let(1000)
        answers = [job.result() for job in (first, *queued)]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len({answer.json()["text"] for answer in answers}) == 1


def test_a_request_that_takes_too_long_is_told_so_and_the_search_stops() -> None:
    with gated(Limits(seconds=0.3)) as (server, gate):
        late = post(server, text=server.inputs()[0])
        assert late.status_code == 408
        assert late.json()["error"] == {
            "code": "timeout",
            "message": "no answer within 0.3 s: ask for less, or try again later",
        }
        streamed = post(server, text=server.inputs()[0], stream=True)
        assert streamed.text.strip().split("\n\n")[-1].startswith('event: error\ndata: {"error":{"code":"timeout"')
        assert gate.steps == 1
        gate.let(1000)
        until(lambda: waiting(server) == 0)
        assert post(server, text=server.inputs()[0]).status_code == 200


def test_who_has_gone_makes_room_in_the_queue() -> None:
    with gated(Limits(queue=2, seconds=0.4, window=0)) as (server, gate), ThreadPoolExecutor(4) as pool:
        text = server.inputs()[0]
        late = [pool.submit(post, server, text=text)]
        assert gate.reached.wait(60)
        late += [pool.submit(post, server, text=text) for _ in range(2)]
        assert [job.result().status_code for job in late] == [408] * 3
        assert waiting(server) == 2
        assert post(server, text=text).status_code == 408  # taken in, not refused


def test_a_reader_that_leaves_in_mid_stream_stops_its_search() -> None:
    with gated(Limits()) as (server, gate):
        body = {"text": server.inputs()[0], "stream": True, "max_length": 12}
        with server.client() as client, client.stream("POST", "/api/generate", json=body) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: source"
            assert gate.reached.wait(60)
        time.sleep(0.3)  # the server hears of the closed connection
        gate.let(1000)
        assert post(server, text=server.inputs()[0], max_length=2).status_code == 200
        assert gate.steps < 12


HALF = b"POST /api/generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"


def connect(server: Serving) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)))


def test_half_a_request_and_then_nothing_does_no_harm(served: Serving) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(
            b"POST /api/generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
    assert post(served, text=served.inputs()[0]).status_code == 200


def test_a_body_that_never_comes_is_refused() -> None:
    with serving({"pag": generator("pag")}, Limits(seconds=0.3)) as server, connect(server) as line:
        line.sendall(HALF)
        assert b" 408 " in line.recv(1000).split(b"\r\n")[0]


def test_a_batch_that_fails_is_a_500_and_the_next_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = generator("pag")
    with serving({"pag": model}) as server:
        with monkeypatch.context() as broken:
            broken.setattr(model, "stream", lambda *given: 1 / 0)
            failed = post(server, text=server.inputs()[0])
            assert (failed.status_code, failed.json()["error"]["code"]) == (500, "internal")
            streamed = post(server, text=server.inputs()[0], stream=True)
            assert 'event: error\ndata: {"error":{"code":"internal"' in streamed.text
        assert post(server, text=server.inputs()[0]).status_code == 200


def test_a_batch_has_one_kind_of_search_and_a_bounded_width(monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(Limits(batch=6, window=0)) as (server, gate), ThreadPoolExecutor(16) as pool:
        batches: list[tuple[int, int]] = []
        stream = gate.generator.stream

        def note(texts: list[str], options: Any, *more: Any) -> Any:
            batches.append((options.beam, len(texts)))
            return stream(texts, options, *more)

        monkeypatch.setattr(gate.generator, "stream", note)
        text = server.inputs()[0]
        first = pool.submit(post, server, text=text)
        assert gate.reached.wait(60)
        jobs = [pool.submit(post, server, text=text, beam=beam) for beam in [1] * 7 + [2] * 5]
        until(lambda: waiting(server) == 12)
        gate.let(1000)
        assert [job.result().status_code for job in (first, *jobs)] == [200] * 13
        assert sorted(batches) == [(1, 1), (1, 1), (1, 6), (2, 2), (2, 3)]


def test_sigterm_under_load_finishes_what_was_accepted(run: Path) -> None:
    """Real processes: every request that was taken in is answered rightly, and the exit code is 0."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "pag", "serve", str(run), "--port", "0"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().split()[-1]
    model: Generator = pag.load(str(run))
    inputs = list(model.task.inputs("test"))
    right = [result.text for result in model.generate(inputs)]
    stopping, lost, answered = threading.Event(), [], []

    def ask(number: int) -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            for turn in range(10_000):
                n = (number + turn) % len(inputs)
                try:
                    answer = client.post("/api/generate", json={"text": inputs[n]})
                except httpx.TransportError as error:  # a connection that was not taken any more
                    if not stopping.is_set():
                        lost.append(repr(error))
                    return
                if answer.status_code == 503 and stopping.is_set():
                    return
                answered.append(answer.status_code == 200 and answer.json()["text"] == right[n])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    until(lambda: len(answered) > 60 or not any(thread.is_alive() for thread in threads))
    stopping.set()
    server.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert server.wait(60) == 0, server.stderr.read() if server.stderr else ""
    assert lost == [] and len(answered) > 60 and all(answered)


def test_a_port_in_use_and_a_name_used_twice_are_refused_in_one_line(run: Path) -> None:
    def refused(*runs: Path, port: int = 0) -> str:
        with pytest.raises(PagError) as error:
            serve([str(each) for each in runs], "127.0.0.1", port, "cpu", Limits(), None, ())
        return str(error.value)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(run, port=port) == f"cannot listen on 127.0.0.1 port {port}: address already in use"
    assert refused(run, run) == "two models are called 'tiny': give them names, as in `pag serve a=RUN b=RUN`"
    assert "no run or checkpoint folder at" in refused(run / "nowhere")
