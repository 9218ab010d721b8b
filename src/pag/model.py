"""The sequence-to-sequence model: teacher-forced `forward`, and `begin`/`step` for search."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pag.attention.base import Glimpse, Memory
from pag.config import Recipe
from pag.data.batch import Batch
from pag.decoder import Decoder, DecoderState
from pag.encoder import Encoder
from pag.layers import initialise
from pag.ops.look import triton_is_here
from pag.ops.step import fused
from pag.ops.unroll.reference import Trace, unroll
from pag.registry import ATTENTIONS, READOUTS, find
from pag.state import State

NOTHING = -1  # the "token" before the first output: its embedding is zero


@dataclass(frozen=True)
class Forward(State):
    """A teacher-forced pass."""

    log_probs: Tensor  # [B, T, V]
    trace: Trace


class Seq2Seq(nn.Module):
    """Encoder, attention, decoder and readout, put together as the recipe says."""

    def __init__(self, recipe: Recipe, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        model, annotations = recipe.model, 2 * recipe.model.encoder
        self.encoder = Encoder(
            source_vocabulary, model.embedding, model.encoder, model.embedding_dropout, model.annotation_dropout
        )
        self.embedding = nn.Embedding(target_vocabulary, model.embedding)
        self.dropout = nn.Dropout(model.embedding_dropout)
        attention = find(ATTENTIONS, recipe.attention.name, "attention")(
            annotations, model.decoder, model.embedding, recipe.attention, model.layer_norm
        )
        self.decoder = Decoder(attention, annotations, model.embedding, model.decoder, model.layer_norm)
        self.readout = find(READOUTS, model.readout, "readout")(
            model.decoder, model.embedding, annotations, model.readout_size or model.embedding, target_vocabulary,
            model.dropout,
        )  # fmt: skip
        self.unroll: Callable[..., Trace] = unroll
        initialise(self, model.init, torch.Generator().manual_seed(recipe.train.seed))

    def forward(self, batch: Batch, noise: Tensor | None = None, held: bool = False, record: bool = False) -> Forward:
        """Log-probabilities of every target token given those before it; `noise` [B, T, k]."""
        assert batch.target is not None
        before = nn.functional.pad(batch.target[:, :-1], (1, 0), value=NOTHING)
        tokens = self.embed(before)  # y [B, T, e]
        trace = self.unroll(self.decoder, tokens, self.memory(batch), noise, held, record)
        return Forward(self.readout(trace.lower, trace.upper, tokens, trace.glimpses.context), trace)

    def begin(self, batch: Batch) -> tuple[Memory, DecoderState]:
        """Memory and first state; at inference those of the fused step, where there is one for this model."""
        memory = self.memory(batch)
        state = self.decoder.start(memory)
        if self.training or torch.is_grad_enabled() or not fused.choose(self)[0]:
            return memory, state
        return fused.begin(self, memory, state)

    @property
    def replayable(self) -> bool:
        """Can a step be captured on a GPU? The kernels there need Triton."""
        return self.decoder.attention.replayable and triton_is_here()

    def step(
        self, before: Tensor, memory: Memory, state: DecoderState, held: bool = False
    ) -> tuple[Tensor, Glimpse, DecoderState]:
        """Log-probabilities [B, V] of the next output after the token ids `before` [B]."""
        if isinstance(memory, fused.Prepared) and memory.fused is not None:
            return memory.fused.step(before, memory, state, held)
        token = self.embed(before)
        glimpse, state = self.decoder.step(token, memory, state, held=held)
        return self.readout(state.lower, state.upper, token, glimpse.context), glimpse, state

    def memory(self, batch: Batch) -> Memory:
        return self.decoder.attention.prepare(self.encoder(batch.source, batch.source_lengths), batch.source_mask)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids.clamp_min(0))) * (ids != NOTHING)[..., None]
