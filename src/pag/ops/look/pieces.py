"""Scores and re-planned plans in pieces of the tanh layer that stay in a processor's cache.

The layer has B·S·a values. Written to memory and read again by every operation it costs several times its
arithmetic; a piece of a few rows is added, squashed and multiplied while it is still at hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

PIECE = 2**17  # values of the tanh layer at once: half a megabyte


@dataclass(frozen=True)
class Rows:
    """The rows that look, each with its sentence; where it is all of them, sentences are not repeated."""

    keys: Tensor  # [N, S, a]
    moving: Tensor  # of these rows [R, a]
    which: Tensor | None = None  # their numbers among all rows, None where it is all of them
    sentences: Tensor | None = None

    @classmethod
    def of(cls, keys: Tensor, moving: Tensor, active: Tensor | None) -> "Rows":
        if active is None or bool(active.all()):
            return cls(keys, moving)
        which = active.nonzero()[:, 0]
        return cls(keys, moving.index_select(0, which), which, which // (len(moving) // len(keys)))

    def take(self, x: Tensor) -> Tensor:
        """These rows of something that has all of them."""
        return x if self.which is None else x.index_select(0, self.which)

    def put(self, everyone: Tensor, ours: Tensor) -> Tensor:
        """Something that has all rows, with ours in their places."""
        return ours if self.which is None else everyone.index_copy(0, self.which, ours)

    def pieces(self) -> Iterator[tuple[slice, Tensor]]:
        """Which rows, and their keys_j + moving [rows·S, a], in memory that the next piece takes again."""
        positions, units = self.keys.shape[1:]
        buffer = self.keys.new_empty(max(1, PIECE // (positions * units)), positions, units)
        shared = 1 if self.which is not None else len(self.moving) // len(self.keys)
        for start, stop in cuts(len(self.moving), shared, len(buffer)):
            part, moving = buffer[: stop - start], self.moving[start:stop, None]
            if self.sentences is not None:
                torch.index_select(self.keys, 0, self.sentences[start:stop], out=part).add_(moving)
            else:
                keys, size = self.keys[start // shared : -(-stop // shared), None], min(shared, stop - start)
                torch.add(keys, moving.unflatten(0, (-1, size)), out=part.unflatten(0, (-1, size)))
            yield slice(start, stop), part.view(-1, units)


def cuts(rows: int, shared: int, most: int) -> Iterator[tuple[int, int]]:
    """Pieces of at most `most` rows: several whole sentences of `shared` rows, or a part of one."""
    size = most - most % shared if shared <= most else shared
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        yield from ((at, min(at + most, stop)) for at in range(start, stop, most))


def score(keys: Tensor, moving: Tensor, weight: Tensor, mask: Tensor, active: Tensor | None) -> Tensor:
    """See `pag.ops.look.score`."""
    rows, positions = Rows.of(keys, moving, active), keys.shape[1]
    scores = keys.new_empty(len(rows.moving), positions)
    head = weight[0].to(keys.dtype)
    for part, layer in rows.pieces():
        torch.mv(layer.tanh_(), head, out=scores[part].view(-1))
    return rows.put(scores.new_zeros(len(moving), positions), scores)


def replan(
    plan: Tensor, keys: Tensor, moving: Tensor, gate_keys: Tensor, gate_moving: Tensor, mask: Tensor, active: Tensor,
    read: nn.Linear, read_norm: nn.Module, summary: Tensor, candidate: nn.Linear,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """See `pag.ops.look.replan`."""
    rows = Rows.of(keys, moving, active)
    before = rows.take(plan).transpose(1, 2).contiguous()  # A_{t-1}, position by position [R, S, k]
    beta = read_norm(read(before)).tanh_().to(keys.dtype)  # β [R, S, r]
    summary, weight = summary.t().to(keys.dtype), candidate.weight.to(keys.dtype)
    proposed = keys.new_empty(len(weight), *before.shape[:2])  # Ā [k, R, S]: k rows of many are twice as fast
    for part, layer in rows.pieces():
        hidden = layer.addmm_(beta[part].flatten(0, 1), summary).tanh_()
        torch.mm(weight, hidden.t(), out=proposed[:, part].flatten(1))
    proposed = proposed.permute(1, 2, 0) + candidate.bias
    opened = gates(rows, gate_keys, rows.take(gate_moving)).to(plan.dtype)
    renewed = torch.lerp(before, proposed.to(plan.dtype), opened)
    followed = torch.cat([plan[:, 1:], torch.zeros_like(plan[:, :1])], 1)
    return rows.put(followed, renewed.transpose(1, 2)), rows.put(torch.zeros_like(plan), opened.transpose(1, 2))


def gates(rows: Rows, gate_keys: Tensor, gate_moving: Tensor) -> Tensor:
    """u [R, S, k]."""
    if rows.sentences is not None:
        return gate_keys.index_select(0, rows.sentences).add_(gate_moving[:, None]).sigmoid_()
    shared = gate_moving.view(len(gate_keys), -1, 1, gate_moving.shape[-1])
    return (gate_keys[:, None] + shared).sigmoid_().flatten(0, 1)
