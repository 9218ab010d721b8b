"""The encoder: one bidirectional GRU over the source (paper, section 3.1)."""

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    """Annotations h_j = [forward ; backward]. Packing starts the backward pass at each true end."""

    def __init__(self, vocabulary: int, embedding: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.gru = nn.GRU(embedding, size, batch_first=True, bidirectional=True)

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        """source [B, S] with lengths [B] → annotations [B, S, 2·enc]; rows past the end are zero."""
        packed = pack_padded_sequence(self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False)
        annotations, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=source.shape[1])
        return annotations
