"""Small things that tests build: a recipe, an attention, a batch, in float64 so that laws hold tightly."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pag.attention.base import Attention, Glimpse, Memory, Query
from pag.attention.commitment import gumbel
from pag.config import AttentionSettings, Recipe, build_recipe
from pag.data.batch import Batch, Example, collate, mask
from pag.layers import initialise
from pag.model import Seq2Seq
from pag.registry import ATTENTIONS, find
from pag.state import State

ANNOTATION, STATE, TOKEN, K = 4, 6, 3, 3
SYMBOLS = 7
FAST = ("baseline", "pag", "rpag")  # the attentions that have fast passes beside the plain step


def chance(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=chance(seed), dtype=torch.float64)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return gumbel(torch.rand(shape, generator=chance(seed), dtype=torch.float64))


def settings(**changes: Any) -> AttentionSettings:
    return AttentionSettings(**{"k": K, "size": 5, "read_size": 4, **changes})


def attention(name: str, layer_norm: bool = False, seed: int = 0, **changes: Any) -> Attention:
    """The attention called `name` with weights of a size that makes it both follow and re-plan."""
    kind = find(ATTENTIONS, name, "attention")
    built = kind(ANNOTATION, STATE, TOKEN, settings(name=name, **changes), layer_norm).double()
    initialise(built, "fan_in", chance(seed))
    return built


def recipe(name: str = "pag", **sections: dict[str, Any]) -> Recipe:
    """`recipe("rpag", model={"layer_norm": True})`."""
    small = {"embedding": TOKEN, "encoder": ANNOTATION // 2, "decoder": STATE, "readout_size": 5}
    values = {
        "task": {"name": "euler", "nodes": 3, "distractors": 0},
        "model": small | sections.get("model", {}),
        "attention": {"name": name, "k": K, "size": 5, "read_size": 4} | sections.get("attention", {}),
        "loss": sections.get("loss", {}),
        "train": sections.get("train", {}),
    }
    return build_recipe(values, "test")


def model(name: str = "pag", **sections: dict[str, Any]) -> Seq2Seq:
    return Seq2Seq(recipe(name, **sections), SYMBOLS, SYMBOLS).double()


def sentences(*lengths: tuple[int, int], seed: int = 0) -> Batch:
    """One sentence for each (source length, target length)."""
    draw = chance(seed)

    def some(length: int) -> list[int]:
        return torch.randint(1, SYMBOLS, (length,), generator=draw).tolist()

    return collate([Example(some(source), some(target)) for source, target in lengths])


@dataclass(frozen=True)
class Scene:
    """What an attention meets in an output of several steps."""

    annotations: Tensor  # [B, S, 2·enc]
    mask: Tensor  # [B, S]
    states: Tensor  # s_{t-1} [B, T, d]
    tokens: Tensor  # y_t [B, T, e]
    noise: Tensor  # [B, T, k]

    @property
    def steps(self) -> int:
        return self.states.shape[1]

    def query(self, t: int) -> Query:
        return Query(self.states[:, t], self.tokens[:, t])

    def alone(self, row: int) -> "Scene":
        """One sentence without its padding."""
        length = int(self.mask[row].sum())
        only = slice(row, row + 1)
        return Scene(
            self.annotations[only, :length],
            self.mask[only, :length],
            self.states[only],
            self.tokens[only],
            self.noise[only],
        )


def scene(lengths: tuple[int, ...] = (5, 2, 3, 4), steps: int = 6, seed: int = 0) -> Scene:
    rows, longest = len(lengths), max(lengths)
    return Scene(
        normal(rows, longest, ANNOTATION, seed=seed),
        mask(torch.tensor(lengths), longest),
        2 * normal(rows, steps, STATE, seed=seed + 1),
        normal(rows, steps, TOKEN, seed=seed + 2),
        noise(rows, steps, K, seed=seed + 3),
    )


def play(attention: Attention, scene: Scene, held: bool = False) -> tuple[Memory, list[Glimpse], list[State]]:
    """Every step of the scene: the glimpses, and the states from the start to the end."""
    memory = attention.prepare(scene.annotations, scene.mask)
    states, glimpses = [attention.start(memory)], []
    for t in range(scene.steps):
        glimpse, state = attention.step(scene.query(t), memory, states[-1], scene.noise[:, t], held)
        glimpses.append(glimpse)
        states.append(state)
    return memory, glimpses, states


def tensors(state: State) -> dict[str, Tensor]:
    """Every tensor of a State, by its dotted name."""
    found: dict[str, Tensor] = {}
    for name, value in vars(state).items():
        if isinstance(value, State):
            found |= {f"{name}.{inner}": tensor for inner, tensor in tensors(value).items()}
        elif isinstance(value, Tensor):
            found[name] = value
    return found


def assert_same(left: State, right: State, tolerance: float = 1e-12) -> None:
    first, second = tensors(left), tensors(right)
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(
            first[name], second[name], rtol=0, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}"
        )
