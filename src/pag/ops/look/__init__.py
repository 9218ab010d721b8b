"""One step of attention at inference on a GPU: scores and plans without ever storing the tanh layer."""

from functools import cache

import torch
from torch import Tensor


def fast(like: Tensor) -> bool:
    """Are the kernels of this folder to be used: on a GPU, without gradients, where Triton is installed?"""
    return like.is_cuda and not torch.is_grad_enabled() and triton_is_here()


@cache
def triton_is_here() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
