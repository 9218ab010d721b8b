"""How fast `pag prepare translation` is, and how much memory it takes.

    python benchmarks/prepare.py europarl.en.xz europarl.de.xz --out benchmarks/results/prepare.json
    python benchmarks/prepare.py europarl.en.xz europarl.de.xz --repeat 9 --out benchmarks/results/prepare-long.json

The files are unpacked first, which is not timed. `--repeat` reads them as so many files one after the other. Memory is
the sum over all processes, sampled; processor time tells how fast it would be on cores that nobody else uses.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pag.prepare.reading import LineFile
from pag.reproduce.run import commit_of
from pag.run import surroundings

HELD_OUT = 1000  # first lines, which stand in for a validation set


def unpacked(source: Path, target: Path, folder: Path) -> int:
    """Both files as plain text, and their first lines as a held-out set; the number of lines."""
    count = 0
    for path, side in ((source, "source"), (target, "target")):
        with LineFile(path) as lines, (folder / side).open("wb") as file:
            count = 0
            while some := lines.take():
                file.writelines(line + b"\n" for line in some)
                count += len(some)
        with (folder / side).open("rb") as file, (folder / f"valid.{side}").open("wb") as valid:
            valid.writelines(file.readline() for _ in range(HELD_OUT))
    return count


def memory(pid: int) -> int:
    """Bytes that a process and all below it hold."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for member in family:
        try:
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total


def measure(folder: Path, repeat: int, workers: int) -> dict[str, Any]:
    train = [
        part for _ in range(repeat) for side in ("source", "target") for part in (f"--train-{side}", folder / side)
    ]
    valid = [part for side in ("source", "target") for part in (f"--valid-{side}", folder / f"valid.{side}")]
    command = [sys.executable, "-m", "pag", "prepare", "translation", folder / "out", *train, *valid]
    before, started, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0
    child = subprocess.Popen([str(part) for part in (*command, "--workers", workers)], stdout=subprocess.DEVNULL)
    while child.poll() is None:
        peak = max(peak, memory(child.pid))
        time.sleep(0.1)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        sys.exit(f"`pag prepare translation` ended with {child.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "peak_mib": round(peak / 2**20)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="results file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pairs = unpacked(given.source, given.target, Path(folder)) * given.repeat
        found = measure(Path(folder), given.repeat, given.workers)
    facts = {
        "pairs": pairs,
        "workers": given.workers,
        **found,
        "pairs_per_second": round(pairs / found["seconds"]),
        "pairs_per_cpu_second": round(pairs / found["cpu_seconds"]),
        **surroundings(),
        "commit": commit_of(""),
    }
    print(json.dumps(facts, indent=1))
    if given.out:
        given.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
