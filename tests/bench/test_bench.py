"""`pag bench` end to end at tiny sizes. Nothing here depends on how long anything took."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from pag.bench import joeynmt, pictures, sections
from pag.bench.command import bench
from pag.bench.ours import Replanning, Searching, Updates, backends_of, model_of
from pag.bench.report import markdown, read_rows
from pag.bench.rows import Row
from pag.bench.run import Outcome, run_bench
from pag.bench.settings import ALWAYS, PRESETS, VARIANTS, choose_preset, override
from pag.errors import DataError, InputError
from pag.text.vocabulary import END

SMOKE = PRESETS["smoke"]
ROOT = Path(__file__).parents[2]
INSTALLED = joeynmt.look_for(None).there
needs_joeynmt = pytest.mark.skipif(not INSTALLED, reason=f"JoeyNMT is not installed: {joeynmt.INSTALL}")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_bench(SMOKE, tmp_path_factory.mktemp("bench"), Console(quiet=True))


def test_ragged_batches_count_the_tokens_that_are_no_padding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lengths = np.array([[3, 2], [4, 7], [9, 2], [10, 7]])  # a batch is two neighbours by source: nine tokens
    monkeypatch.setattr(sections, "real_lengths", lambda folder: lengths)
    settings = override(SMOKE, sections=["ragged"], variants=["baseline"], rounds=1)
    fixed, by_sentences, by_tokens = run_bench(settings, tmp_path, Console(quiet=True)).report.rows
    assert fixed.amount == SMOKE.sizes.batch * SMOKE.sizes.target
    assert by_sentences.amount == sections.BATCHES * 9
    assert sections.BATCHES * 2 <= by_tokens.amount <= sections.BATCHES * 7  # six tokens a batch: one sentence
    assert by_sentences.facts["batches"] == sections.BATCHES and fixed.facts["batches"] == 1
    assert by_tokens.facts["over_fixed"] == pytest.approx(by_tokens.per_second / fixed.per_second)  # type: ignore[operator]


def test_ragged_batches_need_data_which_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    settings = override(SMOKE, sections=["train", "ragged"])
    with pytest.raises(InputError, match="--only ragged needs --data"):
        run_bench(settings, tmp_path, Console(quiet=True))
    with pytest.raises(DataError, match="no prepared folder at nowhere"):
        run_bench(override(settings, data="nowhere"), tmp_path, Console(quiet=True))
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="--only replan: the baseline has no plan to follow"):
        override(SMOKE, sections=["replan"], variants=["baseline"])
    with pytest.raises(InputError, match="--data is read by --only ragged alone"):
        override(SMOKE, data="nowhere")


def test_a_folder_that_cannot_be_written_to_is_found_out_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections.Sections, "train", lambda self: pytest.fail("measured"))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*file/bench\.json"):
        run_bench(override(SMOKE, sections=["train"]), tmp_path / "file", Console(quiet=True))


def test_the_gpu_that_is_measured_is_the_current_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    current: list[str] = []

    @contextmanager
    def device(name: str) -> Iterator[None]:
        current.append(name)
        yield
        current.pop()

    def measure(*rest: object) -> None:
        raise InputError(f"measured on {current}")

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr("pag.bench.run._measure", measure)
    with pytest.raises(InputError, match=r"measured on \['cuda:1'\]"):
        run_bench(replace(SMOKE, device="cuda:1"), tmp_path, Console(quiet=True))


def test_a_folder_without_joeynmt_is_refused_where_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--joeynmt: no JoeyNMT in {tmp_path}: {joeynmt.INSTALL}"):
        joeynmt.look_for(tmp_path)


def test_the_module_is_the_command_and_a_fault_is_one_line() -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "pag.bench", "--device", "tpu"], capture_output=True, text=True, check=False
    )
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == "error: device must be auto, cpu, cuda or cuda:1, not tpu\n"


def of(rows: list[Row], section: str, model: str) -> list[Row]:
    return [row for row in rows if row.section == section and row.model == model]


@pytest.mark.parametrize("section", ALWAYS)
def test_every_variant_takes_part_in_every_section(outcome: Outcome, section: str) -> None:
    for variant in VARIANTS:
        rows = of(outcome.report.rows, section, variant)
        assert rows or (section, variant) == ("replan", "baseline")
        assert all(row.ms and len(row.times) == SMOKE.rounds for row in rows), rows
        assert all(row.low <= row.ms <= row.high and row.per_second for row in rows)


def test_training_compares_every_backend_with_the_plain_loop(outcome: Outcome) -> None:
    for variant in VARIANTS:
        rows = {row.backend: row for row in of(outcome.report.rows, "train", variant)}
        assert {"reference", "fused"} <= rows.keys()
        assert rows["reference"].over_loop == 1
        assert rows["fused"].over_loop == rows["reference"].ms / rows["fused"].ms


def test_joeynmt_stands_beside_ours_or_the_table_says_how_to_install_it(outcome: Outcome) -> None:
    rows = of(outcome.report.rows, "train", "joeynmt") + of(outcome.report.rows, "decode", "joeynmt")
    assert len(of(outcome.report.rows, "decode", "joeynmt")) == len(SMOKE.beams)
    if INSTALLED:
        assert all(row.ms for row in rows)
        assert all(row.over_joeynmt for row in outcome.report.rows if row.section in ("train", "decode"))
    else:
        assert all(row.ms is None and joeynmt.INSTALL in row.note for row in rows)


def test_without_joeynmt_the_rest_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joeynmt, "find_spec", lambda name: None)
    settings = override(SMOKE, sections=["train"], variants=["baseline"], rounds=1)
    rows = run_bench(settings, tmp_path, Console(quiet=True)).report.rows
    absent, *ours = rows
    assert (absent.model, absent.ms, absent.note) == ("joeynmt", None, f"not installed: {joeynmt.INSTALL}")
    assert ours and all(row.ms and row.over_joeynmt is None for row in ours)


def test_an_update_is_compared_with_its_own_forward_and_backward(outcome: Outcome) -> None:
    for variant in VARIANTS:
        alone, update = of(outcome.report.rows, "update", variant)
        assert update.over_pass == update.ms / alone.ms


def test_the_json_file_says_what_where_and_with_which_versions(outcome: Outcome) -> None:
    stored = json.loads(outcome.json.read_text("utf-8"))
    assert stored.keys() == {"settings", "joeynmt", "surroundings", "seconds", "rows"}
    assert stored["settings"]["preset"] == "smoke" and stored["settings"]["sizes"]["units"] == SMOKE.sizes.units
    assert stored["surroundings"]["torch"] == torch.__version__
    assert {"python", "device", "cores", "threads", "waiting", "commit"} <= stored["surroundings"].keys()
    assert stored["seconds"].keys() == set(ALWAYS)
    assert all(row["per_second"] for row in stored["rows"] if row["ms"])
    assert read_rows(outcome.json) == outcome.report.rows


def test_pictures_are_made(outcome: Outcome) -> None:
    assert [path.name for path in outcome.pictures] == ["bars.png", "scaling.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in outcome.pictures)


def test_one_far_slower_contestant_does_not_press_the_others_flat() -> None:
    def drawn(slowest: float) -> Axes:
        figure = Figure()
        axes = figure.subplots()
        pictures._lines(axes, [timed("joeynmt", slowest), timed("pag", 20.0)])
        return axes

    def timed(model: str, ms: float) -> Row:
        return Row("scaling", "", model, "fused", "float32", {}, ms, facts={"axis": "k", "value": 5})

    assert (drawn(300.0).get_yscale(), drawn(300.0).get_ylim()[0]) == ("linear", 0)
    assert (drawn(900.0).get_yscale(), drawn(900.0).get_ylim()[0]) == ("log", 10)


def test_bars_say_thousands_in_full() -> None:
    assert [pictures._number(time) for time in (0.1234, 99.94, 411.7, 2150.4)] == ["0.123", "99.9", "412", "2,150"]


def test_every_output_found_has_the_stated_length() -> None:
    made = Searching("pag", SMOKE.sizes, "cpu", "float32", 3, 5)
    found = made.run(2)
    assert [len(best.ids) for [best] in found] == [5, 5, 5]
    assert all(best.ids[-1] == END and END not in best.ids[:-1] for [best] in found)


@needs_joeynmt
@pytest.mark.parametrize("beam", [1, 2])
def test_joeynmt_finds_outputs_of_the_same_length(beam: int) -> None:
    found, *_ = joeynmt.Searching(SMOKE.sizes, "cpu", "float32", 3, 5).run(beam)
    assert found.shape == (3, 5)


@needs_joeynmt
def test_joeynmt_has_our_sizes() -> None:
    decoder = joeynmt.build(SMOKE.sizes, "cpu", 2 * SMOKE.sizes.units).decoder
    ours = model_of("baseline", SMOKE.sizes, "cpu")
    assert decoder.attention.energy_layer.in_features == ours.decoder.attention.score.in_features
    assert decoder.hidden_size == ours.decoder.lower.size
    assert decoder.output_size == ours.readout.output.out_features


@pytest.mark.parametrize("variant", ["rpag", "pag"])
def test_a_model_re_plans_as_often_as_asked(variant: str) -> None:
    """k = 3, every 3 steps. The first sentence re-plans at steps 1 and 4; the second at 2, and at 1 as all do."""
    made = Replanning(variant, SMOKE.sizes, "cpu", "float32", 2, 4, 3)
    switches = [best.record["switch"].tolist() for [best] in made.run(1, record=True)]
    assert switches == [[1, 0, 0, 1], [1, 1, 0, 0]]
    assert made.rate() == 0.5
    assert Replanning(variant, SMOKE.sizes, "cpu", "float32", 2, 4, 1).rate() == 1


def test_an_update_changes_the_weights_and_takes_a_new_batch_each_time() -> None:
    made = Updates("rpag", SMOKE.sizes, "cpu", "float32")
    weight = made.model.decoder.lower.state.weight
    before, position = weight.detach().clone(), made.loader.position
    made.forward_backward()
    assert torch.equal(weight, before) and made.loader.position == position
    made.update()
    assert not torch.equal(weight, before) and made.loader.position != position
    made.loader.close()


def test_the_backend_that_auto_takes_comes_last() -> None:
    names = list(backends_of(model_of("pag", SMOKE.sizes, "cpu"), "cpu"))
    assert names == ["reference", "fused"]


def test_the_preset_follows_the_device_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, said = choose_preset("auto", "cpu")
    assert settings.preset == "cpu" and said == "preset cpu, chosen for the device cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    settings, said = choose_preset("auto", "auto")
    assert (settings.preset, settings.device) == ("h200", "cuda") and "cuda" in said


def test_what_does_not_exist_is_refused_with_what_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match=r"unknown preset 'a100'.*h200"):
        choose_preset("a100", "cpu")
    with pytest.raises(InputError, match=r"no cuda here .*use cpu"):
        choose_preset("auto", "cuda")
    with pytest.raises(InputError, match="--device must be auto, cpu or cuda: on meta"):
        choose_preset("auto", "meta")
    with pytest.raises(InputError, match=r"--only: unknown 'trian' \(did you mean 'train'"):
        override(SMOKE, sections=["trian"])
    with pytest.raises(InputError, match="processor time says nothing about a GPU"):
        override(PRESETS["h200"], clock="cpu")


def test_sizes_given_on_the_command_line_take_the_preset_s_place(tmp_path: Path) -> None:
    app = Typer()
    app.command()(bench)
    words = "--preset smoke --device cpu --only decode --variant baseline --beam 3 --units 6 --sentences 1 --rounds 1"
    result = CliRunner().invoke(app, [*words.split(), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "preset smoke, on the device cpu" in result.output and "beam 3" in result.output
    settings = json.loads((tmp_path / "bench.json").read_text("utf-8"))["settings"]
    assert settings["sizes"] == {**SMOKE.to_json()["sizes"], "units": 6}
    assert (settings["beams"], settings["sentences"]) == ([3], 1)


def test_the_tables_of_bench_md_are_those_of_the_stored_results() -> None:
    page = (ROOT / "docs" / "bench.md").read_text("utf-8")
    tables = re.findall(r"<!-- (\S+\.json) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert len(tables) == 6
    for file, shown in tables:
        assert shown.strip() == markdown(read_rows(ROOT / "benchmarks" / "results" / file)), file
