"""The decoder's teacher-forced pass on a GPU: Triton kernels between matrix products, in CUDA graphs.

A step is four kernels and three products forward, five and three backward. A graph holds a few
steps and serves every target length (`forward_kernels.py` says how); one is kept for each batch
size and padded source length, up to `GRAPHS` of them. Under bfloat16 autocast the products are
bfloat16, while states, plans, softmax and sums stay float32; otherwise everything is float32.
Without a GPU the same kernels run one by one, which Triton's interpreter allows for tests.
"""

from dataclasses import replace
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from pag.attention.base import Memory
from pag.decoder import Decoder
from pag.ops.unroll import backward_kernels as back
from pag.ops.unroll import fused, reference
from pag.ops.unroll.decisions import Choices, Decisions, decide, pull
from pag.ops.unroll.machine import NORMS, machine, multiply
from pag.ops.unroll.packing import Layout, Packed, Steps, describe, pack
from pag.ops.unroll.parts import flat
from pag.ops.unroll.reference import Trace
from pag.state import multiplied

LONGEST = 1024  # source positions that fit one program; longer ones take the pass without kernels
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
        return fused.unroll(decoder, tokens, memory, noise, held)
    compute = precision(tokens)
    layout, packed = describe(decoder, tokens, memory, held), pack(decoder, tokens, memory)
    # Triton launches on the current GPU, whichever the tensors are on.
    with torch.autocast(tokens.device.type, enabled=False), torch.cuda.device_of(tokens):
        given = Pass.apply(layout, packed.names(), memory.mask, noise, compute, *packed.tensors())
    return Steps(*given).trace()


def precision(tokens: Tensor) -> torch.dtype:
    """What products are computed in."""
    return torch.bfloat16 if multiplied(tokens) == torch.bfloat16 else torch.float32


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


def together(x: Tensor, y: Tensor) -> Tensor:
    """A batch of products, summed in float32."""
    if x.dtype == torch.float32 or not x.is_cuda:
        return torch.bmm(x.float(), y.float())
    return torch.ops.aten.bmm.dtype(x, y, torch.float32)


def ready(x: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if x is None else placed(x.to(dtype))


def placed(x: Tensor) -> Tensor:
    """Contiguous, and beginning where wide loads may: a slice of another tensor need not."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def rows_first(x: Tensor) -> Tensor:
    """[B, T, ...], as a caller's gradients come, so that nothing is copied."""
    return placed(x.transpose(0, 1).float())
