"""Weights that take less room: half precision, or a byte a weight with one scale for each row of a matrix."""

from collections.abc import Mapping

import torch
from torch import Tensor

KINDS = ("float32", "float16", "int8")
SCALE = "::scale"  # behind a tensor's name: what its rows are multiplied by


def squeeze(weights: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """The weights as they are stored. Vectors (biases, norms) are few and stay in half precision at least."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if kind == "int8" and weight.dim() > 1:
            scale = weight.float().flatten(1).abs().amax(1).clamp_min(1e-12) / 127  # [rows]
            found[name] = (weight.float() / _rows(scale, weight)).round().to(torch.int8)
            found[name + SCALE] = scale
        else:
            found[name] = weight.to(torch.float32 if kind == "float32" else torch.float16)
    return found


def restore(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights again, whichever way they were stored."""
    return {
        name: tensor * _rows(tensors[name + SCALE], tensor) if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }


def _rows(scale: Tensor, like: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (like.dim() - 1))
