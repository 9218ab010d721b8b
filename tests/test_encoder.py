"""The encoder: annotations that depend on their own sentence and nothing else."""

import torch

from pag.encoder import Encoder
from pag.layers import initialise
from small import SYMBOLS, chance, sentences


def encoder() -> Encoder:
    built = Encoder(SYMBOLS, 3, 4).double()
    initialise(built, "fan_in", chance(0))
    return built


def test_padding_never_changes_an_annotation() -> None:
    built, batch = encoder(), sentences((5, 1), (2, 1), (3, 1))
    together = built(batch.source, batch.source_lengths)
    for row, length in enumerate(batch.source_lengths.tolist()):
        alone = built(batch.source[row : row + 1, :length], batch.source_lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-14)


def test_the_ids_under_padding_do_not_matter() -> None:
    built, batch = encoder(), sentences((5, 1), (2, 1), (3, 1))
    other = torch.where(batch.source_mask, batch.source, 4)
    assert torch.equal(built(batch.source, batch.source_lengths), built(other, batch.source_lengths))


def test_annotations_past_the_end_are_zero() -> None:
    built, batch = encoder(), sentences((5, 1), (2, 1), (3, 1))
    assert not built(batch.source, batch.source_lengths)[~batch.source_mask].any()


def test_the_order_of_the_batch_never_changes_an_annotation() -> None:
    built, batch, rows = encoder(), sentences((2, 1), (5, 1), (3, 1)), torch.tensor([2, 0, 1])
    moved = batch.select(rows)
    torch.testing.assert_close(
        built(moved.source, moved.source_lengths),
        built(batch.source, batch.source_lengths)[rows],
        rtol=0,
        atol=1e-14,
    )


def test_a_wider_batch_keeps_its_width() -> None:
    """Sources may be padded further than their longest, as in a batch shared between processes."""
    built = encoder()
    assert built(torch.ones(2, 6, dtype=torch.long), torch.tensor([3, 2])).shape == (2, 6, 8)


def test_the_forward_half_sees_the_past_and_the_backward_half_the_future() -> None:
    built = encoder()
    first, last = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 3, 5]])
    length = torch.tensor([4])
    a, b = built(first, length)[0], built(last, length)[0]
    assert torch.equal(a[:3, :4], b[:3, :4]) and not torch.equal(a[3, :4], b[3, :4])
    assert all(not torch.equal(a[j, 4:], b[j, 4:]) for j in range(4))
