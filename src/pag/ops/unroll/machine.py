"""The fixed part of a pass on a GPU: weights as the products read them, work rows, and the step as a CUDA graph."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from pag.ops.unroll import backward_kernels as back
from pag.ops.unroll import forward_kernels as ahead
from pag.ops.unroll.packing import Layout, Packed

CHUNK = 8  # steps in one graph
GRAPHS = 32  # machines kept
BLOCK_S, BLOCK_A, BLOCK_N = 64, 64, 128  # tiles: positions, energy units, annotation units
UNITS = 256  # GRU units of a program, where layer normalisation does not ask for all
PROGRAMS = 128  # about as many as the GPU has multiprocessors
PRODUCT = {"BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 6}
FLOAT32 = "tf32x3"  # the kernels multiply float32 by three products of its parts: exact to about 1e-6
SUMS_A = 64  # energy units a program of `hide_sums` adds up in registers
WARPS = {
    "hide": 4, "align": 8, "attend": 2, "gru": 8, "gru_back": 8, "context_back": 4, "attend_back": 4,
    "hide_back": 4, "read_back": 8, "sums": 4,
}  # fmt: skip
KINDS = {"baseline": 0, "pag": 1, "rpag": 2}
NORMS = ["lower_input", "lower_state", "upper_input", "upper_state", "state", "gate", "commitment", "read"]


class Machine:
    """The fixed part of a pass: weights as the products read them, work rows, the step as a graph."""

    def __init__(self, layout: Layout, packed: Packed, noisy: bool, compute: torch.dtype) -> None:
        self.layout, self.compute, self.noisy = layout, compute, noisy
        device, rows, d, n = packed.upper.device, layout.rows, layout.units, layout.annotations
        self.on_gpu = device.type == "cuda"

        def work(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.weights = {
            name: work(aligned(len(getattr(packed, name))), getattr(packed, name).shape[1], dtype=compute)
            for name in ("from_upper", "from_lower", "from_context")
        }
        self.columns = {name: len(weight) for name, weight in self.weights.items()}
        self.products = {name: work(rows, columns) for name, columns in self.columns.items()}
        self.d_products = {name: work(rows, columns, dtype=compute) for name, columns in self.columns.items()}
        self.upper_in, self.lower_in = work(rows, d, dtype=compute), work(rows, d, dtype=compute)
        self.context_in = work(rows, n, dtype=compute)
        self.parts = {name: self.part(name) for name in self.weights}
        self.splits = {name: triton.cdiv(self.columns[name], self.parts[name]) for name in self.weights}
        self.back_products = {
            name: work(self.splits[name], rows, weight.shape[1]) for name, weight in self.weights.items()
        }
        self.upper_direct, self.lower_direct = work(rows, d), work(rows, d)
        self.kept = aligned(3 * d + layout.context_columns)
        self.sizes(packed)
        plans = layout.kind == "pag"
        self.partial = work(self.chunks * rows * layout.positions * (self.kp if plans else 1))
        shares = self.chunks * rows * layout.positions * self.rp if plans else 1
        self.shares = work(shares, dtype=compute)
        self.beta = work(rows, layout.positions, self.rp, dtype=compute)
        self.d_alignment = work(self.slabs, rows, layout.positions)
        self.d_plan = work(rows, layout.positions, max(1, layout.k))
        self.carry = work(rows, max(1, layout.k))
        self.d_moving = work(rows, layout.energy)
        self.table = torch.zeros(len(ahead.SLOTS), dtype=torch.int64, device=device)
        self.clock = torch.zeros(2, dtype=torch.int32, device=device)
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self.side, self.apart = torch.cuda.Stream(device) if self.on_gpu else None, False

    def part(self, name: str) -> int:
        """How many columns a share of a product on the way back takes: enough shares to fill the GPU.
        cuBLAS makes those of float32 whole."""
        weight, block = self.weights[name], PRODUCT["BLOCK_K"]
        if self.compute != torch.bfloat16:
            return len(weight)
        wanted = max(1, PROGRAMS // triton.cdiv(weight.shape[1], PRODUCT["BLOCK_N"]))
        return triton.cdiv(triton.cdiv(len(weight), wanted), block) * block

    def multiply_back(self, name: str) -> None:
        given, weight, out = self.d_products[name], self.weights[name], self.back_products[name]
        if len(out) == 1:
            multiply(given, weight, out[0])
            return
        rows, size = given.shape[0], weight.shape[1]
        block_m = min(64, max(16, triton.next_power_of_2(rows)))
        grid = (triton.cdiv(size, PRODUCT["BLOCK_N"]), len(out), triton.cdiv(rows, block_m))
        back.product[grid](
            given, weight, out, rows, COLUMNS=given.shape[1], N=size, PART=self.parts[name], BLOCK_M=block_m, **PRODUCT
        )

    def sizes(self, packed: Packed) -> None:
        """The tiles, and what all kernels are specialised to."""
        layout, compute = self.layout, self.compute
        self.r = 1 if packed.read is None else len(packed.read)
        self.kp = max(16, triton.next_power_of_2(layout.k))
        self.rp = max(16, triton.next_power_of_2(self.r))
        whole = max(16, triton.next_power_of_2(layout.positions))
        self.block_s = min(BLOCK_S, whole)
        self.blocks = triton.cdiv(layout.positions, self.block_s)
        self.block_a = min(BLOCK_A, max(16, triton.next_power_of_2(layout.energy)))
        self.block_n = max(16, min(8192 // whole, BLOCK_N, triton.next_power_of_2(layout.annotations)))
        self.chunks = triton.cdiv(layout.energy, self.block_a)
        self.slabs = triton.cdiv(layout.annotations, self.block_n)
        upward = layout.plans_from == "upper"
        self.source = "from_upper" if upward else "from_lower"
        fast = self.on_gpu and compute == torch.bfloat16
        common = {"NORM": layout.layer_norm, "C": tl.bfloat16 if compute == torch.bfloat16 else tl.float32}
        exact = {"FAST": fast, "PRECISION": "tf32" if fast else FLOAT32}
        reading = {"K": layout.k or 1, "KP": self.kp, "R": self.r, "RP": self.rp}
        planner = {"COLUMNS": self.columns[self.source], "OFFSET": layout.planner}
        bias = {"BIAS": int((ahead.UP_BIAS if upward else ahead.LOW_BIAS).value)}
        kind = {"KIND": KINDS[layout.kind]}
        seen = {"SEEN": self.columns["from_context"], "LAST": 6 * layout.units, "GATED": layout.context_columns > 0}
        tiles = {"BLOCK_S": self.block_s, "BLOCKS": self.blocks}
        wide_tiles = tiles | {"BLOCK_A": self.block_a}
        upward_too = {"UPWARD": upward}
        slabs = {"N": layout.annotations, "WHOLE": whole, "BLOCK_N": self.block_n, "C": common["C"]}
        gru = {"UP": self.columns["from_upper"], "LOW": self.columns["from_lower"], "SEEN": seen["SEEN"]}
        units = triton.next_power_of_2(layout.units)
        gru |= {"D": layout.units, "DP": units if layout.layer_norm else min(UNITS, units)}
        self.gru_grid = (layout.rows, triton.cdiv(layout.units, gru["DP"]))
        a = {"A": layout.energy}
        moving = a | {"AP": triton.next_power_of_2(layout.energy), "C": common["C"]}
        self.moves = planner | bias | moving
        self.hides = planner | bias | a | reading | wide_tiles | exact | common | {"PLANS": layout.kind == "pag"}
        self.hides |= {"num_warps": WARPS["hide"]}
        row = planner | seen | a | reading | tiles | kind | exact | common
        row |= {"WHOLE": whole, "LEARNED": layout.learned}
        self.aligns = row | bias | {"NOISY": self.noisy, "HELD": layout.held, "CHUNKS": self.chunks}
        self.aligns |= {"num_warps": WARPS["align"]}
        self.attends = slabs | {"num_warps": WARPS["attend"]}
        self.grus = gru | common | {"num_warps": WARPS["gru"]}
        kept = {"KEPT": self.kept}
        self.grus_back = gru | common | kept | {"num_warps": WARPS["gru_back"]}
        self.contexts_back = slabs | {"num_warps": WARPS["context_back"], "SPLIT": self.splits["from_context"]}
        self.attends_back = row | upward_too | kept | {"SHARES": self.slabs, "num_warps": WARPS["attend_back"]}
        sums = a | reading | wide_tiles | kind | exact | common
        self.sums = sums | {
            "BLOCK_A": min(SUMS_A, self.block_a),
            "num_warps": WARPS["sums"],
        }
        self.hides_back = planner | upward_too | sums | {"num_warps": WARPS["hide_back"]}
        self.moves_back = planner | upward_too | moving
        self.reads_back = (
            {"num_warps": WARPS["read_back"]}
            | reading
            | {"CHUNKS": self.chunks, "BLOCK_S": self.block_s, "BLOCKS": self.blocks}
            | exact
            | common
        )

    def step(self, i: int) -> None:
        rows, positions, source = self.layout.rows, self.layout.positions, self.products[self.source]
        up, low, seen = self.products.values()
        now = (self.table, self.clock, i, rows)
        if self.layout.layer_norm:
            ahead.move[(rows,)](*now, source, **self.moves)
        ahead.hide[(self.chunks, rows)](*now, positions, source, self.beta, self.partial, **self.hides)
        ahead.align[(rows,)](*now, positions, source, seen, self.partial, self.beta, **self.aligns)
        ahead.attend[(rows, self.slabs)](*now, positions, self.context_in, **self.attends)
        multiply(self.context_in, self.weights["from_context"].t(), seen)
        ahead.gru[self.gru_grid](*now, up, low, seen, self.lower_in, FIRST=True, **self.grus)
        multiply(self.lower_in, self.weights["from_lower"].t(), low)
        ahead.gru[self.gru_grid](*now, up, low, seen, self.upper_in, FIRST=False, **self.grus)
        multiply(self.upper_in, self.weights["from_upper"].t(), up)

    def step_back(self, i: int) -> None:
        rows, positions, source = self.layout.rows, self.layout.positions, self.d_products[self.source]
        up, low, seen = self.d_products.values()
        now = (self.table, self.clock, i, rows)
        back.gru_back[self.gru_grid](
            *now,
            self.back_products["from_upper"],
            self.upper_direct,
            up,
            low,
            seen,
            SPLIT=self.splits["from_upper"],
            FIRST=False,
            **self.grus_back,
        )
        self.multiply_back("from_lower")
        back.gru_back[self.gru_grid](
            *now,
            self.back_products["from_lower"],
            self.lower_direct,
            up,
            low,
            seen,
            SPLIT=self.splits["from_lower"],
            FIRST=True,
            **self.grus_back,
        )
        self.multiply_back("from_context")
        back.context_back[(rows, self.slabs)](
            *now, positions, self.back_products["from_context"], self.d_alignment, **self.contexts_back
        )
        self.rejoin()
        back.attend_back[(rows,)](
            *now, positions, self.d_alignment, self.carry, self.d_plan, self.beta, source, seen, **self.attends_back
        )
        back.hide_back[(self.chunks, rows)](
            *now, positions, self.beta, self.shares, self.d_moving, source, **self.hides_back
        )
        if self.layout.layer_norm:
            back.move_back[(rows,)](*now, self.d_moving, source, **self.moves_back)
        if self.layout.kind == "pag":
            with self.aside():  # the plan's gradient is not wanted before the next step's `attend_back`
                back.read_back[(rows,)](*now, positions, self.shares, self.d_plan, **self.reads_back)
        self.multiply_back("from_upper")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Run beside what follows, until `rejoin`."""
        if self.side is None:
            yield
            return
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            yield
        self.apart = True

    def rejoin(self) -> None:
        if self.side is not None and self.apart:
            torch.cuda.current_stream().wait_stream(self.side)
        self.apart = False

    def chunk(self, backward: bool) -> None:
        for i in range(CHUNK):
            self.step_back(i) if backward else self.step(i)
        self.rejoin()
        self.clock[:1].add_(CHUNK)

    def load(self, packed: Packed) -> None:
        """Set the start of a forward pass."""
        self.capture(backward=False)
        self.load_weights(packed)
        self.upper_in.copy_(packed.upper)
        self.lower_in.copy_(packed.lower)
        self.products["from_context"].zero_()
        if packed.read is not None and packed.read_bias is not None:
            self.beta[..., : self.r] = first_read(packed.read, packed.read_bias, packed.read_norm)
        multiply(self.upper_in, self.weights["from_upper"].t(), self.products["from_upper"])
        multiply(self.lower_in, self.weights["from_lower"].t(), self.products["from_lower"])

    def load_weights(self, packed: Packed) -> None:
        for name, weight in self.weights.items():
            weight[: len(getattr(packed, name))] = getattr(packed, name)

    def load_back(self, packed: Packed) -> None:
        """Set the start of the way back."""
        self.capture(backward=True)
        self.load_weights(packed)
        for sent in (
            *self.d_products.values(),
            self.back_products["from_upper"],
            self.upper_direct,
            self.lower_direct,
            self.d_plan,
            self.carry,
        ):
            sent.zero_()

    def run(self, tensors: dict[str, Tensor], steps: int, backward: bool) -> None:
        self.send(self.table, [addressed(tensors.get(name)) for name in ahead.SLOTS])
        self.send(self.clock, [0, steps])
        for _ in range(0, steps, CHUNK):
            if self.on_gpu:
                self.graphs[backward].replay()
            else:
                self.chunk(backward)

    def send(self, to: Tensor, values: list[int]) -> None:
        """From pinned memory, since a copy from elsewhere waits for the GPU."""
        to.copy_(torch.tensor(values, dtype=to.dtype, pin_memory=self.on_gpu), non_blocking=True)

    def capture(self, backward: bool) -> None:
        """Compile and record, once. The clock at its end makes every kernel return at once meanwhile."""
        if not self.on_gpu or backward in self.graphs:
            return
        self.clock.zero_()
        self.chunk(backward)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.chunk(backward)
        self.graphs[backward] = graph


MACHINES: OrderedDict[Any, Machine] = OrderedDict()


def machine(layout: Layout, packed: Packed, noisy: bool, compute: torch.dtype) -> Machine:
    """The machine for these sizes; the one unused for longest makes room."""
    key = (replace(layout, steps=0), noisy, compute, packed.upper.device)
    if key not in MACHINES:
        MACHINES[key] = Machine(layout, packed, noisy, compute)
    MACHINES.move_to_end(key)
    while len(MACHINES) > GRAPHS:
        MACHINES.popitem(last=False)
    return MACHINES[key]


def first_read(weight: Tensor, bias: Tensor, norm: Tensor | None) -> Tensor:
    """β of A_0 = ones, the same at every position [r]."""
    x = weight.sum(1) + bias
    if norm is not None:
        x = F.layer_norm(x, x.shape, norm[0, 0], norm[1, 0])
    return x.tanh()


def multiply(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """x · weight, summed in float32 whatever the factors are."""
    if x.dtype == out.dtype:
        return torch.mm(x, weight, out=out)
    if x.is_cuda:
        return torch.ops.aten.mm.dtype_out(x, weight, out.dtype, out=out)
    return torch.mm(x.float(), weight.float(), out=out)


def aligned(columns: int) -> int:
    """Rows of a product begin where wide loads may."""
    return triton.cdiv(columns, 16) * 16


def addressed(x: Tensor | None) -> int:
    assert x is None or x.data_ptr() % 16 == 0
    return 0 if x is None else x.data_ptr()
