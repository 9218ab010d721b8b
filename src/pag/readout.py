"""From decoder states to a distribution over outputs (paper, sections 3.3 and 4.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pag.attention.base import Glimpse, Memory
from pag.data.batch import Pointing
from pag.state import State, exact, multiplied
from pag.text.vocabulary import PAD

TINY = 1e-30  # probabilities under this are taken for it: 1/p must stay finite in float32


@dataclass(frozen=True)
class Reading(State):
    """What the next output is, and each way to come by it where there are two."""

    log_probs: Tensor  # of every output, by whatever way [..., V + E]
    copied: Tensor | None = None  # log-probability of copying from each source position [..., S]
    written: Tensor | None = None  # log-probability of writing each word of the shortlist [..., V]
    copying: Tensor | None = None  # z_t, the probability of copying at all [...]


class DeepOutput(nn.Module):
    """softmax(W_o tanh(W_1 s'_t + W_2 s_t + W_3 y + W_4 ψ_t)); dropout before the output layer."""

    points = False
    replayable = True  # may a step of a search be captured on a GPU?

    def __init__(
        self, decoder: int, token: int, annotations: int, size: int, vocabulary: int, dropout: float, answer: int = 0
    ) -> None:
        super().__init__()
        self.inputs = 2 * decoder + token + annotations + answer
        self.hidden = nn.Linear(self.inputs, size)  # W_1 … W_4
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(size, vocabulary)  # W_o

    def forward(self, lower: Tensor, upper: Tensor, token: Tensor, glimpse: Glimpse, memory: Memory) -> Reading:
        """Of the next output after states and glimpses [B, T, ·], or [rows, ·] as a beam has them."""
        inputs = self.join(lower, upper, token, glimpse, memory)
        return self.read([layer(inputs) for layer in self.readers], glimpse, memory)

    @property
    def readers(self) -> list[nn.Linear]:
        """The layers that multiply the joined inputs; `read` has their products."""
        return [self.hidden]

    def read(self, products: Sequence[Tensor], glimpse: Glimpse, memory: Memory) -> Reading:
        [hidden] = products
        return Reading(self.write(hidden))

    def join(self, lower: Tensor, upper: Tensor, token: Tensor, glimpse: Glimpse, memory: Memory) -> Tensor:
        parts = [lower, upper, token, glimpse.context]
        if memory.answer is not None:
            times = token.shape[1] if token.dim() == 3 else len(token) // len(memory.answer)
            parts.append(memory.answer[:, None].expand(-1, times, -1).reshape(*token.shape[:-1], -1))
        kind = multiplied(token)  # before they are joined: what is joined is the largest tensor of an update
        return torch.cat([part.to(kind) for part in parts], -1)

    def write(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of the vocabulary [..., V]."""
        logits = self.output(self.dropout(torch.tanh(hidden)))
        return logits.to(exact(logits)).log_softmax(-1)


class PointerSoftmax(DeepOutput):
    """Write a word of the shortlist, or copy the word that the alignment points at (Gulcehre et al. 2016).

    A switch z_t says which; the copy distribution is the alignment itself, so planning decides what is copied.
    """

    points = True
    replayable = True

    def __init__(
        self, decoder: int, token: int, annotations: int, size: int, vocabulary: int, dropout: float, answer: int = 0
    ) -> None:
        super().__init__(decoder, token, annotations, size, vocabulary, dropout, answer)
        self.switch = Switch(self.inputs, size)

    @property
    def readers(self) -> list[nn.Linear]:
        return [self.hidden, self.switch.first]

    def read(self, products: Sequence[Tensor], glimpse: Glimpse, memory: Memory) -> Reading:
        assert memory.pointing is not None
        hidden, first = products
        logit = self.switch(first)  # [..., 1]
        alignment = glimpse.alignment.to(logit.dtype)
        written = self.write(hidden) + F.logsigmoid(-logit)
        copied = alignment.clamp_min(TINY).log() + F.logsigmoid(logit)
        joint = join(written.exp(), alignment * logit.sigmoid(), memory.pointing)
        return Reading(joint, copied, written, logit.sigmoid()[..., 0])


class Switch(nn.Module):
    """Two tanh layers, the second beside a residual, then the logit of copying."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, size)
        self.second = nn.Linear(size, size)
        self.output = nn.Linear(size, 1)

    def forward(self, first: Tensor) -> Tensor:
        """From what the first layer makes of the inputs."""
        hidden = torch.tanh(first)
        logit = self.output(hidden + torch.tanh(self.second(hidden)))
        return logit.to(exact(logit))


def join(written: Tensor, copied: Tensor, pointing: Pointing) -> Tensor:
    """Log-probabilities of outputs [..., V + E]: what is written plus what is copied from every place that holds it.

    Rows of one sentence stand together, as many as there are steps or hypotheses.
    """
    sentences, extra = pointing.extra.shape
    by_sentence = copied.reshape(sentences, -1, copied.shape[-1])
    together = F.pad(written, (0, extra)).view(sentences, -1, written.shape[-1] + extra)
    words = pointing.words[:, None].expand_as(by_sentence)
    log_probs = together.scatter_add(-1, words, by_sentence).clamp_min(TINY).log()
    missing = F.pad(pointing.extra == PAD, (written.shape[-1], 0))[:, None]
    return log_probs.masked_fill(missing, float("-inf")).view(*written.shape[:-1], -1)
