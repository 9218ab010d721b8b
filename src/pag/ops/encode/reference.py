"""A bidirectional GRU over sentences of different lengths, by PyTorch: cuDNN's on a GPU, slow on a CPU."""

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def encode(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """inputs [B, S, e] → [B, S, 2·enc]; packing starts the backward pass at each true end."""
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(gru(packed)[0], batch_first=True, total_length=inputs.shape[1])
    return outputs
