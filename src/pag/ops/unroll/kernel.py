"""The decoder's teacher-forced pass on a GPU: Triton kernels between matrix products, in CUDA graphs.

A step is four kernels and three products forward, five and three backward. A graph holds a few
steps and serves every target length (`forward_kernels.py` says how); one is kept for each batch
size and padded source length, up to `GRAPHS` of them. Under bfloat16 autocast the products are
bfloat16, while states, plans, softmax and sums stay float32; otherwise everything is float32.
Without a GPU the same kernels run one by one, which Triton's interpreter allows for tests.
"""

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

from pag.attention.base import Memory
from pag.decoder import Decoder
from pag.errors import InputError
from pag.ops.unroll import backward_kernels as back
from pag.ops.unroll import forward_kernels as ahead
from pag.ops.unroll import reference
from pag.ops.unroll.decisions import Choices, Decisions, decide, pull
from pag.ops.unroll.packing import Layout, Packed, Steps, describe, pack
from pag.ops.unroll.parts import flat
from pag.ops.unroll.reference import Trace

CHUNK = 8  # steps in one graph
GRAPHS = 32  # machines kept
LONGEST = 1024  # source positions that fit one program
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
Columns = tuple[Tensor | None, ...]


def unroll(
    decoder: Decoder,
    tokens: Tensor,
    memory: Memory,
    noise: Tensor | None = None,
    held: bool = False,
    record: bool = False,
) -> Trace:
    """As `reference.unroll`. `record` asks for every step's plan and gate, which only a look at a
    model needs: the reference pass gives them."""
    if record:
        return reference.unroll(decoder, tokens, memory, noise, held, record)
    if memory.mask.shape[1] > LONGEST:
        raise InputError(f"the GPU kernels take sources of up to {LONGEST} positions; use backend 'reference'")
    compute = precision(tokens)
    layout, packed = describe(decoder, tokens, memory, held), pack(decoder, tokens, memory)
    with torch.autocast(tokens.device.type, enabled=False):
        given = Pass.apply(layout, packed.names(), memory.mask, noise, compute, *packed.tensors())
    return Steps(*given).trace()


def precision(tokens: Tensor) -> torch.dtype:
    """What products are computed in."""
    kind = tokens.device.type
    if tokens.dtype == torch.bfloat16 or (
        torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16
    ):
        return torch.bfloat16
    return torch.float32


class Pass(torch.autograd.Function):
    """The loop as autograd sees it: one node."""

    @staticmethod
    def forward(
        ctx: Any,
        layout: Layout,
        names: list[str],
        mask: Tensor,
        noise: Tensor | None,
        compute: torch.dtype,
        *tensors: Tensor | None,
    ) -> Columns:
        packed = Packed(**dict(zip(names, tensors, strict=True)))  # type: ignore[arg-type]
        ctx.names, ctx.loop = names, Loop(layout, packed.map(Tensor.detach), mask, noise, compute)
        return ctx.loop.forward()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Columns:
        grads = ctx.loop.backward(Steps(*given))
        return (None, None, None, None, None, *(grads.get(name) for name in ctx.names))


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


class Loop:
    """One pass over all steps, and back: the tensors whose addresses the graphs follow."""

    def __init__(
        self, layout: Layout, packed: Packed, mask: Tensor, noise: Tensor | None, compute: torch.dtype
    ) -> None:
        self.positions = layout.positions
        self.layout = layout = replace(layout, positions=triton.cdiv(layout.positions, 16) * 16)
        self.packed, self.compute = packed, compute
        self.noise = None if noise is None else placed(noise.transpose(0, 1).float())
        if layout.k == 0:
            self.noise = None
        self.tensors = self.inputs(mask) | self.traces()
        self.machine = machine(layout, packed, self.noise is not None, compute)

    def inputs(self, mask: Tensor) -> dict[str, Tensor]:
        """As the kernels read them: contiguous, sources padded to a multiple of 16."""
        packed, compute = self.packed, self.compute
        found: dict[str, Tensor | None] = {
            "keys": self.padded(packed.keys, compute),
            "annotations": self.padded(packed.annotations, compute),
            "mask": self.padded(mask, torch.int8),
            "gate_keys": self.padded(packed.gate_keys, torch.float32),
            "up_bias": placed(packed.from_upper_bias.float()),
            "low_bias": placed(packed.from_lower_bias.float()),
        }
        for name in ("token_energy", "token_lower", "head", "summary"):
            found[name] = ready(getattr(packed, name), compute)
        for name in ("head_bias", "read", "read_bias", *(norm + "_norm" for norm in NORMS)):
            found[name] = ready(getattr(packed, name), torch.float32)
        return {name: value for name, value in found.items() if value is not None} | self.noises()

    def noises(self) -> dict[str, Tensor]:
        return {} if self.noise is None else {"noise": self.noise}

    def padded(self, x: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        if x is None or self.positions == self.layout.positions:
            return ready(x, dtype)
        wide = x.new_zeros(len(x), self.layout.positions, *x.shape[2:], dtype=dtype)
        wide[:, : self.positions] = x
        return wide

    def traces(self) -> dict[str, Tensor]:
        """What every step writes one slice of."""
        layout, compute = self.layout, self.compute
        found = {
            "lower": self.room(layout.units, extra=1),
            "upper": self.room(layout.units, extra=1),
            "context": self.room(layout.annotations, extra=1, dtype=compute),
            "alignment": self.room(layout.positions),
            "moving": self.room(layout.energy, dtype=compute),
            "lower_gates": self.room(4 * layout.units, dtype=compute),
            "upper_gates": self.room(4 * layout.units, dtype=compute),
        }
        found["lower"][0], found["upper"][0] = self.packed.lower, self.packed.upper
        found["context"][0] = 0
        if layout.k:
            found |= {"logits": self.room(layout.k), "choice": self.room(1, dtype=torch.int32)}
            found["temperature"] = self.room(1)
        if layout.kind == "rpag":
            found["fresh"] = self.room(layout.positions)
        if layout.kind == "pag":
            found["plan"] = self.room(layout.positions, layout.k, extra=1)
            found["plan"][0] = 1
            found["candidate"] = self.room(layout.positions, layout.k, dtype=compute)
            found["gate"] = self.room(layout.positions, layout.k, dtype=compute)
        return found | (self.units() if layout.layer_norm else {})

    def units(self) -> dict[str, Tensor]:
        """What layer normalisation keeps for its way back."""
        d, found = self.layout.units, {}
        for norm in NORMS[:4]:
            found[norm + "_unit"] = self.room(3 * d, dtype=self.compute)
            found[norm + "_scale"] = self.room(3)
        found |= {"state_unit": self.room(self.layout.energy, dtype=self.compute), "state_scale": self.room(1)}
        return found | {"gate_raw": self.room(self.layout.k), "commitment_raw": self.room(self.layout.k)}

    def room(self, *shape: int, extra: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """[T, B, ...]"""
        layout = self.layout
        return self.packed.upper.new_empty(layout.steps + extra, layout.rows, *shape, dtype=dtype)

    def forward(self) -> Columns:
        self.machine.load(self.packed)
        self.machine.run(self.tensors, self.layout.steps, backward=False)
        found = self.tensors
        outputs = (
            *(found[name][1:] for name in ("lower", "upper", "context")),
            found["alignment"][..., : self.positions],
        )
        if not self.layout.k:
            return (*outputs, None, None, None, None)
        self.decided = decide(self.layout, self.choices(), self.noise)
        return (
            *outputs,
            *(getattr(self.decided, name).clone() for name in ("switch", "soft", "penalised", "log_prob")),
        )

    def choices(self) -> Choices:
        choice = self.tensors["choice"][..., 0].long()
        recompute = torch.ones_like(choice, dtype=torch.bool)
        recompute[1:] = choice[:-1] == 0
        temperature = self.tensors["temperature"][..., 0] if self.layout.learned else None
        return Choices(self.tensors["logits"], choice, recompute, temperature)

    def backward(self, given: Steps) -> dict[str, Tensor]:
        self.machine.load_back(self.packed)
        tensors = self.tensors | self.given(given) | self.gradients()
        self.machine.run(tensors, self.layout.steps, backward=True)
        self.hide_sums(tensors)
        return self.collect(tensors)

    def given(self, given: Steps) -> dict[str, Tensor]:
        found: dict[str, Tensor | None] = {
            "given_lower": rows_first(given.lower),
            "given_upper": rows_first(given.upper),
            "given_context": ready(given.context.transpose(0, 1), self.compute),
            "given_alignment": F.pad(rows_first(given.alignment), (0, self.layout.positions - self.positions)),
        }
        if self.layout.k:
            grads = Decisions(given.switch, given.soft, given.penalised, given.log_prob)  # type: ignore[arg-type]
            pulled = pull(self.layout, self.choices(), self.decided, self.noise, grads)
            found |= {"given_switch": given.switch, "switch": self.decided.switch}
            found |= {"pull_logits": pulled.logits, "pull_logits_through": pulled.logits_through}
            found |= {"pull_temperature": pulled.temperature, "pull_temperature_through": pulled.temperature_through}
        return {name: placed(value) for name, value in found.items() if value is not None}

    def gradients(self) -> dict[str, Tensor]:
        """Room for what the way back writes; what is added to starts at zero."""
        layout, d = self.layout, self.layout.units
        columns, like = self.machine.columns, self.packed.upper
        found = {
            "d_up": self.room(columns["from_upper"], dtype=self.compute),
            "d_low": self.room(columns["from_lower"], extra=1, dtype=self.compute),
            "d_seen": self.room(self.machine.kept, extra=1, dtype=self.compute),
            "d_context": self.room(layout.annotations, dtype=self.compute),
            "d_candidate": self.room(layout.positions, layout.k if layout.kind == "pag" else 1, dtype=self.compute),
            "d_keys": like.new_empty(layout.rows, layout.positions, layout.energy),
        }
        found["d_low"][0] = 0
        found["d_low"][-1, :, 3 * d :] = 0
        found["d_seen"][-1, :, 3 * d :] = 0
        found["d_head"] = like.new_empty(layout.rows * self.machine.blocks, *self.packed.head.shape)
        if layout.kind == "pag":
            assert self.packed.summary is not None and self.packed.read is not None
            found["d_summary"] = like.new_empty(layout.rows * self.machine.blocks, *self.packed.summary.shape)
            found["d_gate_keys"] = like.new_zeros(layout.rows, layout.positions, layout.k)
            found["d_read"] = like.new_zeros(layout.rows, *self.packed.read.shape)
            found["d_read_bias"] = like.new_zeros(layout.rows, len(self.packed.read))
        if layout.layer_norm:
            found["d_moving"] = self.room(layout.energy, dtype=self.compute)
            for norm in NORMS:
                weights = getattr(self.packed, norm + "_norm")
                if weights is not None:
                    found[f"d_{norm}_norm"] = like.new_zeros(layout.rows, *weights.shape)
        return found

    def hide_sums(self, tensors: dict[str, Tensor]) -> None:
        layout, machine = self.layout, self.machine
        grid = (triton.cdiv(layout.energy, machine.sums["BLOCK_A"]), layout.rows, machine.blocks)
        back.hide_sums[grid](machine.table, layout.rows, layout.positions, layout.steps, **machine.sums)

    def collect(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        layout, machine, d = self.layout, self.machine, self.layout.units
        d_up, d_low, d_seen = tensors["d_up"], tensors["d_low"], tensors["d_seen"][1:]
        last = multiply(d_low[0], machine.weights["from_lower"], torch.empty_like(machine.lower_direct))
        alignment = tensors["alignment"][..., : self.positions].permute(1, 2, 0)
        planned = d_up if layout.plans_from == "upper" else d_low[:-1]
        d_moving = planned[..., layout.planner : layout.planner + layout.energy]
        found = {
            "annotations": together(alignment.to(self.compute), tensors["d_context"].transpose(0, 1)),
            "keys": tensors["d_keys"][:, : self.positions],
            "token_energy": tensors["d_moving"] if layout.layer_norm else d_moving,
            "token_lower": d_seen[..., : 3 * d],
            "lower": last + machine.lower_direct,
            "upper": machine.back_products["from_upper"].sum(0) + machine.upper_direct,
            "from_upper": self.weigh(d_up, "from_upper", tensors["upper"][:-1]),
            "from_upper_bias": self.total(d_up, "from_upper"),
            "from_lower": self.weigh(d_low, "from_lower", tensors["lower"]),
            "from_lower_bias": self.total(d_low, "from_lower"),
            "from_context": self.weigh_context(d_seen, d_low[1:, :, : 3 * d], tensors["context"][1:]),
            "head": tensors["d_head"].sum(0),
        }
        if layout.kind == "pag":
            found["head_bias"] = tensors["d_candidate"].sum((0, 1, 2), dtype=torch.float32)
            found["gate_keys"] = tensors["d_gate_keys"][:, : self.positions]
            for name in ("summary", "read", "read_bias"):
                found[name] = tensors["d_" + name].sum(0)
        for norm in NORMS:
            if f"d_{norm}_norm" in tensors:
                found[norm + "_norm"] = tensors[f"d_{norm}_norm"].sum(0)
        return found

    def weigh(self, given: Tensor, name: str, values: Tensor) -> Tensor:
        """A weight's gradient over all steps: one product."""
        out = given.new_empty(given.shape[-1], values.shape[-1], dtype=torch.float32)
        return multiply(flat(given).t(), flat(values).to(self.compute), out)[: len(getattr(self.packed, name))]

    def weigh_context(self, d_seen: Tensor, d_upper: Tensor, context: Tensor) -> Tensor:
        """`weigh` with the upper GRU's part in between."""
        d, size = self.layout.units, len(self.packed.from_context)
        around = self.weigh(d_seen, "from_context", context)
        return torch.cat([around[: 3 * d], self.weigh(d_upper, "from_context", context), around[3 * d : size - 3 * d]])

    def total(self, given: Tensor, name: str) -> Tensor:
        """A bias's gradient over all steps."""
        return given.sum((0, 1), dtype=torch.float32)[: len(getattr(self.packed, name))]


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


def together(x: Tensor, y: Tensor) -> Tensor:
    """A batch of products, summed in float32."""
    if x.dtype == torch.float32 or not x.is_cuda:
        return torch.bmm(x.float(), y.float())
    return torch.ops.aten.bmm.dtype(x, y, torch.float32)


def aligned(columns: int) -> int:
    """Rows of a product begin where wide loads may."""
    return triton.cdiv(columns, 16) * 16


def ready(x: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if x is None else placed(x.to(dtype))


def placed(x: Tensor) -> Tensor:
    """Contiguous, and beginning where wide loads may: a slice of another tensor need not."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def rows_first(x: Tensor) -> Tensor:
    """[B, T, ...], as a caller's gradients come, so that nothing is copied."""
    return placed(x.transpose(0, 1).float())


def addressed(x: Tensor | None) -> int:
    assert x is None or x.data_ptr() % 16 == 0
    return 0 if x is None else x.data_ptr()
