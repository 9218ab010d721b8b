"""The encoder: one bidirectional GRU over the source (paper, section 3.1)."""

from torch import Tensor, nn

from pag.ops.encode import fused, reference


class Encoder(nn.Module):
    """Annotations h_j = [forward ; backward]. The backward pass starts at each sentence's true end."""

    def __init__(
        self, vocabulary: int, embedding: int, size: int, embedding_dropout: float = 0.0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.gru = nn.GRU(embedding, size, batch_first=True, bidirectional=True)
        self.embedding_dropout, self.dropout = nn.Dropout(embedding_dropout), nn.Dropout(dropout)

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        """source [B, S] with lengths [B] → annotations [B, S, 2·enc]; rows past the end are zero."""
        encode = reference.encode if source.is_cuda else fused.encode
        return self.dropout(encode(self.gru, self.embedding_dropout(self.embedding(source)), lengths))
