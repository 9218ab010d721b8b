import numpy as np
import pytest

from pag.data.batch import Batch
from pag.data.loader import Loader
from pag.data.sampler import Position, Sampler


def lengths(count: int = 1000, seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(seed)
    source = chance.integers(3, 60, count)
    return np.stack([source, np.maximum(1, source + chance.integers(-5, 20, count))], 1)


@pytest.mark.parametrize(("size", "by"), [(16, "sentences"), (400, "tokens"), (1, "sentences"), (1, "tokens")])
def test_an_epoch_holds_every_example_once(size: int, by: str) -> None:
    batches = Sampler(lengths(), size, by, 3, Position()).epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))


def test_batches_by_tokens_stay_within_their_size_unless_one_sentence_is_larger() -> None:
    data = lengths()
    for batch in Sampler(data, 300, "tokens", 0, Position()).epoch(0):
        assert len(batch) * data[batch, 1].max() <= 300 or len(batch) == 1


def test_batches_hold_sentences_of_similar_length() -> None:
    data = lengths(5000)
    batches = Sampler(data, 32, "sentences", 0, Position()).epoch(0)
    padded = sum(len(b) * data[b, 1].max() for b in batches)
    assert 1 - data[:, 1].sum() / padded < 0.1


def test_epochs_differ_and_seeds_differ_but_both_repeat() -> None:
    def first(seed: int, epoch: int) -> list[int]:
        return np.concatenate(Sampler(lengths(), 16, "sentences", seed, Position()).epoch(epoch)).tolist()

    assert first(0, 0) == first(0, 0)
    assert first(0, 0) != first(0, 1)
    assert first(0, 0) != first(1, 0)


def test_a_sampler_goes_on_from_its_position() -> None:
    whole = Sampler(lengths(50), 8, "sentences", 0, Position())
    taken = [next(whole).tolist() for _ in range(20)]
    for at in (0, 3, 7, 13):
        before = Sampler(lengths(50), 8, "sentences", 0, Position())
        for _ in range(at):
            next(before)
        again = Sampler(lengths(50), 8, "sentences", 0, before.position)
        assert [next(again).tolist() for _ in range(20 - at)] == taken[at:]


def test_a_loaders_position_counts_what_was_handed_out_not_what_was_made_ahead() -> None:
    sampler = Sampler(lengths(50), 8, "sentences", 0, Position())
    loader = Loader(sampler, lambda numbers: None)
    next(loader)
    next(loader)
    assert loader.position == Position(0, 2)
    assert sampler.position.batch > 2
    loader.close()


def test_a_loader_passes_on_what_went_wrong() -> None:
    def fail(numbers: np.ndarray) -> Batch | None:
        raise ValueError("bad example")

    with pytest.raises(ValueError, match="bad example"):
        next(Loader(Sampler(lengths(50), 8, "sentences", 0, Position()), fail))
