"""The two commands, called as a user would."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pag.data.prepared import Prepared
from pag.fetch import COLLECTIONS, Archive, Collection, Text
from pag.prepare.cli import fetch, translation

app = typer.Typer()
app.command()(translation)
app.command()(fetch)


def call(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_folder_is_prepared_from_files(tmp_path: Path) -> None:
    for name in ("a.en", "a.de", "b.en", "b.de"):
        (tmp_path / name).write_text(f"one two {name}\n" * 3)
    files = {name: tmp_path / name for name in ("a.en", "a.de", "b.en", "b.de")}
    options = [
        *("--train-source", files["a.en"], "--train-source", files["b.en"]),
        *("--train-target", files["a.de"], "--train-target", files["b.de"]),
        *("--valid-source", files["a.en"], "--valid-target", files["a.de"]),
        *("--also", f"more={files['b.en']},{files['b.de']}", "--subwords", 40, "--workers", 1),
    ]
    shown = call("translation", tmp_path / "out", *options)
    assert "train: 6 pairs kept of 6" in shown
    assert Prepared(tmp_path / "out").splits == ("train", "valid", "more")


def test_what_cannot_be_prepared_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("")
    command = [sys.executable, "-m", "pag", "prepare", "translation", "out", "--workers", "1"]
    files = [
        f"--{split}-{side}={name}" for split in ("train", "valid") for side, name in (("source", "a"), ("target", "b"))
    ]
    done = subprocess.run([*command, *files], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: b is empty: expected one sentence a line\n")


def test_fetching_says_first_what_it_would_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pag.fetch._asked_size", lambda url: None)
    shown = call("fetch", "wmt15/en-cs", "--out", tmp_path, "--dry-run")
    assert "657.6 MB" in shown and "to download at least" in shown and "CzEng" in shown
    assert not list(tmp_path.iterdir())


def test_fetching_ends_with_the_command_that_comes_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("text\n")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        for name in ("a.en", "a.de"):
            tar.add(tmp_path / name, name)
    text = Text(Archive((tmp_path / "a.tgz").as_uri()), "a.en", "a.de", "train.a")
    monkeypatch.setitem(COLLECTIONS, "small", Collection((text,), ("en", "de")))
    shown = call("fetch", "small", "--out", tmp_path / "data")
    assert "pag prepare translation" in shown and "train.a.en" in shown
    assert (tmp_path / "data" / "train.a.de").read_text() == "text\n"


def test_the_commands_and_the_workers_do_without_torch() -> None:
    """Help must be quick, and every worker process would pay for it again."""
    code = "import sys, pag.prepare.cli, pag.prepare.cleaning, pag.prepare.encoding; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
