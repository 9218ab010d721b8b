"""Tensors that travel together, one row per sequence, and how they follow a beam."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

S = TypeVar("S", bound="State")


@dataclass(frozen=True)
class State:
    """A frozen record of tensors (or further States, or tuples of them) whose first dimension is the row."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{f.name: _map(getattr(self, f.name), change) for f in fields(self)})

    def select(self, rows: Tensor) -> Self:
        """These rows, in this order; a row may appear several times."""
        return self.map(lambda x: x.index_select(0, rows.to(x.device)))

    def to(self, device: torch.device | str) -> Self:
        """To a GPU without waiting; back from one only when everything has arrived."""
        ahead = torch.device(device).type != "cpu"
        return self.map(lambda x: x.to(device, non_blocking=ahead))


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, State):
        return value.map(change)
    if isinstance(value, tuple):
        return tuple(_map(part, change) for part in value)
    return change(value) if isinstance(value, Tensor) else value


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor of a State, those of its parts included."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, State):
        for f in fields(value):
            yield from tensors(getattr(value, f.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from tensors(part)


def overwrite(old: State, new: State) -> None:
    """Put the values of one record into the memory of another of the same shapes."""
    for target, source in zip(tensors(old), tensors(new), strict=True):
        if target is not source:
            target.copy_(source)


def stack(steps: Sequence[S]) -> S:
    """Join the records of successive steps: every tensor [B, ...] becomes [B, T, ...]."""
    first = steps[0]
    joined = {}
    for f in fields(first):
        values = [getattr(step, f.name) for step in steps]
        if isinstance(values[0], State):
            joined[f.name] = stack(values)
        else:
            joined[f.name] = torch.stack(values, 1) if isinstance(values[0], Tensor) else values[0]
    return replace(first, **joined)


def exact(like: Tensor) -> torch.dtype:
    """The type that states and decisions are kept in: float32 even where products are bfloat16."""
    return torch.promote_types(like.dtype, torch.float32)


def multiplied(like: Tensor) -> torch.dtype:
    """The type that products are made in: its own, or what autocast makes of it."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype
