"""Embeddings that start from word vectors in a text file."""

import gzip
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

from pag.config import build_recipe
from pag.errors import DataError
from pag.model import Seq2Seq
from pag.run import Machine, train_run
from pag.text.vocabulary import Vocabulary
from pag.vectors import fill

WORDS = Vocabulary.of(["cat", "dog", "Zorro"])
LINES = "cat 1 0 0\nthe 9 9 9\ndog 0 -2 0.5\n"


def table() -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(len(WORDS), 3)


@pytest.mark.parametrize(
    "text", [LINES, f"\ufeff{LINES}", f"3 3\n{LINES}", LINES.replace("\n", " \n"), f"{LINES}. . . 1 2 3\n"]
)
def test_words_of_the_file_get_its_vectors_and_the_others_their_length(tmp_path: Path, text: str) -> None:
    (tmp_path / "vectors.txt.gz").write_bytes(gzip.compress(text.encode()))
    filled, random = table(), table()
    assert fill([(filled, WORDS)], tmp_path / "vectors.txt.gz") == [2]
    assert filled.weight[WORDS.ids["cat"]].tolist() == [1, 0, 0]
    assert filled.weight[WORDS.ids["dog"]].tolist() == [0, -2, 0.5]
    rows = [0, 1, 2, WORDS.ids["Zorro"]]
    ratio = filled.weight[rows] / random.weight[rows]
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(ratio[0, 0].detach())))
    lengths = torch.tensor([1.0, (4 + 0.25) ** 0.5])
    torch.testing.assert_close((random.weight * ratio[0, 0]).norm(dim=1).mean(), lengths.mean())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cat 1 0 0 0\n", "line 1: 4 numbers, but model.embedding is 3"),
        ("4 4\ncat 1 0 0 0\n", "line 2: 4 numbers, but model.embedding is 3"),
        ("the 1 0 0\ncat 1 0\n", "line 2: 2 numbers, but model.embedding is 3"),
        ("cat 1 0\n", "line 1: 2 numbers, but model.embedding is 3"),
        ("the 1 0 0\ncat 1 x 0\n", "line 2: not a word and its numbers"),
        ("cat 1 nan 0\n", "line 1: a number is not finite"),
        ("the 1 0 0\n", "has a vector for none of the 3 words"),
    ],
)
def test_a_file_that_does_not_fit_says_where(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "vectors.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        fill([(table(), WORDS)], tmp_path / "vectors.txt")


def test_a_run_starts_from_the_vectors_and_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vectors.txt").write_text("1 0.5 -0.5 0.25 2\n")
    values = {
        "task": {"name": "euler", "nodes": 5, "distractors": 0, "train": 2, "valid": 1, "test": 1, "seed": 3},
        "model": {"embedding": 4, "encoder": 4, "decoder": 4, "vectors": str(tmp_path / "vectors.txt")},
        "attention": {"name": "baseline"},
        "train": {"max_updates": 1, "lr": 1e-9, "validate_every": 1},
    }
    models: list[Seq2Seq] = []
    monkeypatch.setattr("pag.run.Seq2Seq", lambda *given: models.append(Seq2Seq(*given)) or models[-1])
    for updates in (1, 2):
        values["train"]["max_updates"] = updates
        train_run(build_recipe(values, "test"), tmp_path / "run", "auto", Machine("cpu"), Console(quiet=True))
        (tmp_path / "vectors.txt").write_text("1 9 9 9 9\n")
        for embedding in (models[-1].encoder.embedding, models[-1].embedding):
            assert any(torch.allclose(row, torch.tensor([0.5, -0.5, 0.25, 2.0]), atol=1e-6) for row in embedding.weight)
