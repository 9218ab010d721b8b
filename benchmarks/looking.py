"""Does a model that has learned to follow its plan gain from looking at every step? The same weights, both ways.

python benchmarks/looking.py models/en-de --source val.en --target val.de --out benchmarks/results/looking.json
"""

import argparse
import json
import lzma
from pathlib import Path
from typing import Any

import torch

import pag
from pag.run import surroundings


def lines(path: Path) -> list[str]:
    read = lzma.open if path.suffix == ".xz" else open
    with read(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def nats(model: Any, sources: list[str], targets: list[str]) -> float:
    """A sentence, given the reference."""
    return -sum(score.log_prob for score in model.score(sources, targets)) / len(sources)


def both(name: str, sources: list[str], targets: list[str]) -> dict[str, Any]:
    model = pag.load(name, "cpu")
    free = nats(model, sources, targets)
    forward = model.model.forward
    model.model.forward = lambda batch, noise=None, held=False, record=False: forward(batch, noise, True, record)
    always = nats(model, sources, targets)
    print(f"{Path(name).name}: {free:.2f} nats as it likes, {always:.2f} looking at every step")
    settings = {"attention": model.recipe.attention.name, "replan_rate": model.recipe.loss.replan_rate}
    return {"model": Path(name).name, **settings, "nats": free, "nats_always_looking": always}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--source", type=Path, required=True, help="inputs, one a line; may be .xz")
    parser.add_argument("--target", type=Path, required=True, help="their references")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sources, targets = lines(given.source), lines(given.target)
    rows = [both(name, sources, targets) for name in given.models]
    facts = {"sentences": len(sources), "text": given.source.name.removesuffix(".xz"), **surroundings()}
    given.out.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
