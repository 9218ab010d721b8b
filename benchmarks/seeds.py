"""Train recipes with several seeds, several at once, and store what came out.

    python benchmarks/seeds.py euler/baseline euler/pag euler/rpag --seeds 5 --jobs 15 \
        --out benchmarks/results/euler.json --runs runs/euler

Each run is an ordinary `pag train` and `pag evaluate`, so it resumes and can be looked at afterwards.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

PAG = [sys.executable, "-m", "pag"]


def one(recipe: str, seed: int, runs: Path, settings: list[str]) -> dict[str, Any]:
    """Train and evaluate one seed; its summary, scores and curve."""
    folder = runs / recipe.replace("/", "-") / str(seed)
    overrides = [part for setting in [*settings, f"train.seed={seed}"] for part in ("--set", setting)]
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.txt").open("a") as output:
        command = [*PAG, "train", recipe, "--out", str(folder), *overrides]
        subprocess.run(command, check=True, stdout=output, stderr=output)
        found = subprocess.run([*PAG, "evaluate", str(folder), "--json"], check=True, capture_output=True, text=True)
    print(f"{recipe} seed {seed}: {time.monotonic() - started:.0f} s  {found.stdout.strip()}", flush=True)
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {
        "seed": seed,
        "test": json.loads(found.stdout),
        "summary": json.loads((folder / "summary.json").read_text()),
        "curve": [{k: v for k, v in e.items() if k != "samples"} for e in events if e["kind"] == "valid"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--runs", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--out", type=Path, required=True, help="results file")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--commit", default="", help="the commit that is measured")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict[str, Any]]] = {recipe: [] for recipe in given.recipes}
    with ThreadPoolExecutor(given.jobs) as pool:
        cells = [(recipe, seed) for seed in range(given.seeds) for recipe in given.recipes]
        waiting = {pool.submit(one, recipe, seed, given.runs, given.settings): recipe for recipe, seed in cells}
        for done in as_completed(waiting):  # stored as they come, so that a run cut short still counts
            runs[waiting[done]].append(done.result())
            runs[waiting[done]].sort(key=lambda run: run["seed"])
            results = {"commit": given.commit, "settings": given.settings, "runs": runs}
            given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
