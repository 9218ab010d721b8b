"""How long does it take to decode a test set? Lengths are real, weights are random.

    python benchmarks/newstest.py newstest2014.en newstest2014.de --beams 1 15 --out benchmarks/results/newstest.json

Sources have as many tokens as the real sentences have words, times 1.25 for subwords; each output is made to end at
its reference's length in characters, so that every search does the work a trained model would. On a GPU every search
runs twice, with its step captured in a CUDA graph and launched kernel by kernel, and both must find the same.
`--profile` lists the kernels that a search of the longest outputs spends its time in.
"""

import argparse
import json
import lzma
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pag.config import build_recipe
from pag.data.batch import Batch, pad
from pag.model import Seq2Seq
from pag.run import surroundings
from pag.search import Options, search, sentences_at_once
from pag.state import State
from pag.text.vocabulary import END

SYMBOLS = 24_440, 302  # source subwords and target characters


@dataclass(frozen=True)
class Counted(State):
    """A decoder state that knows how long its output is and should become."""

    inner: State
    length: Tensor
    wanted: Tensor


class RightLength:
    """A model whose outputs end at given lengths."""

    def __init__(self, model: Seq2Seq, wanted: Tensor) -> None:
        self.model, self.wanted, self.replayable = model, wanted, model.replayable

    def begin(self, batch: Batch) -> Any:
        memory, state = self.model.begin(batch)
        return memory, Counted(state, torch.zeros_like(self.wanted), self.wanted)

    def step(self, before: Tensor, memory: Any, state: Any, held: bool = False) -> Any:
        log_probs, glimpse, inner = self.model.step(before, memory, state.inner, held)
        length = state.length + 1
        log_probs[:, END] = -30.0 * (length < state.wanted)
        return log_probs, glimpse, Counted(inner, length, state.wanted)


@dataclass(frozen=True)
class Decoded:
    seconds: float
    outputs: list[tuple[int, ...]]


@dataclass(frozen=True)
class Text:
    """The lengths of a test set's sentences."""

    sources: list[int]
    targets: list[int]

    def __getitem__(self, part: slice) -> "Text":
        return Text(self.sources[part], self.targets[part])


def read(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def build(attention: str, units: int, device: torch.device) -> Seq2Seq:
    sizes = {"embedding": units, "encoder": units, "decoder": units}
    recipe = build_recipe({"task": {"name": "euler"}, "model": sizes, "attention": {"name": attention}}, "newstest")
    return Seq2Seq(recipe, *SYMBOLS).to(device).eval()


def decode(model: Seq2Seq, text: Text, beam: int, replay: bool, device: torch.device) -> Decoded:
    size = sentences_at_once(None, device, beam)
    order = sorted(range(len(text.sources)), key=lambda i: (-text.targets[i], -text.sources[i]))
    chance = torch.Generator().manual_seed(0)
    outputs: list[tuple[int, ...]] = []
    started = time.perf_counter()
    for at in range(0, len(order), size):
        rows = order[at : at + size]
        ids = [torch.randint(3, SYMBOLS[0], (text.sources[i],), generator=chance).tolist() for i in rows]
        batch = Batch(*pad(ids)).to(device)
        wanted = torch.tensor([text.targets[i] for i in rows], device=device)
        options = Options(beam=beam, max_length=max(text.targets[i] for i in rows) + 1, replay=replay)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            found = search(RightLength(model, wanted), batch, options)
        assert all(abs(len(best.ids) - text.targets[i]) <= 1 for i, [best] in zip(rows, found, strict=True))
        outputs += [best.ids for [best] in found]
    return Decoded(time.perf_counter() - started, outputs)


def measure(model: Seq2Seq, name: str, text: Text, beam: int, device: torch.device) -> list[dict[str, Any]]:
    """The row of each way to search, the captured one last."""
    ways = {"step by step": False, "captured": True} if device.type == "cuda" else {"step by step": False}
    found = {way: decode(model, text, beam, replay, device) for way, replay in ways.items()}
    first, last = next(iter(found.values())), list(found.values())[-1]
    same = sum(a == b for a, b in zip(first.outputs, last.outputs, strict=True)) / len(first.outputs)
    print(f"{name:9} beam {beam:2}: {same:.2%} of the outputs are the same both ways")
    rows = []
    for way, decoded in found.items():
        rate = len(text.sources) / decoded.seconds
        print(f"{name:9} beam {beam:2}  {way:13} {decoded.seconds:7.2f} s  {rate:8.1f} sentences/s", flush=True)
        rows.append({"attention": name, "beam": beam, "way": way, "seconds": decoded.seconds, "same": same})
    return rows


def profile(model: Seq2Seq, text: Text, beam: int, device: torch.device) -> None:
    from torch.profiler import profile as profiling

    longest = sorted(range(len(text.sources)), key=lambda i: -text.targets[i])[: sentences_at_once(None, device, beam)]
    part = Text([text.sources[i] for i in longest], [text.targets[i] for i in longest])
    for replay in (False, True):
        with profiling() as seen:
            decode(model, part, beam, replay, device)
        key = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
        print(f"beam {beam}, captured: {replay}")
        print(seen.key_averages().table(sort_by=key, row_limit=40, max_name_column_width=60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--units", type=int, default=600)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 15])
    parser.add_argument("--attention", nargs="+", default=["baseline", "pag", "rpag"])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sources = [max(1, round(1.25 * len(line.split()))) + 1 for line in read(given.source)][: given.limit]
    targets = [max(1, len(line)) + 1 for line in read(given.target)][: given.limit]
    text, rows = Text(sources, targets), []
    for name in given.attention:
        model = build(name, given.units, device)
        for beam in given.beams:
            decode(model, text[:64], beam, True, device)  # warm up
            if given.profile:
                profile(model, text, beam, device)
            else:
                rows += measure(model, name, text, beam, device)
    if given.out and rows:
        found = {"units": given.units, "sentences": len(sources), "rows": rows, **surroundings()}
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
