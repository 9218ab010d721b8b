"""Questions of a trained model about documents that it was not trained on, with what was copied marked.

    python benchmarks/asked.py runs/questions-pag --out benchmarks/results/questions-asked.json

The examples are spread evenly over the split. `make docs` puts them on the page of results.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import pag
from pag.generator import Output
from pag.run import surroundings
from pag.tasks.questions import parse


def told(line: str, reference: str, best: Output) -> dict[str, Any]:
    given = parse(line)
    assert best.copied is not None
    words = [best.source[place] if place >= 0 else token for token, place in zip(best.tokens, best.copied, strict=True)]
    return {
        "document": given.document,
        "answer": given.answer,
        "answer_start": given.start,
        "question": best.text,
        "words": words[:-1],
        "copied": [int(place) >= 0 for place in best.copied[:-1]],
        "log_prob": best.log_prob,
        "reference": reference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--data", help="prepared folder, where it is not the one trained on")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    model = pag.load(given.run)
    if given.data:
        model.task = model.task.with_data(given.data)
    inputs, references = model.task.inputs(given.split), model.task.references(given.split)
    numbers = [place * len(inputs) // given.number for place in range(given.number)]
    results = model.generate([inputs[n] for n in numbers], beam=given.beam)
    asked = [told(inputs[n], references[n], r.outputs[0]) for n, r in zip(numbers, results, strict=True)]
    facts = {"split": given.split, "beam": given.beam, "attention": model.recipe.attention.name, **surroundings()}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({**facts, "asked": asked}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
