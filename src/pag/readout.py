"""From decoder states to a distribution over outputs (paper, section 3.3)."""

import torch
from torch import Tensor, nn


class DeepOutput(nn.Module):
    """softmax(W_o tanh(W_1 s'_t + W_2 s_t + W_3 y + W_4 ψ_t)); dropout before the output layer."""

    def __init__(self, decoder: int, token: int, annotations: int, size: int, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * decoder + token + annotations, size)  # W_1 … W_4
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(size, vocabulary)  # W_o

    def forward(self, lower: Tensor, upper: Tensor, token: Tensor, context: Tensor) -> Tensor:
        """Log-probabilities of the next output [..., V]."""
        parts = [part.to(token.dtype) for part in (lower, upper, token, context)]
        hidden = torch.tanh(self.hidden(torch.cat(parts, -1)))
        logits = self.output(self.dropout(hidden))
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
