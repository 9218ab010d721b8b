"""Runs side by side."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pag.cli import app
from pag.compare import as_text, read_run, records, table
from pag.errors import CheckpointError


def run(
    folder: Path, best: int | None = 200, seed: int = 0, exact: tuple[float, ...] = (0.5, 0.9, 0.7), **told: Any
) -> Path:
    """A run folder as training leaves it, validated every 100 updates."""
    recipe = {
        "description": f"run {seed}",
        "task": {"name": "euler", "nodes": 7},
        "attention": {"name": "pag", "k": 10, **told},
        "train": {"monitor": "exact", "seed": seed},
    }
    events: list[dict[str, Any]] = [{"kind": "valid", "update": 0, "loss": 20.0, "perplexity": 9.0}]
    for number, value in enumerate(exact, 1):
        events.append({"kind": "train", "update": 100 * number, "loss": 1.0, "updates_per_second": 4.0})
        scores = {"exact": value, "loss": 1.0 - value, "replan_rate": 1.0, "replan_gaps": [3, 1]}
        events.append({"kind": "valid", "update": 100 * number, **scores})
    (folder / "checkpoints").mkdir(parents=True)
    if best:
        (folder / "checkpoints" / f"{best:08d}").mkdir()
        (folder / "checkpoints" / "best").symlink_to(f"{best:08d}")
        (folder / "summary.json").write_text(json.dumps({"reason": "finished"}))
    (folder / "recipe.json").write_text(json.dumps(recipe))
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


def test_the_best_model_s_validation_unless_the_last_is_asked_for(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    assert read_run(folder).scores == {"exact": 0.9, "loss": pytest.approx(0.1), "replan_rate": 1.0}
    assert read_run(folder, last=True).scores["exact"] == 0.7
    assert read_run(folder).facts == {"update": 200, "updates/s": 4.0, "state": "finished"}
    waiting = read_run(run(tmp_path / "b", best=None))  # its switch was never let go
    assert waiting.scores["exact"] == 0.7 and waiting.facts["state"] == "at update 300"


def test_runs_that_differ_in_their_seed_share_a_row_and_only_settings_that_differ_are_shown(tmp_path: Path) -> None:
    folders = [run(tmp_path / f"ten/seed-{seed}", seed=seed, exact=(0.5, 0.8 + seed / 10, 0.1)) for seed in (0, 1)]
    folders += [run(tmp_path / f"five/seed-{seed}", seed=seed, exact=(0.5, 0.1, 0.1), k=5) for seed in (0, 1)]
    head, ten, five = table([read_run(folder) for folder in [*folders, folders[0]]])  # a run given twice counts once
    assert head == [
        "run",
        "attention.k",
        "exact",
        "loss",
        "replan_rate",
        "exact − first",
        "runs",
        "update",
        "updates/s",
        "state",
    ]
    assert ten == ["ten", "10", "0.85 ± 0.071", "0.15 ± 0.071", "1 ± 0", "", "2", "200", "4", "finished"]
    assert five[:3] == ["five", "5", "0.1 ± 0"] and five[5] == "-0.75, more than the spread"


def test_a_difference_within_the_spread_is_told_as_such_and_single_runs_are_only_told(tmp_path: Path) -> None:
    first = [run(tmp_path / f"a-{seed}", seed=seed, exact=(0.5, 0.7 + seed / 5)) for seed in (0, 1)]
    second = [run(tmp_path / f"b-{seed}", seed=seed, exact=(0.5, 0.6 + seed / 5), k=3) for seed in (0, 1)]
    found = [read_run(folder) for folder in [*first, *second]]
    assert [row[0] for row in table(found)] == ["run", "a", "b"]
    assert table(found)[2][5] == "-0.1, within the spread"
    assert table([found[0], found[2]])[2][:6] == ["b-0", "3", "0.6", "0.4", "1", "-0.1"]


def test_one_row_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    [head, row] = table([read_run(run(tmp_path / "only"))], ["loss"])
    assert head == ["run", "loss", "runs", "update", "updates/s", "state"] and row[:2] == ["only", "0.1"]


def test_it_reads_as_a_table_in_a_document(tmp_path: Path) -> None:
    lines = as_text(table([read_run(run(tmp_path / "a")), read_run(run(tmp_path / "b", k=2))])).split("\n")
    assert len({len(line) for line in lines}) == 1 and re.fullmatch(r"\|[-|]+\|", lines[1])


def test_for_a_program_every_value_of_every_run(tmp_path: Path) -> None:
    found = [read_run(run(tmp_path / f"{seed}", seed=seed)) for seed in (0, 1)]
    [row] = records(found, ["exact"])
    assert row["runs"] == [f"{tmp_path}/0", f"{tmp_path}/1"] and row["scores"] == {"exact": [0.9, 0.9]}
    result = CliRunner().invoke(app, ["compare", f"{tmp_path}/0", "--json", "--metric", "loss"])
    assert json.loads(result.stdout)["scores"] == {"loss": [pytest.approx(0.1)]}


def test_what_is_no_run_and_what_is_no_metric_are_one_line(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"no log of a run at .*/b/log\.jsonl"):
        read_run(tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"no validation metric 'exakt' \(did you mean 'exact'\?\)"):
        table([read_run(folder)], ["exakt"])
    (folder / "log.jsonl").write_text('{"kind": "valid", "update": 0, "loss": 1.0}\n')
    with pytest.raises(CheckpointError, match="has not been validated yet"):
        read_run(folder)
    (folder / "recipe.json").unlink()
    with pytest.raises(CheckpointError, match="is not a run folder: it holds no"):
        read_run(folder)


def test_a_setting_that_an_older_run_did_not_know_is_as_good_as_unset(tmp_path: Path) -> None:
    found = [read_run(run(tmp_path / "older-0")), read_run(run(tmp_path / "newer-1", seed=1, size=None))]
    assert len(table(found)) == 2
