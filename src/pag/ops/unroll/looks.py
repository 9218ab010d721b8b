"""The three attentions of the fused pass: how each looks at step t, and its way back.

The wide activations tanh(W_h h_j + W_y y + W_s s_{t-1} + …) [B, S, a] live in two buffers that
every step overwrites; the way back computes them again.
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
        self.closed = torch.zeros_like(mask, dtype=like.dtype).masked_fill_(~mask, float("-inf"))
        self.wide = torch.empty_like(like, memory_format=torch.contiguous_format)  # [B, S, a]
        self.state_norm = Norm(packed.state_norm, keep)
        self.moving = like.new_empty(layout.steps if keep else 1, layout.rows, layout.energy)

    def step(self, t: int, planner: Tensor, seen: Tensor) -> None:
        """Fill `alignment[t]` with the planner's products; `seen` are those of the last context."""
        raise NotImplementedError

    def back(self, t: int, d_alignment: Tensor, d_planner: Tensor, d_seen: Tensor) -> None:
        """Fills the gradients of the planner's products and of the last context's."""
        raise NotImplementedError

    def decisions(self) -> tuple[Tensor | None, ...]:
        return None, None, None, None

    def prepare(self, given: Steps) -> None:
        self.d_moving = torch.empty_like(self.moving)  # also the gradient of W_y y

    def gradients(self) -> dict[str, Tensor]:
        found = {"token_energy": self.d_moving, "state_norm": self.state_norm.gradient()}
        return {name: value for name, value in found.items() if value is not None}

    def move(self, t: int, planner: Tensor) -> Tensor:
        """W_y y + W_s s_{t-1} [B, a]."""
        projected = self.state_norm.step(planner[:, : self.layout.energy])
        return torch.add(self.packed.token_energy[t], projected, out=self.moving[t if self.keep else 0])

    def d_move(self, t: int, moving: Tensor, d_planner: Tensor) -> None:
        self.d_moving[t] = moving
        d_planner[:, : self.layout.energy] = self.state_norm.back(t, moving)


class Score(Look):
    """Plain attention: one score w·tanh(…) a position."""

    def step(self, t: int, planner: Tensor, seen: Tensor) -> None:
        torch.softmax(self.score(self.move(t, planner)), -1, out=self.alignment[t])

    def back(self, t: int, d_alignment: Tensor, d_planner: Tensor, d_seen: Tensor) -> None:
        self.d_score(t, softmax_back(d_alignment, self.alignment[t]), d_planner)

    def prepare(self, given: Steps) -> None:
        super().prepare(given)
        self.d_head = torch.zeros_like(self.packed.head[0])
        self.d_scores = torch.empty_like(self.alignment)
        self.squares = torch.zeros_like(self.wide)

    def gradients(self) -> dict[str, Tensor]:
        d_keys = (self.d_scores.sum(0)[..., None] - self.squares) * self.packed.head[0]
        return {"keys": d_keys, "head": self.d_head[None], **super().gradients()}

    def score(self, moving: Tensor) -> Tensor:
        torch.add(self.packed.keys, moving[:, None], out=self.wide).tanh_()
        return torch.mv(flat(self.wide), self.packed.head[0]).view_as(self.closed).add_(self.closed)

    def d_score(self, t: int, d_scores: Tensor, d_planner: Tensor, rows: Rows | None = None) -> None:
        """With h the tanh, d keys = d_score · w · (1 − h²): w and the 1 wait until after the loop.

        `rows` are those whose gradient is not zero, None where it is all of them.
        """
        rows, self.d_scores[t] = rows or Rows(), d_scores
        wide = rows.moved(self.packed.keys, self.moving[t], self.wide).tanh_()
        d_scores = rows.take(d_scores)
        self.d_head.addmv_(flat(wide).t(), d_scores.reshape(-1))
        squared = torch.bmm(d_scores[:, None], wide.square_())[:, 0]
        rows.add(self.squares, wide, d_scores[..., None])
        d_moving = (d_scores.sum(-1, keepdim=True) - squared) * self.packed.head[0]
        self.d_move(t, rows.spread(d_moving, self.rows), d_planner)


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

    def commit(self, t: int, planner: Tensor, seen: Tensor | None) -> Tensor:
        """Choose a slot; True in the rows whose switch is on [B]."""
        fresh = self.commitment_norm.step(planner[:, self.layout.commitment])
        if seen is not None:
            fresh = fresh + seen
        logits = self.logits[t, :, :-1]
        logits.copy_(fresh)
        if t > 0:
            torch.where(self.recompute[t][:, None], fresh, self.logits[t - 1, :, 1:], out=logits)
        if self.temperature is not None:
            self.temperature[t] = planner[:, self.layout.temperature]
        torch.argmax(logits if self.noise is None else logits + self.noise[t], -1, out=self.choice[t])
        torch.eq(self.choice[t], 0, out=self.recompute[t + 1])
        return self.recompute[0] if t == 0 or self.layout.held else self.recompute[t + 1]

    def choices(self) -> Choices:
        return Choices(self.logits[..., :-1], self.choice, self.recompute[:-1], self.temperature)

    def decisions(self) -> tuple[Tensor | None, ...]:
        self.decided = decide(self.layout, self.choices(), self.noise)
        # Clones: an output that the backward pass also holds would keep itself alive.
        return tuple(x.clone() for x in (getattr(self.decided, f.name) for f in fields(self.decided)))

    def prepare(self, given: Steps) -> None:
        super().prepare(given)
        grads = Decisions(given.switch, given.soft, given.penalised, given.log_prob)  # type: ignore[arg-type]
        self.pull = pull(self.layout, self.choices(), self.decided, self.noise, grads)
        assert given.switch is not None
        self.d_switch = given.switch
        self.on = self.decided.switch > 0
        # On a GPU to ask which rows these are costs more than to take them all.
        self.looking = [Rows() if self.on.is_cuda else Rows.where(on) for on in self.on]
        self.carry: Tensor | None = None  # the gradient of l_t that step t + 1's shift brings back

    def d_commit(self, t: int, d_switch: Tensor, d_planner: Tensor, d_seen: Tensor | None) -> None:
        d_switch = (d_switch + self.d_switch[t])[:, None]
        given = torch.addcmul(self.pull.logits[t], d_switch, self.pull.logits_through[t])
        if self.carry is not None:
            given[:, 1:] += self.carry[:, :-1]
        shifted = ~self.recompute[t][:, None]
        self.carry = given * shifted
        given.masked_fill_(shifted, 0)
        if d_seen is not None:
            d_seen.copy_(given)
        d_planner[:, self.layout.commitment] = self.commitment_norm.back(t, given)
        if self.temperature is not None:
            through = d_switch[:, 0] * self.pull.temperature_through[t]
            torch.add(self.pull.temperature[t], through, out=d_planner[:, self.layout.temperature])

    def gradients(self) -> dict[str, Tensor]:
        gradient = self.commitment_norm.gradient()
        return super().gradients() | ({} if gradient is None else {"commitment_norm": gradient})


class Repeat(Committing, Score):
    """rPAG: α_t is a fresh look where the switch is on, else α_{t-1}."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.fresh = torch.empty_like(self.alignment)

    def step(self, t: int, planner: Tensor, seen: Tensor) -> None:
        on = self.commit(t, planner, seen)[:, None]
        torch.softmax(self.score(self.move(t, planner)), -1, out=self.fresh[t])
        if t > 0:
            torch.where(on, self.fresh[t], self.alignment[t - 1], out=self.alignment[t])
        else:
            self.alignment[t] = self.fresh[t]

    def prepare(self, given: Steps) -> None:
        super().prepare(given)
        self.repeated = torch.zeros_like(self.alignment[0])

    def back(self, t: int, d_alignment: Tensor, d_planner: Tensor, d_seen: Tensor) -> None:
        given = d_alignment + self.repeated
        on = self.on[t][:, None]
        difference = self.fresh[t] - self.alignment[t - 1] if t > 0 else self.fresh[t]
        self.d_commit(t, (given * difference).sum(-1), d_planner, d_seen)
        self.repeated = given * ~on
        self.d_score(t, softmax_back(given * on, self.fresh[t]), d_planner, self.looking[t])


class Plan(Committing):
    """PAG: k alignments planned ahead, kept position by position [B, S, k]."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        layout, packed = self.layout, self.packed
        assert packed.read is not None and packed.summary is not None
        self.kept = layout.steps if self.keep else 1
        self.plan = packed.keys.new_ones(layout.steps + 1, self.rows, self.positions, layout.k)  # A
        self.candidate = packed.keys.new_empty(self.kept, self.rows, self.positions, layout.k)  # Ā
        self.gate = torch.empty_like(self.candidate)  # u
        self.beta = packed.keys.new_empty(self.kept, self.rows * self.positions, len(packed.read))  # β
        self.read, self.summary = packed.read.t().contiguous(), packed.summary.t().contiguous()
        self.gate_norm, self.read_norm = Norm(packed.gate_norm, self.keep), Norm(packed.read_norm, self.keep)

    def step(self, t: int, planner: Tensor, seen: Tensor) -> None:
        packed, at = self.packed, t if self.keep else 0
        assert packed.gate_keys is not None and packed.read_bias is not None and packed.head_bias is not None
        on = self.commit(t, planner, None)[:, None, None]
        read = torch.addmm(packed.read_bias, flat(self.plan[t]), self.read)
        torch.tanh(self.read_norm.step(read), out=self.beta[at])
        self.hide(at, self.move(t, planner), Rows())
        proposed = torch.mm(packed.head, flat(self.wide).t())  # k rows of many: twice as fast as many rows of k
        torch.add(proposed.t(), packed.head_bias, out=flat(self.candidate[at]))
        moving = self.gate_norm.step(planner[:, self.layout.gate])
        if self.layout.context_columns:
            moving = moving + seen
        torch.sigmoid(packed.gate_keys + moving[:, None], out=self.gate[at])
        renewed = torch.lerp(self.plan[t], self.candidate[at], self.gate[at])
        torch.where(on, renewed, follow(self.plan[t]), out=self.plan[t + 1])
        torch.softmax(self.plan[t + 1, :, :, 0] + self.closed, -1, out=self.alignment[t])

    def hide(self, at: int, moving: Tensor, rows: Rows) -> Tensor:
        """tanh(W_h h_j + W_y y + W_s s_{t-1} + W_β β_j) of these rows, in `wide` [rows, S, a]."""
        wide = rows.moved(self.packed.keys, moving, self.wide)
        flat(wide).addmm_(flat(rows.take(self.of_positions(self.beta[at]))), self.summary)
        return wide.tanh_()

    def of_positions(self, x: Tensor) -> Tensor:
        """[B·S, ·] → [B, S, ·]."""
        return x.view(self.rows, self.positions, -1)

    def prepare(self, given: Steps) -> None:
        super().prepare(given)
        before = self.plan[:-1]
        difference = self.candidate - before
        self.to_switch = torch.addcmul(before, self.gate, difference) - follow(before)
        self.to_gate = difference * self.gate * (1 - self.gate)
        self.d_plan = torch.zeros_like(self.plan[0])
        self.d_candidate, self.d_gate = torch.empty_like(self.candidate), torch.empty_like(self.gate)
        self.d_read = torch.empty_like(self.beta)
        self.d_keys, self.d_wide = torch.zeros_like(self.wide), torch.empty_like(self.wide)
        self.d_head, self.d_summary = torch.zeros_like(self.packed.head), torch.zeros_like(self.summary)

    def back(self, t: int, d_alignment: Tensor, d_planner: Tensor, d_seen: Tensor) -> None:
        packed, on = self.packed, self.on[t][:, None, None]
        assert packed.read is not None
        self.d_plan[..., 0] += softmax_back(d_alignment, self.alignment[t])
        self.d_commit(t, (self.d_plan * self.to_switch[t]).sum((1, 2)), d_planner, None)
        renewed = self.d_plan * on
        torch.mul(renewed, self.gate[t], out=self.d_candidate[t])
        torch.mul(renewed, self.to_gate[t], out=self.d_gate[t])
        d_moving = self.d_gate[t].sum(1)
        d_planner[:, self.layout.gate] = self.gate_norm.back(t, d_moving)
        if self.layout.context_columns:
            d_seen.copy_(d_moving)
        d_beta = self.unhide(t, d_planner)  # [B·S, r]
        torch.ops.aten.tanh_backward.grad_input(d_beta, self.beta[t], grad_input=self.d_read[t])
        if self.packed.read_norm is not None:
            self.d_read[t] = self.read_norm.back(t, self.d_read[t])
        followed = self.d_plan.masked_fill(on, 0)
        self.d_plan = renewed - self.d_candidate[t]
        self.d_plan[..., 1:] += followed[..., :-1]
        flat(self.d_plan).addmm_(self.d_read[t], packed.read)

    def unhide(self, t: int, d_planner: Tensor) -> Tensor:
        """Back through `hide`: adds up the wide gradients, returns that of β. Rows that follow have none."""
        packed, rows = self.packed, self.looking[t]
        assert packed.summary is not None
        given = flat(rows.take(self.d_candidate[t]))
        wide = self.hide(t, self.moving[t], rows)
        d_wide = self.d_wide[: len(wide)]
        self.d_head.addmm_(given.t(), flat(wide))
        torch.mm(given, packed.head, out=flat(d_wide))
        torch.ops.aten.tanh_backward.grad_input(d_wide, wide, grad_input=d_wide)
        rows.add(self.d_keys, d_wide)
        self.d_summary.addmm_(flat(rows.take(self.of_positions(self.beta[t]))).t(), flat(d_wide))
        self.d_move(t, rows.spread(d_wide.sum(1), self.rows), d_planner)
        d_beta = torch.mm(flat(d_wide), packed.summary)
        return flat(rows.spread(d_beta.view(*wide.shape[:2], d_beta.shape[1]), self.rows))

    def gradients(self) -> dict[str, Tensor]:
        found = {
            "keys": self.d_keys,
            "head": self.d_head,
            "head_bias": self.d_candidate.sum((0, 1, 2)),
            "gate_keys": self.d_gate.sum(0),
            "read": flat(self.d_read).t() @ flat(self.plan[:-1]),
            "read_bias": self.d_read.sum((0, 1)),
            "summary": self.d_summary.t(),
            "gate_norm": self.gate_norm.gradient(),
            "read_norm": self.read_norm.gradient(),
        }
        return super().gradients() | {name: value for name, value in found.items() if value is not None}


def follow(plan: Tensor) -> Tensor:
    """ρ over the last dimension."""
    followed = torch.zeros_like(plan)
    followed[..., :-1] = plan[..., 1:]
    return followed


def softmax_back(given: Tensor, alignment: Tensor) -> Tensor:
    product = given * alignment
    return product.addcmul_(alignment, product.sum(-1, keepdim=True), value=-1)


LOOKS: dict[str, type[Look]] = {"baseline": Score, "pag": Plan, "rpag": Repeat}
