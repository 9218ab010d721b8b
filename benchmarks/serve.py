"""`pag serve` under load on loopback: many clients at once, with batching and without, every answer checked.

    python benchmarks/serve.py runs/quickstart --out benchmarks/results/serve-cpu.json

The servers take turns in rounds, so that whatever else the machine does disturbs them alike. The clients run on
the same machine. With --litserve a third server joins: the same model behind LitServe (pip install litserve).
"""

import argparse
import asyncio
import json
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import torch

import pag

MODES = {"batching": [], "one at a time": ["--batch", "1"]}
LITSERVE = [sys.executable, str(Path(__file__).with_name("serve_litserve.py"))]


@dataclass
class Load:
    """What the clients of one server saw, over all its rounds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    lost: int = 0  # no answer, or one that is none of 200, 408 and 429
    refused: int = 0  # 429
    late: int = 0  # 408: waited longer than the server's limit
    longest_queue: int = 0
    memory: list[list[float]] = field(default_factory=list)  # MiB, sampled each second, by round
    batches: list[float] = field(default_factory=list)  # mean requests of a batch, by round

    def row(self) -> dict[str, Any]:
        ordered = sorted(self.latencies)
        share = {
            f"p{p}_ms": round(1000 * ordered[min(len(ordered) - 1, len(ordered) * p // 100)], 1) for p in (50, 95, 99)
        }
        return {
            "answers": len(ordered),
            "seconds": round(self.seconds, 1),
            "answers_per_second": round(len(ordered) / self.seconds, 1),
            **share,
            "wrong": self.wrong,
            "lost": self.lost,
            "refused_429": self.refused,
            "late_408": self.late,
            "longest_queue": self.longest_queue,
            "mean_batch": round(statistics.mean(self.batches), 1) if self.batches else None,
            "memory_mib": [
                {"first": m[0], "after_10_s": m[min(10, len(m) - 1)], "last": m[-1], "most": max(m)}
                for m in self.memory
                if m
            ],
        }


@contextmanager
def server(command: list[str]) -> Iterator[str]:
    """A server process; its address is the last word of its first line. It must end well when told to."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    try:
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        assert code == 0, f"{command} ended with {code}"


async def client(
    session: aiohttp.ClientSession, address: str, pairs: list[tuple[str, str]], until: float, load: Load, seed: int
) -> None:
    chance = random.Random(seed)
    while time.monotonic() < until:
        text, right = chance.choice(pairs)
        started = time.monotonic()
        try:
            async with session.post(f"{address}api/generate", json={"text": text}) as answer:
                said = await answer.json()
        except (aiohttp.ClientError, TimeoutError):
            load.lost += 1
            continue
        if answer.status == 429:
            load.refused += 1
            await asyncio.sleep(float(answer.headers["Retry-After"]))
        elif answer.status == 408:
            load.late += 1
        elif answer.status != 200:
            load.lost += 1
        else:
            load.latencies.append(time.monotonic() - started)
            load.wrong += said["text"] != right


async def observe(session: aiohttp.ClientSession, address: str, until: float, load: Load) -> None:
    """Queue and memory, each second, from the server's own metrics."""
    load.memory.append([])
    text = ""
    while time.monotonic() < until:
        async with session.get(f"{address}metrics") as answer:
            text = await answer.text()
        load.longest_queue = max(load.longest_queue, int(_metric(text, "pag_queue_requests")))
        load.memory[-1].append(round(_metric(text, "process_resident_memory_bytes") / 2**20, 1))
        await asyncio.sleep(1)
    load.batches.append(_metric(text, "pag_batch_requests_sum") / max(1, _metric(text, "pag_batch_requests_count")))


def _metric(text: str, name: str) -> float:
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def first_answer(session: aiohttp.ClientSession, address: str, text: str) -> None:
    """Waits for a server that tells its address before it listens; and warms the model up."""
    for _ in range(600):
        try:
            async with session.post(f"{address}api/generate", json={"text": text}) as answer:
                await answer.read()
                return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.1)
    raise SystemExit(f"no answer from {address}")


async def drive(
    address: str, pairs: list[tuple[str, str]], clients: int, seconds: float, load: Load, watch: bool
) -> None:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        await first_answer(session, address, pairs[0][0])
        started = time.monotonic()
        until = started + seconds
        work = [client(session, address, pairs, until, load, number) for number in range(clients)]
        await asyncio.gather(*work, *([observe(session, address, until, load)] if watch else []))
        load.seconds += time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60, help="for each server, over all rounds")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--litserve", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    model = pag.load(given.run, "cpu")
    inputs = list(model.task.inputs("test"))
    pairs = list(zip(inputs, [result.text for result in model.generate(inputs)], strict=True))
    commands = {
        name: [sys.executable, "-m", "pag", "serve", given.run, "--device", "cpu", "--port", "0", *more]
        for name, more in MODES.items()
    }
    commands |= {"LitServe": [*LITSERVE, given.run]} if given.litserve else {}
    loads = {name: Load() for name in commands}
    for _ in range(given.rounds):
        for name, command in commands.items():
            with server(command) as address:
                asyncio.run(
                    drive(address, pairs, given.clients, given.seconds / given.rounds, loads[name], name in MODES)
                )
            print(name, json.dumps(loads[name].row()), flush=True)
    rows = {name: load.row() for name, load in loads.items()}
    rates = {name: row["answers_per_second"] for name, row in rows.items()}
    found = {
        "run": Path(given.run).name,
        "clients": given.clients,
        "rounds": given.rounds,
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "rows": rows,
        "batching_over_one_at_a_time": round(rates["batching"] / rates["one at a time"], 2),
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
