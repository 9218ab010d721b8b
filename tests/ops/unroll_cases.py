"""Random decoders and inputs at odd sizes, and the comparison of two passes in everything they give."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pag.attention.base import Attention, Memory
from pag.attention.commitment import gumbel
from pag.config import AttentionSettings
from pag.decoder import Decoder
from pag.layers import initialise
from pag.losses import replan_loss
from pag.ops.unroll.reference import Trace
from pag.registry import ATTENTIONS, find

OUTPUTS = ["lower", "upper"]
GLIMPSES = ["alignment", "context", "switch", "commitment", "penalised", "log_prob"]


class Case:
    """A decoder with random weights (biases and norms too), a ragged batch, noise, and random gradients."""

    def __init__(
        self,
        name: str,
        layer_norm: bool = False,
        rows: int = 5,
        positions: int = 37,
        steps: int = 13,
        units: int = 60,
        annotations: int = 44,
        token: int = 30,
        dtype: torch.dtype = torch.float64,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        draw = torch.Generator().manual_seed(seed)
        settings = {"k": 7, "read_size": 24, "size": 52, **settings}
        chosen = AttentionSettings(name=name, **settings)
        attention: Attention = find(ATTENTIONS, name, "attention")(annotations, units, token, chosen, layer_norm)
        self.decoder = Decoder(attention, annotations, token, units, layer_norm).to(dtype)
        initialise(self.decoder, "fan_in", draw)
        for parameter in self.decoder.parameters():
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw, dtype=dtype)

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, dtype=dtype)

        self.tokens = random(rows, steps, token).requires_grad_()
        self.annotations = random(rows, positions, annotations).requires_grad_()
        self.keys = random(rows, positions, attention.size).requires_grad_()
        lengths = torch.randint(1, positions + 1, (rows,), generator=draw)
        lengths[0] = positions
        self.mask = torch.arange(positions) < lengths[:, None]
        self.noise = gumbel(torch.rand(rows, steps, chosen.k, generator=draw, dtype=dtype))
        self.draw = draw

    def to(self, device: str, dtype: torch.dtype) -> "Case":
        """The same case elsewhere or in another precision."""
        other = object.__new__(Case)
        other.__dict__.update(self.__dict__)
        settings, attention = self.decoder.attention.settings, self.decoder.attention
        fresh = type(attention)(
            self.annotations.shape[-1], self.decoder.lower.size, self.tokens.shape[-1], settings,
            not isinstance(attention.state_norm, torch.nn.Identity),
        )  # fmt: skip
        other.decoder = Decoder(
            fresh, self.annotations.shape[-1], self.tokens.shape[-1], self.decoder.lower.size,
            not isinstance(attention.state_norm, torch.nn.Identity),
        ).to(device, dtype)  # fmt: skip
        other.decoder.load_state_dict(self.decoder.state_dict())
        for name in ("tokens", "annotations", "keys"):
            setattr(other, name, getattr(self, name).detach().to(device, dtype).requires_grad_())
        other.mask, other.noise = self.mask.to(device), self.noise.to(device, dtype)
        return other

    def memory(self) -> Memory:
        return Memory(self.annotations, self.mask, self.keys)

    def run(self, unroll: Callable[..., Trace], noisy: bool = True, held: bool = False) -> dict[str, Tensor]:
        """Every output, and the gradient of a random function of them by every leaf."""
        for leaf in self.leaves().values():
            leaf.grad = None
        trace = unroll(self.decoder, self.tokens, self.memory(), self.noise if noisy else None, held)
        given = dict(outputs(trace))
        draw = torch.Generator().manual_seed(1)
        total = torch.zeros((), dtype=torch.float64, device=self.tokens.device)
        for value in given.values():
            weights = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            total = total + (value.double() * weights.to(value.device)).sum()
        total.backward()
        gradients = {f"gradient of {name}": leaf.grad for name, leaf in self.leaves().items() if leaf.grad is not None}
        return {name: value.detach() for name, value in given.items()} | gradients

    def price(self, unroll: Callable[..., Trace]) -> dict[str, Tensor]:
        """The gradient of the price on re-planning alone, by every leaf it reaches."""
        trace = unroll(self.decoder, self.tokens, self.memory(), self.noise, False)
        assert trace.glimpses.switch is not None
        mask = torch.ones_like(trace.glimpses.switch, dtype=torch.bool)
        total = replan_loss(trace.glimpses.switch, mask, 0.1).sum()
        leaves = self.leaves()
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        return {name: grad for name, grad in zip(leaves, found, strict=True) if grad is not None and grad.any()}

    def leaves(self) -> dict[str, Tensor]:
        inputs = {"tokens": self.tokens, "annotations": self.annotations, "keys of the memory": self.keys}
        return inputs | dict(self.decoder.named_parameters())


def outputs(trace: Trace) -> Iterator[tuple[str, Tensor]]:
    for name in OUTPUTS:
        yield name, getattr(trace, name)
    for name in GLIMPSES:
        value = getattr(trace.glimpses, name)
        if value is not None:
            yield name, value


def differences(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """‖found − expected‖ / ‖expected‖ of each; what one side lacks, or a NaN, is infinitely far."""
    far = {name: float("inf") for name in found.keys() ^ expected.keys()}
    for name in found.keys() & expected.keys():
        wanted = expected[name].double().cpu()
        distance = (found[name].double().cpu() - wanted).norm() / wanted.norm().clamp_min(1e-30)
        same = found[name].shape == expected[name].shape and not bool(distance.isnan())
        far[name] = float(distance) if same else float("inf")
    return far


def worst(found: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[str, float]:
    return max(differences(found, expected).items(), key=lambda item: item[1])
