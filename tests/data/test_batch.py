"""Examples of different lengths in one batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pag.data.batch import Example, collate, mask, pad
from pag.data.dataset import ListDataset
from pag.text.vocabulary import PAD

IDS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@given(st.lists(IDS, min_size=1, max_size=5))
def test_padding_goes_to_the_end_and_the_lengths_give_the_sequences_back(sequences: list[list[int]]) -> None:
    ids, lengths = pad(sequences)
    assert ids.shape == (len(sequences), max(map(len, sequences)))
    for row, length, sequence in zip(ids, lengths, sequences, strict=True):
        assert row[:length].tolist() == sequence
        assert (row[length:] == PAD).all()


def test_a_batch_by_hand() -> None:
    batch = collate([Example([5, 1], [7, 8, 1]), Example([6, 7, 1], [1])])
    assert batch.source.tolist() == [[5, 1, 0], [6, 7, 1]]
    assert batch.source_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target.tolist() == [[7, 8, 1], [1, 0, 0]]
    assert batch.target_mask.tolist() == [[True, True, True], [True, False, False]]


def test_the_mask_counts_lengths_and_not_padding_ids() -> None:
    """An id that happens to be the padding's is real when the length says so."""
    batch = collate([Example([PAD, PAD]), Example([3, 4])])
    assert batch.source_mask.all()


def test_a_mask_has_as_many_marks_as_its_length() -> None:
    assert mask(torch.tensor([0, 2, 3]), 3).sum(1).tolist() == [0, 2, 3]


def test_targets_may_be_missing_at_inference() -> None:
    batch = collate([Example([5, 1])])
    assert batch.target is None and batch.target_lengths is None
    with pytest.raises(AssertionError):
        _ = batch.target_mask


def test_either_every_example_has_a_target_or_none() -> None:
    with pytest.raises(AssertionError):
        collate([Example([5, 1], [1]), Example([5, 1])])


def test_a_batch_selects_its_sentences() -> None:
    batch = collate([Example([5, 1], [7, 1]), Example([6, 7, 1], [1])])
    chosen = batch.select(torch.tensor([1, 1, 0]))
    assert chosen.source_lengths.tolist() == [3, 3, 2]
    assert chosen.target.tolist() == [[1, 0], [1, 0], [7, 1]]
    assert collate([Example([5])]).select(torch.tensor([0, 0])).target is None


def test_a_data_set_knows_its_lengths_beforehand() -> None:
    data = ListDataset([Example([1, 2], [3]), Example([1])])
    assert data.lengths.tolist() == [[2, 1], [1, 0]]
    assert len(data) == 2 and data[1].source == [1]
    assert ListDataset([]).lengths.shape == (0, 2)
