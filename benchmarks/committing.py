"""What does it save to follow a plan? Trained models search for the same sentences, taking turns; processor time.

python benchmarks/committing.py runs/unpriced runs/rate-0.5 --text test.en --out benchmarks/results/committing.json
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from looking import lines

import pag
from pag.run import surroundings


def timed(model: Any, sentences: list[str], beam: int) -> tuple[float, float]:
    """Processor seconds of one search, and the share of its outputs' steps that re-planned."""
    started = time.process_time()
    model.generate(sentences, beam=beam)
    seconds = time.process_time() - started
    switches = [
        result.outputs[0].switch.mean() for result in model.generate(sentences[:20], beam=beam, alignments=True)
    ]  # not timed: what is recorded costs time
    return seconds, float(statistics.fmean(switches))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", type=Path, required=True, help="inputs, one a line; may be .xz")
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sentences = lines(given.text)[: given.number]
    models = {Path(name).name: pag.load(name, "cpu") for name in given.models}
    rows = []
    for beam in given.beams:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
        for _ in range(given.rounds):
            for name, model in models.items():
                found[name].append(timed(model, sentences, beam))
        for name, runs in found.items():
            seconds = [run[0] for run in runs]
            row = {"model": name, "beam": beam, "replan_rate": runs[0][1], "seconds": statistics.median(seconds)}
            rows.append({**row, "all": [round(value, 3) for value in seconds]})
            print(f"{name:24} beam {beam:2}  re-plans {runs[0][1]:.2f}  {row['seconds']:.2f} s")
    facts = {"sentences": len(sentences), "text": given.text.name.removesuffix(".xz"), "threads": 1, "clock": "cpu"}
    given.out.write_text(json.dumps({**facts, **surroundings(), "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
