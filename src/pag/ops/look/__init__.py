"""Scores and plans of one step at inference, without ever storing the whole tanh layer.

`kernel.py` does it on a GPU with Triton, `pieces.py` anywhere with PyTorch; both have the signatures below.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from pag.ops.look import pieces


def score(keys: Tensor, moving: Tensor, weight: Tensor, mask: Tensor, active: Tensor | None) -> Tensor:
    """w·tanh(keys_j + moving) [B, S] of the active rows, of all where `active` is None; anything elsewhere.

    `keys` [N, S, a] are shared by the B / N rows of a sentence, which stand together.
    """
    if not fast(moving):
        return pieces.score(keys, moving, weight, mask, active)
    from pag.ops.look import kernel

    everyone = torch.ones(len(moving), dtype=torch.bool, device=moving.device) if active is None else active
    with torch.cuda.device_of(moving):  # Triton launches on the current GPU, whichever the tensors are on
        return kernel.score(keys, moving, weight, mask, everyone)


def replan(
    plan: Tensor, keys: Tensor, moving: Tensor, gate_keys: Tensor, gate_moving: Tensor, mask: Tensor, active: Tensor,
    read: nn.Linear, read_norm: nn.Module, summary: Tensor, candidate: nn.Linear,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A_t and u_t [B, k, S]: (1 − u) ⊙ A + u ⊙ Ā where active, the shifted plan (and no gate) elsewhere."""
    given = (plan, keys, moving, gate_keys, gate_moving, mask, active, read, read_norm, summary, candidate)
    if not fast(moving):
        return pieces.replan(*given)
    from pag.ops.look import kernel

    with torch.cuda.device_of(moving):
        return kernel.replan(*given)


def fast(like: Tensor) -> bool:
    """Are the kernels to be used: on a GPU where Triton is installed?"""
    return like.is_cuda and triton_is_here()


@cache
def triton_is_here() -> bool:
    """Asked on a GPU alone; the first answer that it is not says what that means."""
    here = find_spec("triton") is not None
    if not here:
        warnings.warn("Triton is not installed, so search on this GPU is slow: pip install triton", stacklevel=2)
    return here
