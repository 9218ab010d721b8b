"""Sets held out of the training pairs: which pairs, that training keeps none of them, and what cannot be done."""

import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pag.cli import app
from pag.data.prepared import Prepared
from pag.errors import DataError
from pag.prepare.holding import hold_out
from pag.prepare.reading import Corpus, Pairs
from pag.prepare.settings import PrepareSettings

LINES = [f"line number {n}\tZeile Nummer {n}" for n in range(100)]
UNUSABLE = [f"nothing {n}\t" for n in range(100)]


def held(folder: Path, lines: list[str], **sizes: int) -> dict[str, list[tuple[int, str]]]:
    """Each set's lines with their numbers."""
    (folder / "pairs.tsv").write_text("".join(f"{line}\n" for line in lines))
    sets = hold_out(
        {"train": Pairs([folder / "pairs.tsv"])}, PrepareSettings(hold_out=sizes), lambda pairs, share: None
    )
    return {split: numbered(corpus) for split, corpus in sets.items()}


def numbered(corpus: Corpus) -> list[tuple[int, str]]:
    return [
        (line, f"{source.decode()}\t{target.decode()}")
        for block in corpus.blocks()
        for line, source, target in zip(block.lines, block.source, block.target, strict=True)
    ]


def test_every_pair_is_in_one_set_under_its_own_number(tmp_path: Path) -> None:
    sets = held(tmp_path, LINES, valid=20, test=10)
    assert {split: len(pairs) for split, pairs in sets.items()} == {"train": 70, "valid": 20, "test": 10}
    assert sorted(pair for pairs in sets.values() for pair in pairs) == list(enumerate(LINES, 1))
    assert all(pairs == sorted(pairs) for pairs in sets.values())  # as in the text


def test_the_choice_does_not_hang_on_the_order_nor_on_the_next_set(tmp_path: Path) -> None:
    sets, mixed = held(tmp_path, LINES, valid=20, test=10), random.Random(1).sample(LINES, len(LINES))
    again = held(tmp_path, mixed, valid=20)
    assert {line for _, line in again["valid"]} == {line for _, line in sets["valid"]}
    assert again["valid"] != sets["valid"]


def test_training_keeps_no_source_that_is_held_out(tmp_path: Path) -> None:
    other = [" " + line.replace("Zeile", "Reihe") for line in LINES]
    sets = held(tmp_path, [*LINES, *other], valid=20)
    sources = {split: [line.split("\t")[0].strip() for _, line in pairs] for split, pairs in sets.items()}
    assert len(sources["train"]) == 160 and not set(sources["train"]) & set(sources["valid"])
    assert all("Zeile" in line for _, line in sets["valid"])  # the first of two with one source


def test_pairs_of_several_files_know_theirs_and_each_pass_is_told_from_its_start(tmp_path: Path) -> None:
    halves = {"a.tsv": LINES[:50], "b.tsv": LINES[50:]}
    for name, lines in halves.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    corpus, shares = Pairs([tmp_path / name for name in halves]), []
    sets = hold_out(
        {"train": corpus}, PrepareSettings(hold_out={"valid": 40}), lambda pairs, share: shares.append(share)
    )
    for held_or_not in sets.values():
        for block in held_or_not.blocks():
            shares.append(held_or_not.read / corpus.size)
            found = [f"{a.decode()}\t{b.decode()}" for a, b in zip(block.source, block.target, strict=True)]
            assert found == [halves[block.name][line - 1] for line in block.lines]
    assert max(shares) == 1


def test_a_pair_that_training_would_drop_is_not_held_out(tmp_path: Path) -> None:
    sets = held(tmp_path, [*UNUSABLE, *LINES], valid=50)
    assert all(line in LINES for _, line in sets["valid"])
    with pytest.raises(DataError, match="cannot hold out 101 pairs: of 200 training pairs only 100 can be used"):
        held(tmp_path, [*UNUSABLE, *LINES], valid=101)


def test_from_one_file_to_a_prepared_folder(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\n" for line in LINES))
    words = ["prepare", "translation", tmp_path / "out", "--train-pairs", tmp_path / "pairs.tsv"]
    options = ["--hold-out", "valid=15", "--hold-out", "test=5", "--subwords", 40, "--workers", 1]
    done = CliRunner().invoke(app, [str(word) for word in [*words, *options]])
    assert done.exit_code == 0, done.output
    assert "train: 80 pairs kept of 80\n" in done.output
    assert "valid: 15 pairs kept of 15, held out of the training pairs" in done.output
    assert "  0 training pairs have a source that is also in valid" in done.output
    data = Prepared(tmp_path / "out")
    assert data.splits == ("train", "valid", "test") and len(data.examples("test")) == 5


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("--hold-out valid", "--hold-out valid: expected NAME=PAIRS, as in valid=2000"),
        ("--hold-out valid=0", "--hold-out valid=0: expected"),
        ("--hold-out train=5", "--hold-out train=5: expected"),
        ("--hold-out valid=5 --hold-out valid=6", "--hold-out valid=6: expected"),
        (
            "--hold-out test=5",
            "the set 'valid' is missing: give --valid-source and --valid-target, or --valid-pairs, or --hold-out",
        ),
        ("--hold-out valid=5 --valid-pairs a", "the set 'valid' is given, and to be held out too"),
        ("--hold-out valid=5 --train-pairs -", "reads the training pairs twice, but standard input (-) is read once"),
    ],
)
def test_what_cannot_be_held_out_is_one_line(
    asked: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("one\teins\n")
    done = CliRunner().invoke(app, ["prepare", "translation", "out", "--train-pairs", "a", *asked.split()])
    assert isinstance(done.exception, DataError) and told in str(done.exception)
    assert not Path("out").exists()
