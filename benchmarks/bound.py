"""What a CPU must do for one training pass of the decoder, and where its time goes instead.

    python benchmarks/bound.py --out benchmarks/results/cpu-bound.json
    python benchmarks/bound.py --search 5 --out benchmarks/results/cpu-bound-search.json

For each variant at the sizes of `pag bench --preset cpu`, one thread: the multiplications counted, how long they would
take at the speed of one large product (measured beside it), and a profile of the fused pass by kind of work. Or the
same of a search with so wide a beam, JoeyNMT's beside ours where it is installed.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import profile

from pag.bench import joeynmt
from pag.bench.ours import DecoderPass, Searching
from pag.bench.report import surroundings
from pag.bench.settings import PRESETS, VARIANTS
from pag.ops.unroll import fused

SIZES = PRESETS["cpu"].sizes
FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "addmm_": 1, "baddbmm": 1, "addmv": 1, "addmv_": 1}  # the first's place


def milliseconds(run: Callable[[], Any], rounds: int) -> float:
    """Median processor time."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        run()
        times.append(1000 * (time.process_time() - started))
    return statistics.median(times)


def large_product(rounds: int, size: int = 960) -> float:
    """Billions of floating-point operations a second in one large product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / milliseconds(lambda: a @ b, rounds) / 1e6


def operations(seen: Any) -> float:
    """Billions of floating-point operations in all products."""
    total = 0
    for event in seen.key_averages(group_by_input_shape=True):
        place = FACTORS.get(event.key.removeprefix("aten::"))
        if place is not None:
            first, second = event.input_shapes[place : place + 2]
            columns = second[-1] if len(second) > 1 else 1
            total += 2 * event.count * math.prod(first) * columns
    return total / 1e9


def kinds(seen: Any, wide: Callable[[list[int]], bool]) -> dict[str, float]:
    """Share of the time by kind of work; `wide` knows the tanh layer by its shape."""
    spent = {"products": 0.0, "tanh layer": 0.0, "other operations": 0.0, "between operations": 0.0}
    for event in seen.key_averages(group_by_input_shape=True):
        name = event.key.removeprefix("aten::")
        if name in FACTORS:
            kind = "products"
        elif not event.key.startswith("aten::"):
            kind = "between operations"
        else:
            kind = "tanh layer" if any(map(wide, event.input_shapes)) else "other operations"
        spent[kind] += event.self_cpu_time_total
    whole = sum(spent.values())
    return {kind: round(time / whole, 3) for kind, time in spent.items()}


def training(variant: str, rounds: int) -> dict[str, Any]:
    made = DecoderPass(variant, SIZES, "cpu", "float32")

    def run() -> None:
        made.reset()
        made.run(fused.unroll)

    return measure(variant, run, rounds, lambda shape: shape == [SIZES.batch, SIZES.source, 2 * SIZES.units])


def searching(variant: str, beam: int, rounds: int) -> dict[str, Any]:
    """The tanh layer comes in pieces of whole sources; JoeyNMT's is as wide as its decoder."""
    neighbour = variant == "joeynmt"
    settings, kind = PRESETS["cpu"], joeynmt.Searching if neighbour else partial(Searching, variant)
    made = kind(SIZES, "cpu", "float32", settings.sentences, settings.length)
    units = SIZES.units if neighbour else 2 * SIZES.units

    def wide(shape: list[int]) -> bool:
        return len(shape) > 1 and shape[-1] == units and math.prod(shape[:-1]) % SIZES.source == 0

    return measure(variant, lambda: made.run(beam), rounds, wide)


def measure(variant: str, run: Callable[[], Any], rounds: int, wide: Callable[[list[int]], bool]) -> dict[str, Any]:
    run()
    rate, took = large_product(rounds), milliseconds(run, rounds)
    with profile(record_shapes=True) as seen:
        run()
    needed = operations(seen)
    return {
        "variant": variant,
        "milliseconds": round(took, 1),
        "billion operations in products": round(needed, 2),
        "a large product, billions a second": round(rate, 1),
        "products at that speed, milliseconds": round(1000 * needed / rate, 1),
        "shares": kinds(seen, wide),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--search", type=int, metavar="BEAM")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.search:
        names = ["joeynmt"] * joeynmt.look_for(None).there + [*VARIANTS]
        rows = [searching(name, given.search, given.rounds) for name in names]
    else:
        rows = [training(variant, given.rounds) for variant in VARIANTS]
    print(json.dumps(rows, indent=1))
    if given.out:
        given.out.write_text(json.dumps({"rows": rows, "surroundings": surroundings("cpu")}, indent=1) + "\n")


if __name__ == "__main__":
    main()
