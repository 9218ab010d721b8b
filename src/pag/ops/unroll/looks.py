"""The three attentions of the fused pass: how each looks at step t, and its way back.

The wide activations tanh(W_h h_j + W_y y + W_s s_{t-1} + …) [B, S, a] live in two buffers that
every step overwrites; the way back computes them again. Every step's views are made at once: to
ask for one costs as much as its arithmetic.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from pag.attention.commitment import FREED
from pag.ops.unroll.decisions import Choices, Decisions, decide, pull
from pag.ops.unroll.packing import Layout, Packed, Steps
from pag.ops.unroll.parts import Norm, flat


@dataclass(frozen=True)
class Rows:
    """The rows that a gradient concerns: these, or all."""

    numbers: Tensor | None = None

    @classmethod
    def where(cls, on: Tensor) -> "Rows":
        return cls() if bool(on.all()) else cls(on.nonzero()[:, 0])

    def take(self, x: Tensor) -> Tensor:
        return x if self.numbers is None else x.index_select(0, self.numbers)

    def moved(self, keys: Tensor, moving: Tensor, into: Tensor) -> Tensor:
        """keys + moving of these rows [·, S, a], at the beginning of `into`."""
        if self.numbers is None:
            return torch.add(keys, moving[:, None], out=into)
        wide = torch.index_select(keys, 0, self.numbers, out=into[: len(self.numbers)])
        return wide.add_(self.take(moving)[:, None])

    def add(self, to: Tensor, x: Tensor, times: Tensor | None = None) -> None:
        if self.numbers is not None:
            to.index_add_(0, self.numbers, x if times is None else x * times)
        elif times is None:
            to += x
        else:
            to.addcmul_(x, times)

    def spread(self, x: Tensor, rows: int) -> Tensor:
        """Among all rows, with zeros for the others."""
        return x if self.numbers is None else x.new_zeros(rows, *x.shape[1:]).index_copy_(0, self.numbers, x)


class Look:
    """What the three share: keys plus what moves, tanh, and a masked softmax."""

    def __init__(self, layout: Layout, packed: Packed, mask: Tensor, noise: Tensor | None, keep: bool) -> None:
        self.layout, self.packed, self.noise, self.keep = layout, packed, noise, keep
        self.rows, self.positions = layout.rows, layout.positions
        like = packed.keys
        self.alignment = like.new_empty(layout.steps, layout.rows, layout.positions)  # α
        self.alignments = self.alignment.unbind(0)
        self.closed = torch.zeros_like(mask, dtype=like.dtype).masked_fill_(~mask, float("-inf"))
        self.wide = torch.empty_like(like, memory_format=torch.contiguous_format)  # [B, S, a]
        self.state_norm = Norm(packed.state_norm, keep)
        self.moving = like.new_empty(self.kept, layout.rows, layout.energy)
        self.movings, self.tokens = self.moving.unbind(0), packed.token_energy.unbind(0)

    @property
    def kept(self) -> int:
        """How many steps are kept for the way back; one is overwritten where there is none."""
        return self.layout.steps if self.keep else 1

    def step(self, t: int, planner: list[Tensor], seen: Tensor) -> None:
        """Fill `alignment[t]` with the planner's products; `seen` are those of the last context."""
        raise NotImplementedError

    def back(self, t: int, d_alignment: Tensor) -> None:
        """Fills the gradients of the planner's products and of the last context's."""
        raise NotImplementedError

    def decisions(self) -> tuple[Tensor | None, ...]:
        return None, None, None, None

    def prepare(self, given: Steps, d_planner: Tensor, d_seen: Tensor) -> None:
        """The gradients of all outputs, and where those of the planner's and the last context's products go."""
        self.d_planner = [part.unbind(0) for part in d_planner.split(self.layout.planner_columns, -1)]
        self.d_seen = d_seen.unbind(0)
        self.d_moving = torch.empty_like(self.moving)  # also the gradient of W_y y
        self.d_movings = self.d_moving.unbind(0)

    def gradients(self) -> dict[str, Tensor]:
        found = {"token_energy": self.d_moving, "state_norm": self.state_norm.gradient()}
        return {name: value for name, value in found.items() if value is not None}

    def move(self, t: int, projected: Tensor) -> Tensor:
        """W_y y + W_s s_{t-1} [B, a]."""
        return torch.add(self.tokens[t], self.state_norm.step(projected), out=self.movings[t if self.keep else 0])

    def d_move(self, t: int, moving: Tensor) -> None:
        self.d_movings[t].copy_(moving)
        self.d_planner[0][t].copy_(self.state_norm.back(t, moving))


class Score(Look):
    """Plain attention: one score w·tanh(…) a position."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.head = self.packed.head[0]

    def step(self, t: int, planner: list[Tensor], seen: Tensor) -> None:
        torch.softmax(self.score(self.move(t, planner[0])), -1, out=self.alignments[t])

    def back(self, t: int, d_alignment: Tensor) -> None:
        self.d_score(t, softmax_back(d_alignment, self.alignments[t]))

    def prepare(self, given: Steps, d_planner: Tensor, d_seen: Tensor) -> None:
        super().prepare(given, d_planner, d_seen)
        self.d_head = torch.zeros_like(self.head)
        self.d_scores = torch.empty_like(self.alignment)
        self.d_scored = self.d_scores.unbind(0)
        self.squares = torch.zeros_like(self.wide)

    def gradients(self) -> dict[str, Tensor]:
        d_keys = (self.d_scores.sum(0)[..., None] - self.squares) * self.head
        return {"keys": d_keys, "head": self.d_head[None], **super().gradients()}

    def score(self, moving: Tensor) -> Tensor:
        torch.add(self.packed.keys, moving[:, None], out=self.wide).tanh_()
        return torch.mv(flat(self.wide), self.head).view_as(self.closed).add_(self.closed)

    def d_score(self, t: int, d_scores: Tensor, rows: Rows | None = None) -> None:
        """With h the tanh, d keys = d_score · w · (1 − h²): w and the 1 wait until after the loop.

        `rows` are those whose gradient is not zero, None where it is all of them.
        """
        rows = rows or Rows()
        self.d_scored[t].copy_(d_scores)
        wide = rows.moved(self.packed.keys, self.movings[t], self.wide).tanh_()
        d_scores = rows.take(d_scores)
        self.d_head.addmv_(flat(wide).t(), d_scores.reshape(-1))
        squared = torch.bmm(d_scores[:, None], wide.square_())[:, 0]
        rows.add(self.squares, wide, d_scores[..., None])
        d_moving = (d_scores.sum(-1, keepdim=True) - squared) * self.head
        self.d_move(t, rows.spread(d_moving, self.rows))


class Committing(Look):
    """What PAG and rPAG add: the commitment, of which the loop itself needs only the choice."""

    def __init__(self, layout: Layout, packed: Packed, mask: Tensor, noise: Tensor | None, keep: bool) -> None:
        super().__init__(layout, packed, mask, noise, keep)
        like, steps, rows = packed.keys, layout.steps, layout.rows
        self.logits = like.new_full((steps, rows, layout.k + 1), FREED)  # the last slot is what a shift brings in
        self.choice = torch.empty(steps, rows, dtype=torch.long, device=like.device)
        self.recompute = torch.ones(steps + 1, rows, dtype=torch.bool, device=like.device)
        self.temperature = like.new_empty(steps, rows) if layout.learned else None
        self.commitment_norm = Norm(packed.commitment_norm, keep)
        self.now, self.shifted = self.logits[..., :-1].unbind(0), self.logits[..., 1:].unbind(0)
        self.chosen, self.renewing = self.choice.unbind(0), self.recompute.unbind(0)
        self.noises = None if noise is None else noise.unbind(0)
        self.temperatures = None if self.temperature is None else self.temperature[..., None].unbind(0)

    def commit(self, t: int, planner: list[Tensor], seen: Tensor | None) -> Tensor:
        """Choose a slot; True in the rows whose switch is on [B]."""
        if self.temperatures is not None:
            *planner, temperature = planner
            self.temperatures[t].copy_(temperature)
        fresh = self.commitment_norm.step(planner[-1])
        if seen is not None:
            fresh = fresh + seen
        logits = self.now[t]
        if t == 0:
            logits.copy_(fresh)
        else:
            torch.where(self.renewing[t][:, None], fresh, self.shifted[t - 1], out=logits)
        torch.argmax(logits if self.noises is None else logits + self.noises[t], -1, out=self.chosen[t])
        torch.eq(self.chosen[t], 0, out=self.renewing[t + 1])
        return self.renewing[0] if t == 0 or self.layout.held else self.renewing[t + 1]

    def choices(self) -> Choices:
        return Choices(self.logits[..., :-1], self.choice, self.recompute[:-1], self.temperature)

    def decisions(self) -> tuple[Tensor | None, ...]:
        self.decided = decide(self.layout, self.choices(), self.noise)
        # Clones: an output that the backward pass also holds would keep itself alive.
        return tuple(x.clone() for x in (getattr(self.decided, f.name) for f in fields(self.decided)))

    def prepare(self, given: Steps, d_planner: Tensor, d_seen: Tensor) -> None:
        super().prepare(given, d_planner, d_seen)
        grads = Decisions(given.switch, given.soft, given.penalised, given.log_prob)  # type: ignore[arg-type]
        pulled = pull(self.layout, self.choices(), self.decided, self.noise, grads)
        of_temperature = (pulled.temperature[..., None], pulled.temperature_through[..., None])
        self.pulls = [x.unbind(0) for x in (pulled.logits, pulled.logits_through, *of_temperature)]
        assert given.switch is not None
        self.d_switch = given.switch[..., None].unbind(0)
        switch = self.decided.switch > 0
        self.on = switch[..., None].unbind(0)
        # On a GPU to ask which rows these are costs more than to take them all.
        self.looking = [Rows() if switch.is_cuda else Rows.where(on) for on in switch]
        self.following = (~self.recompute[..., None]).unbind(0)
        self.carry: Tensor | None = None  # the gradient of l_t that step t + 1's shift brings back

    def d_commit(self, t: int, d_switch: Tensor, seen: bool) -> None:
        """`d_switch` [B, 1]; is the last context among what the logits are made of?"""
        logits, through, temperature, temperature_through = (of_steps[t] for of_steps in self.pulls)
        d_switch = d_switch + self.d_switch[t]
        given = torch.addcmul(logits, d_switch, through)
        if self.carry is not None:
            given[:, 1:] += self.carry[:, :-1]
        self.carry = given * self.following[t]
        given -= self.carry
        if seen:
            self.d_seen[t].copy_(given)
        parts = self.d_planner
        if self.temperature is not None:
            *parts, d_temperature = parts
            torch.addcmul(temperature, d_switch, temperature_through, out=d_temperature[t])
        parts[-1][t].copy_(self.commitment_norm.back(t, given))

    def gradients(self) -> dict[str, Tensor]:
        gradient = self.commitment_norm.gradient()
        return super().gradients() | ({} if gradient is None else {"commitment_norm": gradient})


class Repeat(Committing, Score):
    """rPAG: α_t is a fresh look where the switch is on, else α_{t-1}."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.fresh = torch.empty_like(self.alignment)
        self.looks = self.fresh.unbind(0)

    def step(self, t: int, planner: list[Tensor], seen: Tensor) -> None:
        on = self.commit(t, planner, seen)[:, None]
        torch.softmax(self.score(self.move(t, planner[0])), -1, out=self.looks[t])
        if t > 0:
            torch.where(on, self.looks[t], self.alignments[t - 1], out=self.alignments[t])
        else:
            self.alignments[t].copy_(self.looks[t])

    def prepare(self, given: Steps, d_planner: Tensor, d_seen: Tensor) -> None:
        super().prepare(given, d_planner, d_seen)
        self.repeated = torch.zeros_like(self.alignments[0])
        self.differences = [self.looks[0], *(self.fresh[1:] - self.alignment[:-1]).unbind(0)]

    def back(self, t: int, d_alignment: Tensor) -> None:
        given = d_alignment.add_(self.repeated)
        self.d_commit(t, (given * self.differences[t]).sum(-1, keepdim=True), seen=True)
        looked = given * self.on[t]
        self.repeated = given - looked
        self.d_score(t, softmax_back(looked, self.looks[t]), self.looking[t])


class Plan(Committing):
    """PAG: k alignments planned ahead, kept position by position [B, S, k]."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        layout, packed = self.layout, self.packed
        assert packed.read is not None and packed.summary is not None
        shape = (self.rows, self.positions, layout.k + 1)  # the last column is what a shift brings in
        self.plan = packed.keys.new_ones(layout.steps + 1, *shape)
        self.plan[..., -1] = 0
        self.plans, self.followed = self.plan[..., :-1].unbind(0), self.plan[..., 1:].unbind(0)  # A and ρ(A)
        self.first, self.planned = self.plan[..., 0].unbind(0), self.plan[..., :-1].flatten(1, 2).unbind(0)
        self.candidate = packed.keys.new_empty(self.kept, self.rows, self.positions, layout.k)  # Ā
        self.gate = torch.empty_like(self.candidate)  # u
        self.beta = packed.keys.new_empty(self.kept, self.rows * self.positions, len(packed.read))  # β
        self.read, self.summary = packed.read.t().contiguous(), packed.summary.t().contiguous()
        self.gate_norm, self.read_norm = Norm(packed.gate_norm, self.keep), Norm(packed.read_norm, self.keep)
        self.candidates, self.gates, self.betas = (x.unbind(0) for x in (self.candidate, self.gate, self.beta))
        self.proposed = self.candidate.flatten(1, 2).unbind(0)

    def step(self, t: int, planner: list[Tensor], seen: Tensor) -> None:
        packed, at = self.packed, t if self.keep else 0
        assert packed.gate_keys is not None and packed.read_bias is not None and packed.head_bias is not None
        on = self.commit(t, planner, None)[:, None, None]
        read = torch.addmm(packed.read_bias, self.planned[t], self.read)
        torch.tanh(self.read_norm.step(read), out=self.betas[at])
        self.hide(at, self.move(t, planner[0]), Rows())
        proposed = torch.mm(packed.head, flat(self.wide).t())  # k rows of many: twice as fast as many rows of k
        torch.add(proposed.t(), packed.head_bias, out=self.proposed[at])
        moving = self.gate_norm.step(planner[1])
        if self.layout.context_columns:
            moving = moving + seen
        gate = torch.add(packed.gate_keys, moving[:, None], out=self.gates[at]).sigmoid_()
        renewed = torch.lerp(self.plans[t], self.candidates[at], gate)
        torch.where(on, renewed, self.followed[t], out=self.plans[t + 1])
        torch.softmax(self.first[t + 1] + self.closed, -1, out=self.alignments[t])

    def hide(self, at: int, moving: Tensor, rows: Rows) -> Tensor:
        """tanh(W_h h_j + W_y y + W_s s_{t-1} + W_β β_j) of these rows, in `wide` [rows, S, a]."""
        wide = rows.moved(self.packed.keys, moving, self.wide)
        flat(wide).addmm_(flat(rows.take(self.of_positions(self.betas[at]))), self.summary)
        return wide.tanh_()

    def of_positions(self, x: Tensor) -> Tensor:
        """[B·S, ·] → [B, S, ·]."""
        return x.view(self.rows, self.positions, -1)

    def prepare(self, given: Steps, d_planner: Tensor, d_seen: Tensor) -> None:
        super().prepare(given, d_planner, d_seen)
        before = self.plan[:-1, ..., :-1]
        difference = self.candidate - before
        to_switch = torch.addcmul(before, self.gate, difference) - self.plan[:-1, ..., 1:]
        to_gate = difference.mul_(self.gate).mul_(1 - self.gate)
        self.to_switch, self.to_gate = to_switch.unbind(0), to_gate.unbind(0)
        self.d_plan = torch.zeros_like(self.candidate[0])
        self.d_candidate, self.d_gate = torch.empty_like(self.candidate), torch.empty_like(self.gate)
        self.d_read = torch.empty_like(self.beta)
        wanted = (self.d_candidate, self.d_gate, self.d_read)
        self.d_candidates, self.d_gates, self.d_reads = (x.unbind(0) for x in wanted)
        self.d_keys, self.d_wide = torch.zeros_like(self.wide), torch.empty_like(self.wide)
        self.d_head, self.d_summary = torch.zeros_like(self.packed.head), torch.zeros_like(self.summary)

    def back(self, t: int, d_alignment: Tensor) -> None:
        packed, d_candidate, d_gate, d_read = self.packed, self.d_candidates[t], self.d_gates[t], self.d_reads[t]
        assert packed.read is not None
        self.d_plan[..., 0] += softmax_back(d_alignment, self.alignments[t])
        self.d_commit(t, (self.d_plan * self.to_switch[t]).flatten(1).sum(1, keepdim=True), seen=False)
        renewed = self.d_plan * self.on[t][:, None]
        torch.mul(renewed, self.gates[t], out=d_candidate)
        torch.mul(renewed, self.to_gate[t], out=d_gate)
        d_moving = d_gate.sum(1)
        self.d_planner[1][t].copy_(self.gate_norm.back(t, d_moving))
        if self.layout.context_columns:
            self.d_seen[t].copy_(d_moving)
        d_beta = self.unhide(t)  # [B·S, r]
        torch.ops.aten.tanh_backward.grad_input(d_beta, self.betas[t], grad_input=d_read)
        if packed.read_norm is not None:
            d_read.copy_(self.read_norm.back(t, d_read))
        followed = self.d_plan.sub_(renewed)
        self.d_plan = renewed.sub_(d_candidate)
        self.d_plan[..., 1:] += followed[..., :-1]
        flat(self.d_plan).addmm_(d_read, packed.read)

    def unhide(self, t: int) -> Tensor:
        """Back through `hide`: adds up the wide gradients, returns that of β. Rows that follow have none."""
        packed, rows = self.packed, self.looking[t]
        assert packed.summary is not None
        given = flat(rows.take(self.d_candidates[t]))
        wide = self.hide(t, self.movings[t], rows)
        d_wide = self.d_wide[: len(wide)]
        self.d_head.addmm_(given.t(), flat(wide))
        torch.mm(given, packed.head, out=flat(d_wide))
        torch.ops.aten.tanh_backward.grad_input(d_wide, wide, grad_input=d_wide)
        rows.add(self.d_keys, d_wide)
        self.d_summary.addmm_(flat(rows.take(self.of_positions(self.betas[t]))).t(), flat(d_wide))
        self.d_move(t, rows.spread(d_wide.sum(1), self.rows))
        d_beta = torch.mm(flat(d_wide), packed.summary)
        return flat(rows.spread(d_beta.view(*wide.shape[:2], d_beta.shape[1]), self.rows))

    def gradients(self) -> dict[str, Tensor]:
        found = {
            "keys": self.d_keys,
            "head": self.d_head,
            "head_bias": self.d_candidate.sum((0, 1, 2)),
            "gate_keys": self.d_gate.sum(0),
            "read": flat(self.d_read).t() @ flat(self.plan[:-1, ..., :-1]),
            "read_bias": self.d_read.sum((0, 1)),
            "summary": self.d_summary.t(),
            "gate_norm": self.gate_norm.gradient(),
            "read_norm": self.read_norm.gradient(),
        }
        return super().gradients() | {name: value for name, value in found.items() if value is not None}


def softmax_back(given: Tensor, alignment: Tensor) -> Tensor:
    product = given * alignment
    return product.addcmul_(alignment, product.sum(-1, keepdim=True), value=-1)


LOOKS: dict[str, type[Look]] = {"baseline": Score, "pag": Plan, "rpag": Repeat}
