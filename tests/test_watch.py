"""What a watcher sees of a search agrees with what the search then answers."""

import numpy as np
import pytest
import torch

from pag.data.batch import Batch, Example, collate
from pag.hypotheses import Slots, Step
from pag.model import Seq2Seq
from pag.search import Options, search
from pag.tasks.euler import EulerTask
from pag.text.vocabulary import END
from pag.watch import Prefix, prefix


@pytest.fixture
def batch(task: EulerTask) -> Batch:
    sources = [example.source for example in task.examples("test")]
    return collate([Example(list(source[i * 3 :])) for i, source in enumerate(sources[:5])])


def watched(model: Seq2Seq, batch: Batch, options: Options) -> tuple[list[list[Prefix]], list]:
    """What was seen of each sentence, step by step, and what the search answered."""
    seen: list[list[Prefix]] = [[] for _ in batch.source]

    def watch(steps: list[Step], slots: Slots) -> None:
        for i, sentence in enumerate(slots.sentence.tolist()):
            seen[sentence].append(prefix(steps, slots, i, options.length_penalty))

    return seen, search(model, batch, options, watch=watch)


@pytest.fixture
def eager(model: Seq2Seq) -> Seq2Seq:
    """A model that ends its outputs at different times."""
    with torch.no_grad():
        model.readout.output.bias[END] += 0.5
    return model


def test_greedy_search_shows_one_token_more_at_every_step(eager: Seq2Seq, batch: Batch) -> None:
    seen, found = watched(eager, batch, Options(max_length=9))
    for prefixes, [best] in zip(seen, found, strict=True):
        assert [p.ids for p in prefixes] == [best.ids[: t + 1] for t in range(len(best.ids))]


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_last_prefix_that_a_beam_shows_is_its_answer(eager: Seq2Seq, batch: Batch, length_penalty: float) -> None:
    options = Options(beam=3, max_length=9, length_penalty=length_penalty, record=True)
    seen, found = watched(eager, batch, options)
    for prefixes, [best], length in zip(seen, found, batch.source_lengths.tolist(), strict=True):
        assert prefixes[-1].ids == best.ids
        assert best.record is not None and prefixes[-1].alignment is not None
        np.testing.assert_allclose(prefixes[-1].alignment[:, :length], best.record["alignment"])
        if "switch" in best.record:
            np.testing.assert_array_equal(prefixes[-1].switch, best.record["switch"])


def test_since_counts_what_still_holds() -> None:
    assert Prefix((4, 5, 6)).since((4, 5)) == 2
    assert Prefix((4, 7)).since((4, 5, 6)) == 1
    assert Prefix((4,)).since(()) == 0
