"""Contexts of the fused pass: from an alignment to everything that its context is multiplied by, and back."""

import torch
from torch import Tensor

from pag.ops.unroll.packing import Layout, Packed, Steps
from pag.ops.unroll.parts import flat

WORTH = 2  # annotations with so many columns per position, or more, are multiplied beforehand, on a CPU


class Contexts:
    """At every step the context ψ_t = Σ α_j h_j, then its products."""

    def __init__(self, layout: Layout, packed: Packed) -> None:
        self.packed = packed
        self.context = packed.upper.new_empty(layout.steps, layout.rows, layout.annotations)  # ψ
        self.down = packed.from_context.t().contiguous()

    def see(self, t: int, alignment: Tensor) -> Tensor:
        """The products of step t's context [B, ·]."""
        context = self.context[t]
        torch.bmm(alignment[:, None], self.packed.annotations, out=context[:, None])
        return torch.mm(context, self.down)

    def all(self, alignment: Tensor) -> Tensor:
        """ψ_t of every step [T, B, 2·enc], given the alignments [T, B, S]."""
        return self.context

    def prepare(self, given: Steps) -> None:
        self.given, self.d_context = given, torch.empty_like(given.context)
        self.weighed = torch.empty_like(self.packed.annotations)

    def d_alignment(self, t: int, d_seen: Tensor) -> Tensor:
        """The gradient of α_t, given that of its context's products."""
        d_context = torch.addmm(self.given.context[t], d_seen, self.packed.from_context, out=self.d_context[t])
        weighed = torch.mul(self.packed.annotations, d_context[:, None], out=self.weighed)
        return weighed.sum(-1).add_(self.given.alignment[t])

    def gradients(self, alignment: Tensor, d_seen: Tensor) -> dict[str, Tensor]:
        """`d_seen` [T, B, ·] is what the way back filled in for every step."""
        return {
            "annotations": torch.bmm(alignment.permute(1, 2, 0), self.d_context.transpose(0, 1)),
            "from_context": flat(d_seen).t() @ flat(self.context),
        }


class Projected(Contexts):
    """The annotations are multiplied by the context's weights before the loop: a step then sums S rows of products
    instead of making 2·enc of them, and contexts themselves are only made after it."""

    def __init__(self, layout: Layout, packed: Packed) -> None:
        self.packed = packed
        self.products = packed.annotations @ packed.from_context.t()  # [B, S, ·]

    def see(self, t: int, alignment: Tensor) -> Tensor:
        return torch.bmm(alignment[:, None], self.products)[:, 0]

    def all(self, alignment: Tensor) -> Tensor:
        return torch.bmm(alignment.transpose(0, 1), self.packed.annotations).transpose(0, 1)

    def prepare(self, given: Steps) -> None:
        self.given = given
        by_context = torch.bmm(given.context.transpose(0, 1), self.packed.annotations.transpose(1, 2))
        d_aligned = by_context.transpose(0, 1) + given.alignment  # what does not come through the products
        self.d_aligned, self.across = d_aligned.unbind(0), self.products.transpose(1, 2)

    def d_alignment(self, t: int, d_seen: Tensor) -> Tensor:
        through = torch.bmm(d_seen[:, None], self.across)[:, 0]  # rows first: a third of the time
        return through.add_(self.d_aligned[t])

    def gradients(self, alignment: Tensor, d_seen: Tensor) -> dict[str, Tensor]:
        across = alignment.permute(1, 2, 0)  # [B, S, T]
        d_products = torch.bmm(across, d_seen.transpose(0, 1))
        d_annotations = torch.bmm(across, self.given.context.transpose(0, 1))
        flat(d_annotations).addmm_(flat(d_products), self.packed.from_context)
        return {
            "annotations": d_annotations,
            "from_context": flat(d_products).t() @ flat(self.packed.annotations),
        }


def contexts(layout: Layout, packed: Packed) -> Contexts:
    """A GPU has products in plenty; reading S rows of them costs it more."""
    pays = not packed.annotations.is_cuda and WORTH * layout.positions <= layout.annotations
    return (Projected if pays else Contexts)(layout, packed)
