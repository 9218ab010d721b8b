"""Optimiser, learning-rate schedule, gradient exchange and clipping, moving average of the weights."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.config import TrainSettings


def build_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.optimizer]
    fused = next(model.parameters()).is_cuda
    return kind(
        model.parameters(),
        lr=settings.lr,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=fused or None,
    )


SCHEDULES: dict[str, Callable[[float, float], float]] = {
    # both arguments count updates after warm-up: those done, and all there are
    "constant": lambda done, total: 1.0,
    "linear": lambda done, total: max(0.0, 1 - done / total),
    "cosine": lambda done, total: (1 + math.cos(math.pi * min(1.0, done / total))) / 2,
}


def learning_rate(settings: TrainSettings, update: int) -> float:
    """The rate of this update; the first is number 0."""
    if update < settings.warmup:
        return settings.lr * (update + 1) / settings.warmup
    if settings.schedule == "inverse_sqrt":
        return settings.lr * math.sqrt(max(settings.warmup, 1) / (update + 1))
    rest = max(1, settings.max_updates - settings.warmup)
    return settings.lr * SCHEDULES[settings.schedule](update - settings.warmup, rest)


def all_gradients(model: nn.Module) -> list[Tensor]:
    """Every parameter's gradient, zeros where a parameter took no part."""
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def exchange(tensors: list[Tensor], numbers: Tensor, add: Callable[[Tensor], Tensor]) -> Tensor:
    """Add gradients in place, and some numbers beside them, over all processes in one message."""
    total = add(torch.cat([*(tensor.float().flatten() for tensor in tensors), numbers]))
    at = 0
    for tensor in tensors:
        tensor.copy_(total[at : at + tensor.numel()].view_as(tensor))
        at += tensor.numel()
    return total[at:]


@dataclass
class MovingAverage:
    """EMA of the weights, warmed up so that early updates are not drowned by the start."""

    decay: float
    weights: dict[str, Tensor]

    @classmethod
    def of(cls, model: nn.Module, decay: float) -> "MovingAverage":
        return cls(decay, {name: weight.detach().clone() for name, weight in model.named_parameters()})

    @torch.no_grad()
    def follow(self, model: nn.Module, update: int) -> None:
        decay = min(self.decay, (1 + update) / (10 + update))
        for name, weight in model.named_parameters():
            self.weights[name].lerp_(weight.detach(), 1 - decay)
