"""Questions of trained models about the same documents, which they were not trained on, and what was copied.

    python benchmarks/asked.py baseline=runs/baseline pag=runs/pag --out benchmarks/results/questions-samples.json

The examples are drawn by the seed, and none is left out. `make docs` puts them on the page of results.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import pag
from pag.generator import Output


def told(output: Output) -> dict[str, Any]:
    assert output.copied is not None and output.copy_share is not None
    return {
        "text": output.text,
        "tokens": output.tokens,
        "copied": output.copied.tolist(),
        "copy_share": [round(float(share), 3) for share in output.copy_share],
        "switch": None if output.switch is None else output.switch.tolist(),
        "log_prob": output.log_prob,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--split", default="test")
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2017)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    models = {name: pag.load(run) for name, _, run in (text.partition("=") for text in given.runs)}
    task = next(iter(models.values())).task
    inputs, references = task.inputs(given.split), task.references(given.split)
    numbers = sorted(random.Random(given.seed).sample(range(len(inputs)), given.number))
    lines = [inputs[number] for number in numbers]
    found = {name: model.generate(lines, beam=given.beam, alignments=True) for name, model in models.items()}
    rows = [
        {
            "number": number,
            "input": json.loads(lines[place]),
            "reference": references[number],
            "outputs": {name: told(results[place].outputs[0]) for name, results in found.items()},
        }
        for place, number in enumerate(numbers)
    ]
    facts = {"split": given.split, "beam": given.beam, "seed": given.seed, "rows": rows}
    given.out.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
