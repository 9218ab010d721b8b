"""The command line as a user meets it: real processes, what they print, and how they fail."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pag
from pag.cli import app
from pag.config import recipe_names
from pag.registry import ATTENTIONS

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def call(*arguments: str | Path, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pag", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=120, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done


def refused(*arguments: str | Path, stdin: bytes = b"") -> str:
    """The one line with which a command fails."""
    lines = call(*arguments, stdin=stdin, code=2).stderr.decode().strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0]


def graphs(run: Path) -> list[str]:
    return list(pag.load(str(run)).task.inputs("test"))


def commands() -> list[list[str]]:
    plain = [c.name or c.callback.__name__ for c in app.registered_commands if c.callback]
    nested = [[g.name or "", c.name or ""] for g in app.registered_groups for c in g.typer_instance.registered_commands]
    return [[name] for name in plain] + nested


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_commands_help_has_an_example(command: list[str]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert f"Example: pag {' '.join(command)}" in " ".join(shown.output.split())


def test_help_answers_without_importing_torch() -> None:
    code = "import sys; sys.argv = ['pag', '--help']\nfrom pag.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    done = subprocess.run([sys.executable, "-c", code + "sys.exit('torch' in sys.modules)"], capture_output=True)
    assert done.returncode == 0
    assert b"Usage" in done.stdout


def test_the_version_is_told() -> None:
    assert re.fullmatch(rb"pag \d+\.\d+\.\d+\n", call("--version").stdout)


def test_a_module_of_the_users_own_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the folder the command runs in, where the installed command does not look by itself."""
    monkeypatch.chdir(tmp_path)
    line = 'ATTENTIONS["located"] = "pag.attention.baseline:BaselineAttention"\n'
    (tmp_path / "mine.py").write_text(f"from pag.registry import ATTENTIONS\n{line}")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    monkeypatch.setitem(ATTENTIONS, "located", "")  # taken back in the end
    monkeypatch.setenv("PAG_IMPORT", "")
    arguments = ["check", "quickstart", "--set", "attention.name=located"]
    assert CliRunner().invoke(app, ["--import", "mine", *arguments], catch_exceptions=False).exit_code == 0
    assert os.environ["PAG_IMPORT"] == "mine"
    assert re.search(r"unknown attention 'located' \(known: .*\); .* `pag --import MODULE`", refused(*arguments))
    assert "--import nobody: no such module" in refused("--import", "nobody", *arguments)


def test_recipes_are_listed_with_one_line_each() -> None:
    lines = CliRunner().invoke(app, ["recipes"]).output.splitlines()
    assert len(lines) == len(recipe_names())
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


@pytest.mark.parametrize("name", sorted(recipe_names()))
def test_every_recipe_reads(name: str) -> None:
    from pag.config import read_recipe

    assert read_recipe(name).description


def test_check_prints_the_resolved_recipe_and_its_parameters(tmp_path: Path) -> None:
    shown = call("check", "quickstart", "--set", "attention.k=4").stdout.decode()
    assert "\nk = 4\n" in shown
    assert shown.rstrip().endswith(" parameters")
    (tmp_path / "again.toml").write_text(shown)
    assert call("check", tmp_path / "again.toml").stdout.decode() == shown


def test_bad_recipes_are_refused_in_one_line_with_every_error(tmp_path: Path) -> None:
    assert "did you mean 'quickstart'" in refused("check", "quikstart")
    line = refused("check", "quickstart", "--set", "attention.kk=1", "--set", "train.lr=-1", "--set", "tran.x=1")
    for part in (
        "'attention.kk' (did you mean 'k'",
        "'train.lr' should be greater than 0",
        "'tran' (did you mean 'train'",
    ):
        assert part in line
    (tmp_path / "bad.toml").write_text("[task\n")
    assert "bad.toml: not a TOML file" in refused("check", tmp_path / "bad.toml")
    assert "expected section.key=value" in refused("check", "quickstart", "--set", "k5")


def test_a_missing_or_damaged_run_is_refused(tmp_path: Path) -> None:
    assert "no run or checkpoint folder at" in refused("generate", tmp_path / "nowhere")
    assert "holds no checkpoint yet" in refused("evaluate", tmp_path)


def test_generate_gives_one_line_per_line_and_keeps_going(run: Path) -> None:
    """A byte-order mark, an empty line, an unknown symbol, invalid UTF-8, Windows line ends, no newline at the end."""
    good = graphs(run)[:2]
    lines = [
        f"\ufeff{good[0]}".encode(),
        b"",
        b"1 connected-to nowhere",
        b"\xff\xfe",
        good[1].encode() + b"\r",
        good[0].encode(),
    ]
    done = call("generate", run, stdin=b"\n".join(lines), code=2)
    outputs = done.stdout.decode().split("\n")
    assert len(outputs) == 7
    assert outputs[6] == ""
    assert outputs[1] == outputs[2] == outputs[3] == ""
    assert outputs[0] == outputs[5]
    assert outputs[0] and outputs[4]
    errors = done.stderr.decode().splitlines()
    assert errors[0].startswith("error: line 3: symbol 3, 'nowhere', is not in the vocabulary")
    assert errors[1].startswith("error: line 4: not UTF-8 (byte 1 is 0xff)")
    assert len(errors) == 2


def test_generate_reads_packed_files_and_no_byte_order_mark(run: Path, tmp_path: Path) -> None:
    lines = "\n".join(graphs(run)[:2]).encode()
    (tmp_path / "graphs.gz").write_bytes(gzip.compress("\ufeff".encode() + lines))
    assert call("generate", run, tmp_path / "graphs.gz").stdout == call("generate", run, stdin=lines).stdout
    (tmp_path / "graphs.gz").write_bytes(gzip.compress(lines)[:-9])
    assert "graphs.gz is damaged or cut short" in refused("generate", run, tmp_path / "graphs.gz")


def test_generate_cuts_a_line_that_is_too_long_and_says_so(run: Path) -> None:
    done = call("generate", run, "--max-length", "3", stdin=b"1 " * 1200)
    assert "warning: line 1: 1201 tokens are more than generate.max_source = 1000: cut" in done.stderr.decode()
    assert len(done.stdout.decode().splitlines()) == 1


def test_generate_writes_files_and_records(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "graphs.txt"
    source.write_text("\n".join([*graphs(run)[:3], ""]) + "\n")
    for name in ("r.npz", "r.jsonl", "r.pharaoh"):
        call("generate", run, source, "--out", tmp_path / "out.txt", "--beam", "3", "--save", tmp_path / name)
    texts = (tmp_path / "out.txt").read_text().splitlines()
    assert len(texts) == 4
    records = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [record["text"] for record in records] == texts
    arrays = np.load(tmp_path / "r.npz")
    np.testing.assert_allclose(arrays["2.0.alignment"], records[2]["outputs"][0]["alignment"], atol=1e-5)
    assert arrays["0.0.plan"].shape[1] == 3
    assert {"0.0.switch", "0.0.commitment", "0.0.gate", "0.0.tokens"} <= set(arrays.files)
    pairs = (tmp_path / "r.pharaoh").read_text().splitlines()
    assert [len(line.split()) for line in pairs] == [len(text.split()) for text in texts]
    assert not list(tmp_path.glob("*.unfinished"))


def test_generate_prints_n_best_lists_as_json(run: Path) -> None:
    shown = call("generate", run, "--beam", "4", "--n-best", "3", stdin=graphs(run)[0].encode()).stdout
    outputs = json.loads(shown)["outputs"]
    assert len({output["text"] for output in outputs}) == 3
    assert [o["score"] for o in outputs] == sorted((o["score"] for o in outputs), reverse=True)


def test_generate_samples_what_its_seed_says(run: Path) -> None:
    def sample(seed: int) -> bytes:
        return call("generate", run, "--sample", "--seed", str(seed), stdin="\n".join(graphs(run)).encode()).stdout

    assert sample(1) == sample(1) != sample(2)


def test_generate_refuses_what_it_cannot_read_or_write(run: Path, tmp_path: Path) -> None:
    assert "cannot read" in refused("generate", run, tmp_path / "missing.txt")
    assert "must end in .jsonl, .npz or .pharaoh" in refused("generate", run, "--save", tmp_path / "x.txt")
    (tmp_path / "file").touch()
    assert "cannot write" in refused("generate", run, "--out", tmp_path / "file" / "x", stdin=b"1")


def test_a_pipe_or_a_link_is_written_to_and_never_replaced(run: Path, tmp_path: Path) -> None:
    """As root, `--out /dev/null` would otherwise make a file of it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("pipe", "link"):
        call("generate", run, "--out", tmp_path / name, stdin=graphs(run)[0].encode())
    assert os.read(reader, 1000) == (tmp_path / "file").read_bytes() != b""
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "pipe"]


@pytest.mark.parametrize("arguments", [["recipes"], ["check", "quickstart"]], ids=" ".join)
def test_a_full_disk_behind_standard_output_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "pag", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert done.stderr == b"error: no space left on the disk\n"


def test_score_prints_one_log_probability_per_line(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("\n".join(graphs(run)[:3]))
    (tmp_path / "out").write_text("1 2 3 1\n2 3 4 2\n3 4 5 3\n")
    shown = call("score", run, tmp_path / "in", tmp_path / "out").stdout.decode().split()
    assert all(float(value) < 0 for value in shown)
    assert len(shown) == 3
    tokens = [
        json.loads(s) for s in call("score", run, tmp_path / "in", tmp_path / "out", "--json").stdout.splitlines()
    ]
    assert sum(tokens[0]["log_probs"]) == pytest.approx(float(shown[0]), abs=1e-5)
    (tmp_path / "out").write_text("1 2 3 1\n")
    assert "3 inputs but 1 outputs" in refused("score", run, tmp_path / "in", tmp_path / "out")


def test_evaluate_prints_every_score(run: Path) -> None:
    found = json.loads(call("evaluate", run, "--json", "--beam", "2", "--limit", "5").stdout)
    assert {"exact", "valid", "sorted", "token", "loss", "perplexity", "replan_rate", "entropy", "jump"} <= found.keys()
    assert found["examples"] == 5
    assert "unknown split 'tset' (did you mean 'test'" in refused("evaluate", run, "--split", "tset")


def test_pictures_are_drawn_and_their_place_is_printed(run: Path, tmp_path: Path) -> None:
    for kind, more in [("alignments", ["--number", "2"]), ("plan", []), ("curves", []), ("mechanism", [])]:
        place = tmp_path / f"{kind}.png"
        about = [] if kind == "mechanism" else [run]
        assert call("plot", kind, *about, *more, "--out", place).stdout.decode().strip() == str(place)
        assert place.read_bytes().startswith(b"\x89PNG")
    assert "no validation metric 'exct' (did you mean 'exact'" in refused("plot", "curves", run, "--metric", "exct")


def test_plot_refuses_what_it_cannot_draw_or_write(run: Path, tmp_path: Path) -> None:
    assert "unknown split 'tset' (did you mean 'test'" in refused("plot", "plan", run, "--split", "tset")
    assert "pictures are .png, .svg or .pdf, not .docx" in refused("plot", "plan", run, "--out", tmp_path / "p.docx")
    (tmp_path / "file").touch()
    assert "cannot write" in refused("plot", "plan", run, "--out", tmp_path / "file" / "p.png")
    (tmp_path / "p.png.unfinished").symlink_to("/dev/full")
    assert "p.png: no space left on device" in refused("plot", "plan", run, "--out", tmp_path / "p.png")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_sigterm_saves_and_stops_and_the_same_command_goes_on(tmp_path: Path) -> None:
    sizes = [
        "model.embedding=8",
        "model.encoder=12",
        "model.decoder=12",
        "task.train=60",
        "task.valid=5",
        "task.test=5",
    ]
    command = ["train", "quickstart", "--out", str(tmp_path), "--accelerator", "cpu"]
    command += [part for setting in sizes for part in ("--set", setting)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pag", *command, "--set", "train.max_updates=100000"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
    )
    while not (tmp_path / "log.jsonl").exists() or '"train"' not in (tmp_path / "log.jsonl").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said.decode()
    assert b"stopped; the same command goes on from here" in said
    saved = int((tmp_path / "checkpoints" / "last").resolve().name)
    assert saved > 0
    said = call(*command, "--set", f"train.max_updates={saved + 1}").stderr
    assert f"resumed at update {saved} of {saved + 1}".encode() in said
