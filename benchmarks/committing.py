"""What does it save to follow a plan? Trained models search as they like and looking at every step, in turns.

python benchmarks/committing.py models/en-de --text test.en --out benchmarks/results/committing.json
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from looking import lines

import pag
from pag.run import surroundings


def timed(model: Any, sentences: list[str], beam: int, held: bool) -> float:
    """Processor milliseconds of each step of the outputs."""
    options = replace(model.options(beam=beam), held=held)
    started = time.process_time()
    results = list(model.stream(sentences, options))
    seconds = time.process_time() - started
    return 1000 * seconds / sum(len(result.outputs[0].tokens) for result in results)


def rate(model: Any, sentences: list[str], beam: int) -> float:
    """How often it re-plans as it likes."""
    results = model.generate(sentences, beam=beam, alignments=True)
    return float(statistics.fmean(result.outputs[0].switch.mean() for result in results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", type=Path, required=True, help="inputs, one a line; may be .xz")
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5, 15])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sentences = lines(given.text)[: given.number]
    models = {Path(name).name: pag.load(name, "cpu") for name in given.models}
    rows = []
    for beam in given.beams:
        found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in models}
        for _ in range(given.rounds):
            for name, model in models.items():
                found[name]["ms"].append(timed(model, sentences, beam, held=False))
                found[name]["ms_always"].append(timed(model, sentences, beam, held=True))
        for name, model in models.items():
            ms, always = (statistics.median(values) for values in found[name].values())
            rows.append({"model": name, "beam": beam, "replan_rate": rate(model, sentences, beam), **found[name]})
            told = f"{ms:.2f} ms a step, {always:.2f} looking at every step, {always / ms:.2f} times as long"
            print(f"{name:16} beam {beam:2}  re-plans {rows[-1]['replan_rate']:.2f}  {told}")
    facts = {"sentences": len(sentences), "text": given.text.name.removesuffix(".xz"), "threads": 1, "clock": "cpu"}
    given.out.write_text(json.dumps({**facts, **surroundings(), "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
