"""From a typed input to its picture in the browser: python benchmarks/page.py runs/quickstart --out FILE.json

A fresh page, a graph typed into it, the button pressed: until the output, its alignment and its plan are painted.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright

import pag
from pag.tasks.euler import EDGE, QUERY

PRESS = """async () => {
  const started = performance.now();
  document.querySelector("form button[type=submit]").click();
  const done = () => document.querySelector("article:not([aria-busy]) .plan-view:not([hidden]) table");
  while (!done()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - started;
}"""


def short(question: str) -> str:
    """A graph as one types it: 1-2 2-3 3-1 start 1 2."""
    told, _, query = question.partition(f" {QUERY} ")
    words = told.split()
    pairs = {frozenset((a, b)) for a, link, b in zip(words[::3], words[1::3], words[2::3], strict=True) if link == EDGE}
    return " ".join("-".join(sorted(pair)) for pair in sorted(pairs, key=sorted)) + f" start {query}"


def times(page: Page, address: str, inputs: list[str]) -> list[float]:
    found = []
    for text in inputs:
        page.goto(address)
        page.get_by_label("Input", exact=True).fill(short(text))
        found.append(page.evaluate(PRESS))
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--number", type=int, default=30)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    inputs = list(pag.load(given.run, "cpu").task.inputs("test")[: given.number])
    command = [sys.executable, "-m", "pag", "serve", given.run, "--device", "cpu", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        seen = times(browser.new_page(), address, inputs)
        found: dict[str, Any] = {
            "run": Path(given.run).name,
            "inputs": len(seen),
            "cores": len(os.sched_getaffinity(0)),
            "browser": browser.version,
            "torch": torch.__version__,
            "median_ms": round(statistics.median(seen)),
            "p95_ms": round(seen[len(seen) * 95 // 100]),
            "most_ms": round(seen[-1]),
        }
        browser.close()
    server.send_signal(signal.SIGTERM)
    server.wait(60)
    print(json.dumps(found))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
