"""The encoder: one bidirectional GRU over the source (paper, section 3.1)."""

import torch
from torch import Tensor, nn

from pag.ops.encode import fused, reference


class Encoder(nn.Module):
    """Annotations h_j = [forward ; backward]. The backward pass starts at each sentence's true end."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        size: int,
        embedding_dropout: float = 0.0,
        dropout: float = 0.0,
        marks: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.gru = nn.GRU(embedding, size, batch_first=True, bidirectional=True)
        self.mark = nn.Parameter(torch.zeros(embedding)) if marks else None  # added to the words of an answer
        self.embedding_dropout, self.dropout = nn.Dropout(embedding_dropout), nn.Dropout(dropout)

    def forward(self, source: Tensor, lengths: Tensor, marked: Tensor | None = None) -> Tensor:
        """source [B, S] with lengths [B] → annotations [B, S, 2·enc]; rows past the end are zero."""
        encode = reference.encode if source.is_cuda else fused.encode
        words = self.embedding_dropout(self.embedding(source))
        if self.mark is not None and marked is not None:
            words = words + marked[..., None] * self.mark
        return self.dropout(encode(self.gru, words, lengths))
