"""A new attention is one file and one line in the registry."""

import textwrap
from pathlib import Path

import pytest
import torch

from pag.errors import RecipeError
from pag.registry import ATTENTIONS
from small import SYMBOLS, model, recipe, sentences

LAST = '''
from pag.attention.base import Attention, Glimpse, attend
from pag.attention.baseline import Nothing


class LastAttention(Attention):
    """Looks at the end-of-source position, always."""

    def start(self, memory):
        return Nothing()

    def step(self, query, memory, state, noise=None, held=False):
        last = memory.mask.sum(1) - 1
        alignment = torch.nn.functional.one_hot(last, memory.mask.shape[1]).to(memory.annotations.dtype)
        return Glimpse(alignment, attend(alignment, memory)), state
'''


def test_a_new_attention_is_one_file_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "last_attention.py").write_text("import torch\n" + textwrap.dedent(LAST))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ATTENTIONS, "last", "last_attention:LastAttention")
    built, batch = model("last"), sentences((4, 3), (2, 2))
    forward = built(batch)
    assert forward.log_probs.shape == (2, 3, SYMBOLS)
    assert forward.trace.glimpses.alignment[:, 0].tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]
    memory, state = built.begin(batch)
    log_probs, _, _ = built.step(torch.tensor([-1, -1]), memory, state)
    torch.testing.assert_close(log_probs, forward.log_probs[:, 0])


def test_a_name_that_is_not_registered_is_refused_with_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"unknown attention 'pagg'.*did you mean 'pag' or 'rpag'"):
        recipe("pagg")
