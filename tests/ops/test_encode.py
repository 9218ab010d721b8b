"""The CPU's bidirectional GRU equals PyTorch's, gradients included."""

import pytest
import torch
from torch import nn

from pag.ops.encode import fused, reference


@pytest.mark.parametrize("lengths", [[7, 3, 5, 1], [7, 7, 7, 7], [1, 1, 1, 1]])
def test_the_fused_pass_equals_the_packed_one_in_outputs_and_every_gradient(lengths: list[int]) -> None:
    torch.manual_seed(0)
    gru = nn.GRU(5, 6, batch_first=True, bidirectional=True).double()
    inputs = torch.randn(4, max(lengths), 5, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(4, max(lengths), 12, dtype=torch.float64)
    found = {}
    for name, encode in (("fused", fused.encode), ("reference", reference.encode)):
        gru.zero_grad()
        inputs.grad = None
        outputs = encode(gru, inputs, torch.tensor(lengths))
        (outputs * upstream).sum().backward()
        assert inputs.grad is not None
        found[name] = [outputs.detach(), inputs.grad, *(w.grad for w in gru.parameters())]
    for ours, theirs in zip(found["fused"], found["reference"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_turning_round_leaves_padding_at_the_end_and_turns_back() -> None:
    x = torch.arange(10).view(2, 5, 1)
    lengths = torch.tensor([3, 5])
    assert fused.turn(x, lengths)[:, :, 0].tolist() == [[2, 1, 0, 3, 4], [9, 8, 7, 6, 5]]
    assert torch.equal(fused.turn(fused.turn(x, lengths), lengths), x)
