"""The decoder's whole teacher-forced pass: the plain loop, and faster ones that equal it."""

from collections.abc import Callable
from importlib.util import find_spec

import torch

from pag.decoder import Decoder
from pag.errors import PagError, nearest
from pag.ops.unroll import fused, reference
from pag.ops.unroll.packing import KINDS
from pag.ops.unroll.reference import Trace

Unroll = Callable[..., Trace]
BACKENDS = ("auto", "reference", "fused")


def choose(backend: str, device: torch.device | str, decoder: Decoder) -> tuple[Unroll, str]:
    """The pass to train with, and one line that says which and why."""
    if backend not in BACKENDS:
        raise PagError(f"unknown backend '{backend}'{nearest(backend, BACKENDS)}")
    if backend == "reference":
        return reference.unroll, "reference: a plain PyTorch loop"
    attention = type(decoder.attention)
    if attention not in KINDS:
        reason = f"there is no fused pass for {attention.__name__}"
        if backend == "fused":
            raise PagError(f"backend 'fused': {reason}; use 'auto' or 'reference'")
        return reference.unroll, f"reference: a plain PyTorch loop, since {reason}"
    if torch.device(device).type != "cuda":
        return fused.unroll, "fused: one PyTorch operation, gradients by hand"
    return on_gpu(backend)


def on_gpu(backend: str) -> tuple[Unroll, str]:
    if find_spec("triton") is not None:
        from pag.ops.unroll import kernel

        return kernel.unroll, "fused: Triton kernels in CUDA graphs"
    if backend == "fused":
        raise PagError("backend 'fused' on a GPU needs Triton, which is not installed: pip install triton")
    return fused.unroll, "fused: one PyTorch operation, gradients by hand; no Triton kernels, since it is not installed"
