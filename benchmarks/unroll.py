"""Forward + backward of the decoder's teacher-forced pass: every variant, every implementation.

    python benchmarks/unroll.py --json benchmarks/results/unroll-h200.json      (on a GPU)
    python benchmarks/unroll.py --device cpu --rows 16 --positions 30 --steps 60 --units 256 --threads 2

First the fast passes are checked against the reference in float64 (outputs and every gradient, ragged
sources); then each is timed on full-length sources. Prints a table and writes JSON.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from pag.attention.commitment import gumbel
from pag.config import AttentionSettings
from pag.decoder import Decoder
from pag.layers import initialise
from pag.ops.unroll import fused, reference
from pag.ops.unroll.reference import Trace
from pag.registry import ATTENTIONS, find

VARIANTS = ["baseline", "rpag", "pag"]


class Problem:
    """A decoder and one batch."""

    def __init__(self, name: str, sizes: argparse.Namespace, steps: int, device: str, layer_norm: bool) -> None:
        torch.manual_seed(0)
        self.given: dict[torch.Size, Tensor] = {}
        units, annotations = sizes.units, 2 * sizes.units
        settings = AttentionSettings(name=name, k=sizes.k)
        attention = find(ATTENTIONS, name, "attention")(annotations, units, units, settings, layer_norm)
        decoder = Decoder(attention, annotations, units, units, layer_norm)
        initialise(decoder, "fan_in", torch.Generator().manual_seed(0))
        self.decoder = decoder.to(device)
        self.tokens = torch.randn(sizes.rows, steps, units, device=device, requires_grad=True)
        self.annotations = torch.randn(sizes.rows, sizes.positions, annotations, device=device, requires_grad=True)
        lengths = torch.full((sizes.rows,), sizes.positions)
        if sizes.ragged:
            lengths[1:] = torch.randint(1, sizes.positions + 1, (sizes.rows - 1,))
        self.mask = (torch.arange(sizes.positions) < lengths[:, None]).to(device)
        self.noise = gumbel(torch.rand(sizes.rows, steps, sizes.k, device=device)) * sizes.noise

    def double(self) -> None:
        self.decoder.double()
        self.noise = self.noise.double()
        for name in ("tokens", "annotations"):
            setattr(self, name, getattr(self, name).detach().double().requires_grad_())

    def run(self, unroll: Callable[..., Trace], bf16: bool = False) -> dict[str, Tensor]:
        """Outputs, and gradients of a fixed random function of them."""
        leaves = {"tokens": self.tokens, "annotations": self.annotations, **dict(self.decoder.named_parameters())}
        for leaf in leaves.values():
            leaf.grad = None
        with torch.autocast(self.tokens.device.type, torch.bfloat16, enabled=bf16):
            memory = self.decoder.attention.prepare(self.annotations, self.mask)
            trace = unroll(self.decoder, self.tokens, memory, self.noise)
        outputs = {"lower": trace.lower, "upper": trace.upper, "context": trace.glimpses.context}
        if trace.glimpses.penalised is not None:
            outputs |= {"penalised": trace.glimpses.penalised}
        torch.autograd.backward(list(outputs.values()), [self.towards(x) for x in outputs.values()])
        gradients = {f"d {name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        return {name: x.detach() for name, x in outputs.items()} | gradients

    def towards(self, x: Tensor) -> Tensor:
        """A gradient that looks random, the same for every precision."""
        if x.shape not in self.given:
            count = torch.arange(x.numel(), device=x.device, dtype=torch.float32)
            self.given[x.shape] = torch.sin(count * 0.7391).view(x.shape)
        return self.given[x.shape].to(x.dtype)


def far(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, Any]:
    """‖found − expected‖ / ‖expected‖: of all outputs together, of all gradients, and of the worst single one."""
    assert found.keys() == expected.keys()
    off = {n: float((found[n].double() - e.double()).norm()) for n, e in expected.items()}
    size = {n: float(e.double().norm()) for n, e in expected.items()}
    result: dict[str, Any] = {}
    for group in ("outputs", "gradients"):
        names = [n for n in off if n.startswith("d ") == (group == "gradients")]
        result[group] = math.hypot(*(off[n] for n in names)) / math.hypot(*(size[n] for n in names))
    result["worst"], result["of"] = max((off[n] / max(size[n], 1e-30), n) for n in off)
    return result


def check(passes: dict[str, tuple[Callable[..., Trace], bool]], device: str) -> dict[str, Any]:
    """Odd sizes, ragged. The noise is strong, so that rounding flips no choice."""
    sizes = argparse.Namespace(rows=5, positions=37, units=60, k=7, ragged=True, noise=8.0)
    rows: dict[str, Any] = {}
    for name in VARIANTS:
        for layer_norm in (False, True):
            problem = Problem(name, sizes, 13, device, layer_norm)
            found = {label: problem.run(f, bf16) for label, (f, bf16) in passes.items()}
            problem.double()
            expected = problem.run(reference.unroll)
            for label, values in found.items():
                rows[f"{name}{' + layer norm' if layer_norm else ''}, {label}"] = far(values, expected)
    return rows


def measure(problem: Problem, unroll: Callable[..., Trace], bf16: bool, repeats: int) -> dict[str, float]:
    on_gpu = problem.tokens.is_cuda
    problem.run(unroll, bf16)
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        for leaf in [problem.tokens, problem.annotations, *problem.decoder.parameters()]:
            leaf.grad = None
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    times = timed_on_gpu(problem, unroll, bf16, repeats) if on_gpu else timed(problem, unroll, bf16, repeats)
    found = {"ms": median(times), "best_ms": min(times)}
    if on_gpu:
        found["peak_mib"] = (torch.cuda.max_memory_allocated() - held) / 2**20
    return found


def timed(problem: Problem, unroll: Callable[..., Trace], bf16: bool, repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        problem.run(unroll, bf16)
        times.append(1000 * (time.perf_counter() - start))
    return times


def timed_on_gpu(problem: Problem, unroll: Callable[..., Trace], bf16: bool, repeats: int) -> list[float]:
    """Pass after pass without waiting in between, as in training, where the host runs ahead."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 2)]
    for mark in marks:
        mark.record()
        if mark is not marks[-1]:
            problem.run(unroll, bf16)
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairwise(marks[1:])]


def profile(problem: Problem, unroll: Callable[..., Trace], bf16: bool) -> None:
    from torch.profiler import ProfilerActivity

    problem.run(unroll, bf16)
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        problem.run(unroll, bf16)
        torch.cuda.synchronize()
    events = [e for e in seen.key_averages() if e.self_device_time_total > 0]
    for e in sorted(events, key=lambda e: -e.self_device_time_total)[:22]:
        each = e.self_device_time_total / e.count
        print(f"  {e.self_device_time_total / 1000:8.2f} ms {e.count:6d} x {each:7.1f} us  {e.key[:90]}")


def passes_for(device: str, chosen: list[str]) -> dict[str, tuple[Callable[..., Trace], bool]]:
    passes: dict[str, tuple[Callable[..., Trace], bool]] = {
        "reference": (reference.unroll, False),
        "fused": (fused.unroll, False),
    }
    if device == "cuda":
        from pag.ops.unroll import kernel

        passes |= {
            "reference bf16": (reference.unroll, True),
            "kernel": (kernel.unroll, False),
            "kernel bf16": (kernel.unroll, True),
        }
    return {label: value for label, value in passes.items() if not chosen or label in chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--positions", type=int, default=50)
    parser.add_argument("--steps", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--units", type=int, default=600, help="of embedding, encoder direction and decoder")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--layer-norm", action="store_true", help="time with layer normalisation")
    parser.add_argument("--only", nargs="*", default=[], help="implementations, by the table's names")
    parser.add_argument("--variants", nargs="*", default=VARIANTS)
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--profile", action="store_true", help="where the time goes, kernel by kernel")
    parser.add_argument("--json", type=Path)
    sizes = parser.parse_args()
    sizes.ragged, sizes.noise = False, 1.0
    if sizes.threads:
        torch.set_num_threads(sizes.threads)
    passes = passes_for(sizes.device, sizes.only)
    device = torch.cuda.get_device_name() if sizes.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    result: dict[str, Any] = {"device": device, "torch": torch.__version__, "rows": sizes.rows}
    result |= {"positions": sizes.positions, "units": sizes.units, "k": sizes.k, "layer_norm": sizes.layer_norm}
    if not sizes.no_check:
        result["check"] = check({n: v for n, v in passes.items() if n != "reference"}, sizes.device)
        for label, found in result["check"].items():
            print(
                f"{label:38} off by: outputs {found['outputs']:.1e}, gradients {found['gradients']:.1e}, "
                f"worst {found['worst']:.1e} ({found['of']})",
                flush=True,
            )
    result["times"] = []
    for steps in sizes.steps:
        for name in sizes.variants:
            problem = Problem(name, sizes, steps, sizes.device, sizes.layer_norm)
            plain = None
            for label, (unroll, bf16) in passes.items():
                if label.startswith("reference") and steps != sizes.steps[0]:
                    continue  # the plain loop takes its time once
                repeats = min(2, sizes.repeats) if label.startswith("reference") else sizes.repeats
                row = {"variant": name, "steps": steps, "pass": label, **measure(problem, unroll, bf16, repeats)}
                plain = plain or (row["ms"] if label == "reference" else None)
                row["ratio"] = plain / row["ms"] if plain else None
                result["times"].append(row)
                write(result, sizes.json)  # a run that is ended early keeps what it has
                peak = f"{row['peak_mib']:8.0f} MiB" if "peak_mib" in row else ""
                print(
                    f"{name:9} T={steps:4} {label:15} {row['ms']:8.1f} ms (best {row['best_ms']:.1f}) {peak}"
                    + (f" {row['ratio']:6.1f} x" if row["ratio"] else ""),
                    flush=True,
                )
                if sizes.profile and not label.startswith("reference"):
                    profile(problem, unroll, bf16)


def write(result: dict[str, Any], path: Path | None) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
