"""The results page says what the results files say, worked out by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pag.generator import Output, Result
from pag.reproduce.claims import CLAIMS, claims, judge
from pag.reproduce.gallery import described, seen
from pag.reproduce.page import jobs, mean, page, readme, section
from pag.reproduce.pictures import beside, by_place, colours_of, draw, panels, redraw
from pag.reproduce.results import Results, add_run, read_results
from pag.reproduce.tables import FAMILIES, Gallery, read_table, table_names


def run(seed: int, finished: int = 600, recipe: str = "euler/pag", **scores: float) -> dict[str, Any]:
    attention = {"name": recipe.rpartition("/")[2]}
    summary = {
        "recipe": {"attention": attention},
        "parameters": 12345,
        "device": "a GPU",
        "torch": "2.11",
        "update": 1000,
    }
    curve = [{"update": 200, "loss": 2.0}, {"update": 400, "loss": 1.0 - seed / 10, "exact": 0.5}]
    return {
        "seed": seed, "scores": {"test": scores}, "summary": summary, "commit": "abc", "curve": curve, "recipe": recipe,
        "seconds": {"train": 500, "other": 100}, "finished": finished, "updates_per_second": 3.0,
    }  # fmt: skip


def test_means_and_spreads_as_they_are_shown() -> None:
    assert mean([0.98, 1.0], True) == "99.0 ± 1.4 %"
    assert mean([35.125], False) == "35.12" and mean([], False) == "—"


def test_a_table_beside_the_paper_s_numbers(tmp_path: Path) -> None:
    cells = {"pag": [run(0, exact=0.98, replan_rate=0.5), run(1, 900, exact=1.0, replan_rate=0.7)]}
    found = section("euler", read_table("euler"), Results(cells), tmp_path, tmp_path)
    assert "| model | paper, test | ours, test | re-plan rate | parameters | runs |" in found
    assert "| baseline | 90.4 % | — | — | — | 0 |" in found
    assert "| pag | 100.0 % | 99.0 ± 1.4 % | 0.60 ± 0.14 | 12,345 | 2 |" in found
    assert "on a GPU, torch 2.11, commit abc. All 2 runs together took at most 15.0 minutes of one device" in found
    assert "    pag reproduce euler --jobs 2 --again\n" in found


def test_further_scores_have_a_table_of_their_own(tmp_path: Path) -> None:
    cells = {"pag": [run(0, bleu4=12.0, rouge_l=40.0, copy_rate=0.7), run(1, bleu4=13.0, rouge_l=41.0, copy_rate=0.7)]}
    found = section("questions-du", read_table("questions-du"), Results(cells), tmp_path, tmp_path)
    assert "| pag | 12.50 ± 0.71 | 12,345 | 2 |" in found
    assert "| model | bleu4 of sentence | rouge l | bleu1 | loss | nll marginal | copy rate |" in found
    assert "| pag | — | 40.50 ± 0.71 | — | — | — | 0.70 ± 0.00 |" in found and found.count("| baseline |") == 1


def test_a_difference_must_be_larger_than_the_runs_own() -> None:
    def verdict(better: list[float], worse: list[float]) -> str:
        return judge(better, worse, "{:.2f}", ("pag", "baseline"))[0]

    told = judge([0.9, 0.92], [0.5, 0.52], "{:.2f}", ("pag", "baseline"))
    assert told == ("holds", "pag 0.91 ± 0.01 (2 runs); baseline 0.51 ± 0.01 (2 runs)")
    assert verdict([0.5, 0.52], [0.9, 0.92]) == "the opposite holds"
    assert verdict([0.1, 0.3] * 3, [0.5, 0.7] * 3) == "the opposite holds"  # 6.3 errors of six runs
    unclear = "the runs are too few, or too far apart, to tell"
    assert verdict([0.1, 0.3], [0.5, 0.7]) == unclear  # 2.8 errors of two runs
    assert verdict([0.97, 0.04, 0.08], [0.98, 0.99, 0.98]) == unclear
    assert verdict([1.0, 1.0], [1.0, 1.0]) == verdict([0.99, 1.0], [1.0, 1.0]) == "no difference"
    assert verdict([2.0], [1.0]) == "single runs, in favour"


@pytest.fixture
def nothing() -> dict[str, Results]:
    return {name: Results({}) for name in table_names()}


def test_a_claim_without_runs_says_so_and_names_its_command(nothing: dict[str, Results]) -> None:
    lines = [line for line in claims(nothing).splitlines() if "not yet measured" in line]
    assert len(lines) == len(CLAIMS) and "`pag reproduce euler`" in lines[0]
    assert all(set(claim.tables) <= set(table_names()) for claim in CLAIMS)


def test_a_claim_is_judged_from_the_runs(nothing: dict[str, Results]) -> None:
    euler = Results({"pag": [run(s, exact=0.99 + s / 100) for s in (0, 1)], "baseline": [run(0, exact=0.9)] * 2})
    [line] = [line for line in claims(nothing | {"euler": euler}).splitlines() if "euler, exact: pag" in line]
    assert "| holds | euler, exact: pag 99.5% ± 0.7% (2 runs); baseline 90.0% ± 0.0% (2 runs) |" in line


def test_a_model_is_faster_if_each_run_is_sooner_where_the_other_ends(nothing: dict[str, Results]) -> None:
    def side(*curves: list[float]) -> list[dict[str, Any]]:
        points = [[{"update": 100 * (i + 1), "loss": loss} for i, loss in enumerate(curve)] for curve in curves]
        return [run(seed) | {"curve": curve} for seed, curve in enumerate(points)]

    def told(pag: list[dict[str, Any]]) -> list[str]:
        cells = {"pag": pag, "baseline": side([5.0, 4.0, 3.0], [5.0, 4.0, 2.0])}
        page = claims(nothing | {"questions": Results(cells)})
        return next(line for line in page.splitlines() if "validation loss of 3" in line).split(" | ")[2:]

    sooner = "questions: updates to a validation loss of 3: pag 100 ± 0 (2 runs); baseline 300 ± 0 (2 runs) |"
    assert told(side([3.0, 3.0, 3.0], [2.0, 2.0, 2.0])) == ["holds", sooner]
    one = "questions: updates to a validation loss of 3: baseline always, pag in 1 of 2 runs |"
    assert told(side([3.0, 3.0, 3.0], [4.0, 4.0, 3.1])) == ["does not hold", one]


def test_where_less_is_better_less_holds(nothing: dict[str, Results]) -> None:
    cells = {"pag": [run(0, loss=2.0), run(1, loss=2.1)], "baseline": [run(0, loss=3.0), run(1, loss=3.1)]}
    [line] = [line for line in claims(nothing | {"questions": Results(cells)}).splitlines() if ", nats: pag" in line]
    assert "| holds | questions, nats: pag 2.05 ± 0.07 (2 runs); baseline 3.05 ± 0.07 (2 runs) |" in line


def test_a_run_that_begins_as_another_ends_does_not_go_on_beside_it() -> None:
    one_by_one = {"pag": [run(0, 600), run(1, 1195)]}  # 600 seconds each
    assert jobs(Results(one_by_one)) == 1
    assert jobs(Results({"pag": [run(0, 600), run(1, 1100)]})) == 2


def test_the_lowest_rate_that_costs_nothing_is_found(nothing: dict[str, Results]) -> None:
    cells = {
        "euler, baseline": [run(s, exact=0.9 + s / 50) for s in (0, 1)],
        "euler, pag, rate 1.0": [run(s, exact=0.9 + s / 50, replan_rate=1.0) for s in (0, 1)],
        "euler, pag, rate 0.5": [run(s, exact=0.891 + s / 50, replan_rate=0.45) for s in (0, 1)],  # 0.9 % less
        "euler, pag, rate 0.25": [run(s, exact=0.98 - s, replan_rate=0.2) for s in (0, 1)],  # one good, one failed
        "euler, rpag, rate 0.5": [run(s, exact=0.89 + s / 50, replan_rate=0.45) for s in (0, 1)],  # 1.1 % less
    }
    page = claims(nothing | {"planning": Results(cells)})
    assert "| holds | planning: euler, pag: as good as the baseline down to a rate of 0.45 |" in page
    assert "| not at a rate of 0.5 | planning: euler, rpag: worse at each rate tried |" in page


def test_a_gallery_pictures_the_shortest_outputs_and_keeps_where_models_looked() -> None:
    def result(text: str) -> Result:
        seen_at = np.array([[0.25, 0.75]] * len(text))
        return Result((Output(text, 0.0, 0.0, ("x", "y"), tuple(text), seen_at, switch=np.ones(len(text))),))

    task = SimpleNamespace(
        inputs=lambda split: ["one", "two", "three"],
        references=lambda split: ["1", "2", "3"],
        brief=lambda text, most: text,
    )
    found = {"pag": [result("abcd"), result("ab"), Result()]}
    told = described(Gallery(cells=["pag"], pictures=1), {"pag": SimpleNamespace(task=task)}, [0, 1, 2], found)  # type: ignore[dict-item]
    assert [row["outputs"]["pag"] for row in told["rows"]] == ["abcd", "ab", ""]
    assert ["looks" in row for row in told["rows"]] == [False, True, False]  # an empty output has no picture
    kept = told["rows"][1]["looks"]["pag"]
    assert kept["alignment"] == ["250 750", "250 750"] and kept["switch"] == [1, 1]
    assert seen(kept).alignment.tolist() == [[0.25, 0.75]] * 2  # type: ignore[union-attr]


def test_a_row_of_another_kind_stays_out_of_the_study_s_picture() -> None:
    def translated(bleu: float) -> dict[str, Any]:
        return {**run(0), "scores": {"test_2016_flickr": {"sacrebleu": bleu, "replan_rate": 0.7}}}

    cells = {"en-de, pag": [translated(37.0)], "en-de, pag, no layer norm": [translated(36.0)]}
    [found] = panels((read_table("multi30k"), Results(cells))).values()
    assert found.points == {"pag": [(0.7, 37.0)]}


def test_where_in_a_word_models_re_plan_is_the_mean_of_their_runs(tmp_path: Path) -> None:
    def planned(seed: int, *rates: float | None) -> dict[str, Any]:
        made = run(seed, sacrebleu=30.0)
        return {**made, "scores": {"test_2016_flickr": {"sacrebleu": 30.0, "replans_by_place": list(rates)}}}

    cells = {
        "en-de, pag": [planned(0, 0.2, 1.0, None), planned(1, 0.4, 0.5, 0.3)],
        "en-cs, pag": [planned(0, 0.1, 1.0)],
    }
    found = by_place(read_table("multi30k"), Results(cells))
    assert found["translation/multi30k-de"]["en-de, pag"] == pytest.approx([0.3, 0.75, 0.3])
    assert found["translation/multi30k-cs"] == {"en-cs, pag": [0.1, 1.0]}
    drawn = draw("multi30k", read_table("multi30k"), Results(cells), tmp_path)
    assert {"multi30k-places.png", "multi30k-curves-multi30k-cs.png"} <= {path.name for path in drawn}
    assert all(path.is_file() for path in drawn)


def test_the_pages_hold_every_table_measured_or_not(tmp_path: Path) -> None:
    add_run(tmp_path / "euler.json", "euler", "pag", run(0, exact=0.5))
    found = page(tmp_path, tmp_path)
    assert "## Eulerian circuits, 7 nodes" in found and "- Multi30k: `pag reproduce multi30k`" in found
    assert "| pag | 100.0 % | 50.0 % | — | 1 |" in readme(tmp_path)


def test_the_study_is_drawn_as_quality_against_the_re_plan_rate(tmp_path: Path) -> None:
    cells = {
        "euler, baseline": [run(0, recipe="euler/baseline", exact=1.0)],
        "euler, pag, rate 0.6": [run(0, exact=0.9, replan_rate=0.5), run(1, exact=0.95, replan_rate=0.55)],
    }
    [euler] = panels((read_table("planning"), Results(cells))).values()
    assert euler.metric == "exact, %" and euler.points == {
        "baseline": [(1.0, 100.0)],
        "pag": [(0.5, 90.0), (0.55, 95.0)],
    }
    drawn = draw("planning", read_table("planning"), Results(cells), tmp_path)
    assert [path.name for path in drawn] == ["planning-curves.png", "planning-replan_rate.png"]
    assert all(path.stat().st_size > 5000 for path in drawn)
    assert draw("planning", read_table("planning"), Results({}), tmp_path) == []


def test_a_study_can_be_drawn_among_the_runs_of_another_table_on_what_both_were_evaluated_on(tmp_path: Path) -> None:
    def scored(recipe: str, **sets: dict[str, float]) -> dict[str, Any]:
        return {**run(0, recipe=recipe), "scores": sets}

    there = {"sacrebleu": 36.0, "loss": 32.0}
    others = {
        "en-de, baseline": [scored("translation/multi30k-de/baseline", test_2016_flickr=there)],
        "en-cs, baseline": [scored("translation/multi30k-cs/baseline", test_2016_flickr=there)],
    }
    scores = {"sacrebleu": 35.0, "loss": 33.0, "replan_rate": 0.5}
    own = scored("pag", valid={"sacrebleu": 1.0, "loss": 1.0}, test_2016_flickr=scores)
    for path, cells in (("multi30k", others), ("planning-captions", {"pag, k = 3": [own]})):
        for name, runs in cells.items():
            add_run(tmp_path / f"{path}.json", path, name, runs[0])
    table = read_table("planning-captions")
    found = panels((table, read_results(tmp_path / "planning-captions.json")), *beside(table, tmp_path))
    assert list(found) == ["translation/multi30k-de"]  # not the tasks that only the other table has
    assert found["translation/multi30k-de"].points == {"pag": [(0.5, 35.0)], "baseline": [(1.0, 36.0)]}
    assert found["translation/multi30k-de"].losses == {"pag": [(0.5, 33.0)], "baseline": [(1.0, 32.0)]}


def test_the_paper_s_tasks_come_first_and_every_table_has_its_place() -> None:
    names = table_names()
    assert names[0] == "euler" and names.index("multi30k") < names.index("estimators") < names.index("planning")
    assert {name.partition("-")[0] for name in names} == set(FAMILIES)


def test_a_model_keeps_its_colour_whichever_others_are_drawn() -> None:
    assert colours_of(["pag", "baseline"])["pag"] == colours_of(["rpag", "pag"])["pag"]
    assert len(set(colours_of(["baseline", "mine", "pag", "rpag"]).values())) == 4


def test_redrawing_finds_the_table_that_is_drawn_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, list[str]] = {}

    def scatter(studies: Any, path: Path) -> Path:
        drawn[path.name] = [table.title for table, _ in studies]
        return path

    monkeypatch.setattr("pag.reproduce.pictures.scatter", scatter)
    own = {**run(0), "scores": {"valid": {}, "test_2016_flickr": {}}}
    add_run(tmp_path / "planning-captions.json", "planning-captions", "pag, k = 3", own)
    redraw(tmp_path, tmp_path)
    assert drawn == {"planning-captions-replan_rate.png": ["What makes a model commit?", "Multi30k"]}
