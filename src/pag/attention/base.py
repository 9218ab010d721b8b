"""The contract every attention keeps, and the energy that all three variants share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from pag.config import AttentionSettings
from pag.data.batch import Pointing
from pag.layers import norm
from pag.state import State, exact

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Memory(State):
    """What is computed once per sentence. The rows of a step may be a multiple W of the sentences: then each
    sentence is shared by W rows that stand together, as the hypotheses of a beam do."""

    annotations: Tensor  # h [N, S, 2·enc]
    mask: Tensor  # True on real positions [N, S]
    keys: Tensor  # W_h h + b [N, S, a]
    gate: Tensor | None = None  # W_uh h + b (PAG) [N, S, k]
    answer: Tensor | None = None  # vector of the marked answer [N, 2·enc]
    pointing: Pointing | None = None


@dataclass(frozen=True)
class Query(State):
    """What the decoder brings to each step."""

    state: Tensor  # s_{t-1} [B, d]
    token: Tensor  # y_t, the embedding of the previous output [B, e]


@dataclass(frozen=True)
class Products(State):
    """What the query's weights make of it: all that the rest of a step needs to know of the query."""

    energy: Tensor  # W_y y + W_s s_{t-1} [B, a]
    gate: Tensor | None = None  # W_us s_{t-1} + W_uψ ψ_{t-1} (PAG) [B, k]
    logits: Tensor | None = None  # f_c [B, k]
    temperature: Tensor | None = None  # what the inverse temperature τ_t is the softplus of, where it is learned [B, 1]


@dataclass(frozen=True)
class Glimpse(State):
    """What one step of attention gives, and what it decided on the way."""

    alignment: Tensor  # α_t [B, S]
    context: Tensor  # ψ_t [B, 2·enc]
    switch: Tensor | None = None  # g_t, 1 where the row re-planned [B]
    commitment: Tensor | None = None  # c_t [B, k]
    penalised: Tensor | None = None  # the c that the commitment loss sees [B, k]
    log_prob: Tensor | None = None  # log-probability of the choice made [B]
    plan: Tensor | None = None  # A_t [B, k, S]
    gate: Tensor | None = None  # u_t [B, k, S]
    copying: Tensor | None = None  # z_t, the probability that the next output is copied [B]


class Attention(nn.Module, ABC, Generic[S]):
    """`prepare` once per sentence, `start` once per output, `step` once per token.

    A state never hides in the module: `step` takes one and returns the next, so search may
    reorder, drop or repeat rows between steps with `state.select(rows)`.
    """

    plans = True  # does it take noise and make commitments?
    replayable = False  # at inference on a GPU, does a step ask the device nothing, so that it can be captured?

    def __init__(
        self,
        annotations: int,
        state: int,
        token: int,
        settings: AttentionSettings | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.settings = settings or AttentionSettings()
        self.size = self.settings.size or annotations
        self.keys = nn.Linear(annotations, self.size)  # W_h
        self.token = nn.Linear(token, self.size, bias=False)  # W_y
        self.state = nn.Linear(state, self.size, bias=False)  # W_s
        self.state_norm = norm(self.size, layer_norm)

    def prepare(self, annotations: Tensor, mask: Tensor) -> Memory:
        return Memory(annotations, mask, self.keys(annotations))

    @abstractmethod
    def start(self, memory: Memory) -> S:
        """The state before the first step."""

    @abstractmethod
    def step(
        self, query: Query, memory: Memory, state: S, noise: Tensor | None = None, held: bool = False
    ) -> tuple[Glimpse, S]:
        """Attend once. `noise` [B, k] is Gumbel noise for the commitment, None at inference;
        `held` keeps the switch on, so that the model acts as the baseline does."""

    @staticmethod
    def energy(products: Products, memory: Memory) -> Tensor:
        """W_h h_j + W_y y + W_s s_{t-1}, before the tanh [B, S, a]."""
        return at_positions(memory.keys, products.energy)

    def moving(self, query: Query) -> Tensor:
        """W_y y + W_s s_{t-1}, the part of the energy that changes at every step [B, a]."""
        return self.token(query.token) + self.state_norm(self.state(query.state))


def at_positions(of_position: Tensor, of_row: Tensor) -> Tensor:
    """Every position's [N, S, a] plus every row's [B, a] → [B, S, a]."""
    rows = of_row.view(len(of_position), -1, 1, of_row.shape[-1])
    return (of_position[:, None] + rows).flatten(0, 1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """α over real positions [B, S]; padding gets exactly zero."""
    shared = scores.to(exact(scores)).view(len(mask), -1, mask.shape[1])
    return shared.masked_fill(~mask[:, None], float("-inf")).softmax(-1).flatten(0, 1)


def attend(alignment: Tensor, memory: Memory) -> Tensor:
    """ψ = Σ_j α_j h_j [B, 2·enc]."""
    weights = alignment.to(memory.annotations.dtype).view(len(memory.mask), -1, alignment.shape[1])
    return torch.bmm(weights, memory.annotations).flatten(0, 1)
