"""The answer that a question is to be asked about, as one vector (paper, section 4.2)."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from pag.data.batch import Batch
from pag.encoder import Encoder


class MeanAnnotation(nn.Module):
    """The mean of the annotations over the answer: it knows the answer's surroundings."""

    def __init__(self, embedding: int, size: int) -> None:
        super().__init__()

    def forward(self, encoder: Encoder, annotations: Tensor, batch: Batch) -> Tensor:
        """annotations [B, S, 2·enc] → [B, 2·enc]."""
        assert batch.pointing is not None
        there = batch.pointing.answer[..., None].to(annotations.dtype)
        return (annotations * there).sum(1) / there.sum(1)


class AnswerEncoder(nn.Module):
    """A bidirectional GRU of its own over the answer's words: the last state of each direction."""

    def __init__(self, embedding: int, size: int) -> None:
        super().__init__()
        self.gru = nn.GRU(embedding, size, batch_first=True, bidirectional=True)

    def forward(self, encoder: Encoder, annotations: Tensor, batch: Batch) -> Tensor:
        assert batch.pointing is not None
        answer = batch.pointing.answer
        lengths = answer.sum(1).cpu()
        first = answer.int().argmax(1, keepdim=True)
        places = first + torch.arange(int(lengths.max()), device=first.device)
        words = batch.source.gather(1, places.clamp_max(answer.shape[1] - 1))
        packed = pack_padded_sequence(encoder.embedding(words), lengths, batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)  # [2, B, enc]
        return last.transpose(0, 1).flatten(1)
