"""Tables are measured run by run: what fails, stops or was measured before costs nothing else."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pag.cli import app
from pag.config import read_recipe
from pag.errors import DataError, RecipeError
from pag.reproduce import plan as planning
from pag.reproduce.gallery import gallery_section, seen
from pag.reproduce.plan import Asked, Job, plan
from pag.reproduce.results import Results, add_run, read_results
from pag.reproduce.run import Runner
from pag.reproduce.tables import read_table, table_names, tables_called

CALL = Runner._call

TABLE = """
title = "A small table"
about = "Nothing much."
metric = "exact"
label = "exact circuits"
percent = true
seeds = 2

[[cells]]
name = "{model}, k {k}"
recipe = "euler/{model}"
set = ["attention.k={k}"]
over = { model = ["pag", "rpag"], k = [2, 4] }
paper = { test = 90.0 }
"""


class Desk:
    """A folder with a table, and the command that measures it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        (folder / "small.toml").write_text(TABLE)

    def change(self, before: str, after: str) -> None:
        text = (self.folder / "small.toml").read_text()
        assert before in text
        (self.folder / "small.toml").write_text(text.replace(before, after))

    def arguments(self, *more: str) -> list[str]:
        f = self.folder
        places = ["--runs", f"{f}/runs", "--results", f"{f}/results", "--figures", f"{f}/figures", "--commit", "abc"]
        return ["reproduce", f"{f}/small.toml", *places, *more]

    def reproduce(self, *more: str) -> Any:
        return CliRunner().invoke(app, self.arguments(*more))

    @property
    def cells(self) -> dict[str, Any]:
        return json.loads((self.folder / "results" / "small.json").read_text())["cells"]

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def quick(self: Runner, command: list[str], stdout: Any, stderr: Any, job: Job) -> str:
    """In place of a call of `pag`: trains in no time, scores by the seed."""
    folder = job.folder
    with (folder.parents[3] / "calls").open("a") as calls:
        calls.write(" ".join(command) + "\n")
    if "evaluate" in command:
        return json.dumps({"exact": 0.5 + job.seed / 10, "replan_rate": 0.25})
    facts = {"reason": "finished", "update": 7, "seconds": 2.0, "parameters": 10, "torch": "0", "device": "none"}
    (folder / "summary.json").write_text(json.dumps({**facts, "recipe": job.recipe.model_dump(mode="json")}))
    events = [
        {"kind": "train", "update": 5, "updates_per_second": 3.0},
        {"kind": "valid", "update": 7, "loss": 1.5, "samples": ["long"]},
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return ""


SLOW = (sys.executable, str(Path(__file__).parent / "slow_pag.py"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(Runner, "_call", quick)
    return Desk(tmp_path)


def test_every_run_is_stored_with_what_it_takes_to_repeat_it(desk: Desk) -> None:
    assert desk.reproduce("--jobs", "4", "--only", "pag").exit_code == 0
    assert {name: [run["seed"] for run in runs] for name, runs in desk.cells.items()} == {
        "pag, k 2": [0, 1],
        "pag, k 4": [0, 1],
    }
    run = desk.cells["pag, k 4"][1]
    assert run["summary"]["recipe"]["attention"]["k"] == 4 and run["summary"]["recipe"]["train"]["seed"] == 1
    assert run["scores"]["test"]["exact"] == 0.6 and run["commit"] == "abc" and run["over"] == {"model": "pag", "k": 4}
    assert run["curve"] == [{"update": 7, "loss": 1.5}]  # without the samples
    assert run["seconds"]["train"] == 2.0 and run["updates_per_second"] == 3.0 and len(run["data"]["sha256"]) == 64
    assert (desk.folder / "figures" / "small-curves.png").is_file()


def test_a_row_may_have_fewer_runs_than_its_table(desk: Desk) -> None:
    desk.change("paper = ", "seeds = 1\npaper = ")
    assert desk.reproduce("--jobs", "4").exit_code == 0
    assert {run["seed"] for runs in desk.cells.values() for run in runs} == {0}
    assert desk.reproduce("--seeds", "2", "--only", "rpag, k 2").exit_code == 0  # who asks for more gets more
    assert [run["seed"] for run in desk.cells["rpag, k 2"]] == [0, 1]


def test_what_was_measured_is_not_measured_again(desk: Desk) -> None:
    desk.reproduce("--seeds", "1", "--only", "rpag, k 2")
    before = len(desk.called)
    shutil.rmtree(desk.folder / "runs")  # the results file alone says so
    assert desk.reproduce("--seeds", "1", "--only", "rpag, k 2").exit_code == 0 and len(desk.called) == before
    desk.reproduce("--seeds", "2", "--only", "rpag, k 2")
    assert [run["seed"] for run in desk.cells["rpag, k 2"]] == [0, 1] and len(desk.called) == before + 2
    desk.reproduce("--seeds", "1", "--only", "rpag, k 2", "--set", "train.lr=0.5")  # another recipe is another run
    assert [run["summary"]["recipe"]["train"]["lr"] for run in desk.cells["rpag, k 2"]] == [0.5, 0.0002]
    desk.reproduce("--seeds", "1", "--only", "rpag, k 2", "--set", "train.lr=0.5", "--again")
    assert "1 runs to do" in desk.reproduce("--seeds", "1", "--only", "rpag, k 2").output


def test_a_run_that_fails_does_not_take_the_others_with_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.change("k = [2, 4]", "k = [3, 4]")
    monkeypatch.setattr(planning, "PAG", SLOW)

    def call(self: Runner, *arguments: Any) -> str:
        return (CALL if arguments[-1].recipe.attention.k == 3 else quick)(self, *arguments)

    monkeypatch.setattr(Runner, "_call", call)
    done = desk.reproduce("--seeds", "1", "--jobs", "2")
    assert done.exit_code == 1 and set(desk.cells) == {"pag, k 4", "rpag, k 4"}
    assert "pag, k 3, seed 0: failed: error: this one cannot be trained (exit code 1" in done.output


def test_a_run_that_was_trained_is_only_scored(desk: Desk) -> None:
    """As after a kill between training and the results file."""
    desk.reproduce("--seeds", "1", "--only", "pag, k 2")
    (desk.folder / "results" / "small.json").unlink()
    shutil.rmtree(desk.folder / "runs" / "small" / "pag-k-2" / "seed-0" / "scores")
    desk.reproduce("--seeds", "1", "--only", "pag, k 2")
    assert ["evaluate" in call for call in desk.called] == [False, True, True]
    assert len(desk.cells["pag, k 2"]) == 1


def test_a_dry_run_prints_commands_that_can_be_typed_and_runs_none(desk: Desk) -> None:
    output = desk.reproduce("--dry-run", "--seeds", "1", "--only", "rpag, k 4").output
    folder = f"{desk.folder}/runs/small/rpag-k-4/seed-0"
    assert f"pag train euler/rpag --out {folder} --set attention.k=4 --set train.seed=0" in output
    assert f"pag evaluate {folder} --json --split test" in output and not desk.called
    desk.change("percent = true", 'percent = true\nevaluate = [{ checkpoint = "last" }]')
    output = desk.reproduce("--dry-run", "--seeds", "1", "--only", "rpag, k 4").output
    assert f"pag evaluate {folder}/checkpoints/last --json" in output


def test_what_a_run_cost_is_what_the_next_is_estimated_at(desk: Desk) -> None:
    assert "the cost of 2 is not known yet" in desk.reproduce("--dry-run", "--only", "pag, k 2").output
    desk.reproduce("--seeds", "1", "--only", "pag, k 2")
    path = desk.folder / "results" / "small.json"
    run = desk.cells["pag, k 2"][0]
    add_run(path, "small", "pag, k 2", {**run, "seconds": {"train": 600.0, "other": 60.0}})
    assert "1 of them estimated at 11 minutes" in desk.reproduce("--dry-run", "--only", "pag, k 2").output


def test_a_table_whose_time_is_up_can_go_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "PAG", SLOW)
    monkeypatch.setattr(Runner, "_call", CALL)
    done = desk.reproduce("--seeds", "1", "--only", "pag", "--minutes", "0.01")
    assert done.exit_code == 0 and "2 runs are left: the same command goes on" in done.output
    monkeypatch.setattr(Runner, "_call", quick)
    assert desk.reproduce("--seeds", "1", "--only", "pag").exit_code == 0 and len(desk.cells) == 2


def test_a_table_that_is_told_to_stop_tells_its_runs(desk: Desk) -> None:
    script = f"from pag.reproduce import plan; plan.PAG = {SLOW!r}; from pag.cli import main; main()"
    command = [sys.executable, "-c", script, *desk.arguments("--seeds", "1", "--only", "pag")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not list(desk.folder.glob("runs/small/*/*/began")):
        assert child.poll() is None
        time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    output, _ = child.communicate(timeout=50)
    assert "2 runs are left" in output and child.returncode == 128 + signal.SIGTERM


def test_the_data_a_table_needs_is_asked_for_with_the_command_that_makes_it(desk: Desk) -> None:
    table = read_table("multi30k")
    jobs = plan(
        table, Asked(1, ["en-cs, pag"], data={"multi30k-cs": str(desk.folder / "nowhere")}), Results({}), desk.folder
    )
    with pytest.raises(DataError, match=r"no prepared data at .*nowhere \(make it: pag prepare translation"):
        planning.check_data(table, jobs)
    unknown = CliRunner().invoke(app, ["reproduce", "multi30k", "--data", "multi30k-fi=x", "--dry-run"])
    assert "this table's data is multi30k-de, multi30k-cs" in str(unknown.exception)
    assert "expected NAME=FOLDER" in str(desk.reproduce("--data", "here").exception)


def test_results_do_not_tell_where_the_data_lay(desk: Desk) -> None:
    table = read_table("multi30k")
    [job] = plan(table, Asked(1, ["en-cs, pag"], data={"multi30k-cs": "/some/where"}), Results({}), desk.folder)
    recipe = job.recipe.model_dump(mode="json")
    assert recipe["task"]["data"] == "/some/where" and job.public(recipe)["task"]["data"] == "multi30k-cs"
    run = {"seed": 0, "scores": {"test_2016_flickr": {}}, "summary": {"recipe": job.public(recipe)}}
    [elsewhere] = plan(table, Asked(1, ["en-cs, pag"], data={"multi30k-cs": "other"}), Results({}), desk.folder)
    assert elsewhere.measured(run)  # the same measurement, wherever its data lies


def test_a_word_that_is_no_table_or_row_is_told(desk: Desk) -> None:
    with pytest.raises(RecipeError, match=r"unknown table 'eular' .did you mean 'euler'"):
        read_table("eular")
    assert "no row's name begins so" in str(desk.reproduce("--only", "bag").exception)
    (desk.folder / "results").mkdir()
    (desk.folder / "results" / "small.json").write_text('{"runs": {}}')
    assert "is not a results file" in str(desk.reproduce().exception)


def test_what_several_tables_begin_with_is_all_of_them() -> None:
    assert list(tables_called("wmt15")) == ["wmt15-cs", "wmt15-de", "wmt15-fi"]
    assert list(tables_called("planning")) == ["planning"]  # a table's own name means that one
    words = ["reproduce", "wmt15", "--only", "rpag", "--data", "wmt15-fi=elsewhere", "--dry-run"]
    printed = CliRunner().invoke(app, words).output
    assert [printed.count(f"translation/wmt15-{to}/rpag --out") for to in ("cs", "de", "fi")] == [1, 2, 1]
    assert "task.data=elsewhere" in printed and "task.data=data/wmt15-cs" in printed


def test_a_measured_table_is_printed(desk: Desk) -> None:
    printed = desk.reproduce("--only", "pag").output
    assert "| pag, k 2 | 90.0 % | 55.0 ± 7.1 % | 0.25 ± 0.00 | 10 | 2 |" in printed
    assert "| rpag, k 2 | 90.0 % | — | — | — | 0 |" in printed


def test_pictures_are_drawn_from_results_files_alone(tmp_path: Path) -> None:
    def figures() -> str:
        places = ["--results", str(tmp_path / "results"), "--figures", str(tmp_path / "figures")]
        return CliRunner().invoke(app, ["reproduce", "figures", *places]).output

    assert "no results in" in figures()
    run = {"seed": 0, "scores": {"test": {"exact": 1.0}}, "curve": [{"update": 1, "loss": 2.0}]}
    add_run(tmp_path / "results" / "euler.json", "euler", "pag", run)
    seen_at = {"source": ["x"], "tokens": ["y"], "alignment": ["1000"], "switch": [1]}
    told = json.dumps({"rows": [{"looks": {"pag": seen_at}}]})
    (tmp_path / "results" / "multi30k-gallery.json").write_text(told)
    names = [Path(line).name for line in figures().split()]
    assert names == ["euler-curves.png", "multi30k-alignments-1.png"]
    assert all((tmp_path / "figures" / name).read_bytes().startswith(b"\x89PNG") for name in names)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("metric =", "metrik =", r"'metric': field required; unknown key 'metrik' \(did you mean 'metric'"),
        ("set =", "sett =", r"unknown key 'cells\.0\.sett' \(did you mean 'set'"),
        ("k={k}", "k={kk}", r"row '{model}, k {k}': .* among what `over` varies \(model, k\): 'kk'"),
        ('"{model}, k {k}"', '"{model}"', "two rows are called 'pag': a name must hold all that `over` varies"),
        ("seeds = 2", "seeds = two", "not a TOML file"),
    ],
)
def test_what_is_wrong_with_a_table_of_ones_own_is_told(desk: Desk, before: str, after: str, told: str) -> None:
    desk.change(before, after)
    with pytest.raises(RecipeError, match=rf"small\.toml: .*{told}"):
        read_table(f"{desk.folder}/small.toml")


def test_time_that_runs_share_is_counted_once() -> None:
    def run(start: float, end: float) -> dict[str, Any]:
        return {"seed": 0, "finished": end, "seconds": {"train": end - start - 1, "other": 1}}

    results = Results({"a": [run(0, 60), run(30, 90)], "b": [run(120, 180), run(130, 140)]})
    assert results.minutes() == pytest.approx(2.5)


def test_runs_added_from_two_places_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "t.json"
    for seed in (3, 1, 1):
        add_run(path, "t", "a", {"seed": seed, "scores": {}})
    assert [run["seed"] for run in read_results(path).runs("a")] == [1, 3]


@pytest.mark.parametrize("name", table_names())
def test_every_recipe_and_setting_of_a_table_exists(name: str) -> None:
    table = read_table(name)
    assert table.updates_per_second is None or table.updates_per_second > 0
    evaluated = {evaluation.name for evaluation in table.evaluate}
    for cell in table.expanded().values():
        read_recipe(cell.recipe, (*table.set, *cell.settings))
        assert cell.data is None or cell.data in table.data
        assert cell.paper.keys() <= evaluated
    assert table.gallery is None or set(table.gallery.cells) <= table.expanded().keys()
    slugs = [cell.slug for cell in table.expanded().values()]
    assert len(set(slugs)) == len(slugs)


def test_a_whole_table_in_small(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Really trained and scored, beside the price on re-planning as `pag reproduce planning` sets it."""
    monkeypatch.setattr(Runner, "_call", CALL)
    desk.change("seeds = 2", 'seeds = 2\ngallery = { cells = ["rpag, k 2"], split = "test", outputs = 3, seed = 5 }')
    small = {
        "task.train": 40, "task.valid": 4, "task.test": 4, "model.encoder": 4, "model.decoder": 4, "attention.k": 2,
        "attention.hold_updates": 0, "attention.hold_until": "none", "train.max_updates": 2, "train.validate_every": 1,
        "loss.replan_rate": 0.5, "loss.commitment_warmup": 1, "generate.max_length": 9,
    }  # fmt: skip
    overrides = [part for key, value in small.items() for part in ("--set", f"{key}={value}")]
    done = desk.reproduce("--seeds", "1", "--only", "rpag, k 2", *overrides)
    assert done.exit_code == 0, done.output
    [run] = desk.cells["rpag, k 2"]
    assert {"exact", "replan_rate", "jump", "sentences_per_second"} <= run["scores"]["test"].keys()
    assert [point["update"] for point in run["curve"]] == [0, 1, 2] and run["summary"]["update"] == 2
    assert run["summary"]["recipe"]["loss"]["replan_rate"] == 0.5
    shown = gallery_section(
        "small", read_table(f"{desk.folder}/small.toml"), desk.folder / "results", desk.folder / "figures"
    )
    assert shown.count("Where each looked") == 2 and "figures/small-alignments-2.png" in shown
    kept = json.loads((desk.folder / "results" / "small-gallery.json").read_text())["rows"]
    [first, _] = [row["looks"]["rpag, k 2"] for row in kept if "looks" in row]
    assert abs(seen(first).alignment.sum(1) - 1).max() < 0.02
    assert len(first["alignment"]) == len(first["tokens"]) == len(first["switch"])
    assert "3 of the first 100 of test, drawn by seed 5" in shown
    assert "| input | reference | rpag, k 2 |" in shown and shown.count("eulerian-circuit") == 3 + 2
