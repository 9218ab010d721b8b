"""The sequence-to-sequence model: teacher-forced `forward`, and `begin`/`step` for search."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pag.attention.base import Glimpse, Memory
from pag.config import Recipe
from pag.data.batch import Batch, Pointing
from pag.decoder import Decoder, DecoderState
from pag.encoder import Encoder
from pag.layers import initialise
from pag.ops.look import triton_is_here
from pag.ops.step import fused
from pag.ops.unroll.reference import Trace, unroll
from pag.readout import Reading
from pag.registry import ANSWERS, ATTENTIONS, READOUTS, find
from pag.state import State

NOTHING = -1  # the "token" before the first output: its embedding is zero


@dataclass(frozen=True)
class Forward(State):
    """A teacher-forced pass."""

    reading: Reading
    trace: Trace

    @property
    def log_probs(self) -> Tensor:
        """Of every output, by whatever way [B, T, V], and further ones where they can be copied."""
        return self.reading.log_probs


class Seq2Seq(nn.Module):
    """Encoder, attention, decoder and readout, put together as the recipe says."""

    def __init__(self, recipe: Recipe, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        model, annotations = recipe.model, 2 * recipe.model.encoder
        self.encoder = Encoder(
            source_vocabulary, model.embedding, model.encoder, model.embedding_dropout, model.annotation_dropout,
            model.mark_answer,
        )  # fmt: skip
        self.embedding = nn.Embedding(target_vocabulary, model.embedding)
        self.dropout = nn.Dropout(model.embedding_dropout)
        attention = find(ATTENTIONS, recipe.attention.name, "attention")(
            annotations, model.decoder, model.embedding, recipe.attention, model.layer_norm
        )
        self.answer = find(ANSWERS, model.answer, "answer")(model.embedding, model.encoder) if model.answer else None
        answer = annotations if model.answer else 0
        self.decoder = Decoder(attention, annotations, model.embedding, model.decoder, model.layer_norm, answer)
        self.readout = find(READOUTS, model.readout, "readout")(
            model.decoder, model.embedding, annotations, model.readout_size or model.embedding, target_vocabulary,
            model.dropout, answer,
        )  # fmt: skip
        self.unroll: Callable[..., Trace] = unroll
        initialise(self, model.init, torch.Generator().manual_seed(recipe.train.seed))

    def forward(self, batch: Batch, noise: Tensor | None = None, held: bool = False, record: bool = False) -> Forward:
        """Log-probabilities of every target token given those before it; `noise` [B, T, k]."""
        assert batch.target is not None
        before = nn.functional.pad(batch.target[:, :-1], (1, 0), value=NOTHING)
        memory, tokens = self.memory(batch), self.embed(before, batch.pointing)  # y [B, T, e]
        trace = self.unroll(self.decoder, tokens, memory, noise, held, record)
        return Forward(self.readout(trace.lower, trace.upper, tokens, trace.glimpses, memory), trace)

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
        return self.decoder.attention.replayable and self.readout.replayable and triton_is_here()

    def step(
        self, before: Tensor, memory: Memory, state: DecoderState, held: bool = False
    ) -> tuple[Tensor, Glimpse, DecoderState]:
        """Log-probabilities [B, V] of the next output after the token ids `before` [B]."""
        if isinstance(memory, fused.Prepared) and memory.fused is not None:
            return memory.fused.step(before, memory, state, held)
        token = self.embed(before, memory.pointing)
        glimpse, state = self.decoder.step(token, memory, state, held=held)
        reading = self.readout(state.lower, state.upper, token, glimpse, memory)
        return reading.log_probs, replace(glimpse, copying=reading.copying), state

    def memory(self, batch: Batch) -> Memory:
        marked = None if batch.pointing is None else batch.pointing.answer
        annotations = self.encoder(batch.source, batch.source_lengths, marked)
        answer = None if self.answer is None else self.answer(self.encoder, annotations, batch)
        prepared = self.decoder.attention.prepare(annotations, batch.source_mask)
        return replace(prepared, answer=answer, pointing=batch.pointing)

    def embed(self, ids: Tensor, pointing: Pointing | None = None) -> Tensor:
        """A word that only the source knows has the source's embedding."""
        known = self.embedding.num_embeddings
        vectors = self.embedding(ids.clamp(0, known - 1))
        if pointing is not None:
            extra = pointing.source_ids((ids - known).view(len(pointing.extra), -1)).view_as(ids)
            vectors = torch.where((ids >= known)[..., None], self.encoder.embedding(extra), vectors)
        return self.dropout(vectors) * (ids != NOTHING)[..., None]
