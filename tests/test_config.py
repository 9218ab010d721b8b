"""Recipes: strict, frozen, and clear about what is wrong."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pag.config import build_recipe, read_recipe, recipe_names
from pag.errors import RecipeError

TASK = {"task": {"name": "euler"}}


def problem(**sections: Any) -> str:
    with pytest.raises(RecipeError) as error:
        build_recipe({**TASK, **sections}, "my.toml")
    return str(error.value)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text('description = "mine"\n[task]\nname = "euler"\n[attention]\nk = 4\n')
    return file


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    text = problem(attention={"gate_bais": 1})
    assert text.startswith("my.toml: unknown key 'attention.gate_bais' (did you mean 'gate_bias'")


def test_an_unknown_section_is_named_with_the_nearest() -> None:
    assert "unknown key 'attenton' (did you mean 'attention'?)" in problem(attenton={"k": 3})


def test_an_unknown_key_of_the_task_is_named_with_the_tasks_nearest() -> None:
    assert "unknown key 'task.nods' (did you mean 'nodes'?)" in problem(task={"name": "euler", "nods": 4})


def test_a_key_like_no_other_is_answered_with_the_list() -> None:
    assert "(known: batch_size, beam, " in problem(generate={"zzz": 1})


def test_all_errors_are_listed_at_once() -> None:
    text = problem(attention={"k": 0, "plans_from": "middle"}, train={"lr": "fast", "seeed": 1}, bogus=1)
    for part in ("'attention.k'", "'attention.plans_from'", "'train.lr'", "'train.seeed'", "'bogus'"):
        assert part in text
    assert "\n" not in text


def test_the_monitor_is_a_metric_of_the_task() -> None:
    text = problem(task={"name": "euler"}, train={"monitor": "exct"}, attention={"plans_from": "lower"})
    assert text == "my.toml: 'train.monitor' unknown metric 'exct' (did you mean 'exact'?)"


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("attention", "k", 0),
        ("attention", "k", 2.5),
        ("attention", "temperature", 0),
        ("attention", "temperature", -1.0),
        ("attention", "hold_until", 0.0),
        ("attention", "hold_updates", -1),
        ("model", "dropout", 1.0),
        ("model", "decoder", 0),
        ("loss", "commitment", -1e-5),
        ("loss", "label_smoothing", 1.0),
        ("train", "lr", 0),
        ("train", "lr", float("nan")),
        ("train", "batch_size", 0),
        ("train", "seed", -1),
        ("generate", "beam", 0),
        ("task", "nodes", 2),
    ],
)
def test_a_value_out_of_range_is_named_with_its_key_and_itself(section: str, key: str, value: Any) -> None:
    values = {"name": "euler"} if section == "task" else {}
    text = problem(**{section: {**values, key: value}})
    assert f"'{section}.{key}'" in text and repr(value) in text


@pytest.mark.parametrize("value", ["learned", 0.5, 2])
def test_the_temperature_is_learned_or_a_number(value: Any) -> None:
    assert build_recipe({**TASK, "attention": {"temperature": value}}, "x").attention.temperature == value


def test_an_unknown_choice_is_answered_with_the_choices() -> None:
    assert "'upper' or 'lower', not 'middle'" in problem(attention={"plans_from": "middle"})
    assert "unknown attention 'pagg' (did you mean 'pag' or 'rpag'?)" in problem(attention={"name": "pagg"})
    assert "unknown readout 'dep' (did you mean 'deep'?)" in problem(model={"readout": "dep"})
    assert "unknown task 'eulr' (did you mean 'euler'?)" in problem(task={"name": "eulr"})


def test_a_guard_needs_a_price_to_guard() -> None:
    assert "'loss.replan_guard' guards a price: give 'loss.replan_rate' too" in problem(loss={"replan_guard": 0.02})
    assert build_recipe({**TASK, "loss": {"replan_guard": 0, "replan_rate": 0.3}}, "x").loss.replan_guard == 0


@pytest.mark.parametrize("task", [{}, {"nodes": 4}, 3, None, {"name": 3}])
def test_a_recipe_needs_a_task_with_a_name(task: Any) -> None:
    assert "needs a section [task] with a name" in problem(task=task)


def test_the_problems_of_a_file_name_the_file(toml: Path) -> None:
    with pytest.raises(RecipeError, match=r"mine\.toml: unknown key 'attention\.kk'"):
        read_recipe(str(toml), ["attention.kk=3"])


@pytest.mark.parametrize("content", [b"[task\nname=", b"\xff\xfe", b"k = "])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.toml"
    file.write_bytes(content)
    with pytest.raises(RecipeError, match=r"broken\.toml: not a TOML file"):
        read_recipe(str(file))


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"unknown recipe 'quickstrat' \(did you mean 'quickstart'"):
        read_recipe("quickstrat")


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="unknown recipe"):
        read_recipe(str(tmp_path))


def test_every_shipped_recipe_is_valid_and_described() -> None:
    names = recipe_names()
    assert "quickstart" in names
    for name, description in names.items():
        assert description, name
        assert read_recipe(name).description == description


def test_overrides_are_read_as_toml_and_else_as_text(toml: Path) -> None:
    recipe = read_recipe(
        str(toml),
        ["attention.k=7", "attention.name=rpag", "train.lr=1e-3", "model.layer_norm=true", "train.betas=[0.8, 0.9]"],
    )
    assert recipe.attention.k == 7 and recipe.attention.name == "rpag"
    assert recipe.train.lr == 1e-3 and recipe.model.layer_norm is True and recipe.train.betas == (0.8, 0.9)
    assert recipe.description == "mine"


def test_the_last_override_wins_and_the_file_is_the_default(toml: Path) -> None:
    assert read_recipe(str(toml)).attention.k == 4
    assert read_recipe(str(toml), ["attention.k=5", "attention.k=6"]).attention.k == 6


def test_none_clears_a_setting(toml: Path) -> None:
    assert read_recipe(str(toml), ["train.patience=3"]).train.patience == 3
    assert read_recipe(str(toml), ["train.patience=3", "train.patience=none"]).train.patience is None


@pytest.mark.parametrize("override", ["attention.k", "=3", ".k=3", "attention.=3"])
def test_an_override_that_sets_nothing_is_explained(toml: Path, override: str) -> None:
    with pytest.raises(RecipeError, match=r"expected section\.key=value"):
        read_recipe(str(toml), [override])


def test_an_override_inside_a_value_is_explained(toml: Path) -> None:
    with pytest.raises(RecipeError, match="'k' is a value, not a section"):
        read_recipe(str(toml), ["attention.k.deep=3"])


def test_a_recipe_cannot_be_changed(toml: Path) -> None:
    recipe = read_recipe(str(toml))
    with pytest.raises(ValidationError, match="frozen"):
        recipe.attention.k = 5
    with pytest.raises(ValidationError, match="frozen"):
        recipe.train = recipe.train


def test_a_recipe_survives_being_written_down(toml: Path) -> None:
    recipe = read_recipe(str(toml), ["attention.temperature=0.5", "train.patience=3"])
    assert build_recipe(recipe.model_dump(mode="json"), "again") == recipe


def test_flat_names_every_setting_as_an_override_would(toml: Path) -> None:
    flat = read_recipe(str(toml)).flat()
    assert flat["attention.k"] == 4 and flat["task.name"] == "euler"
    for key in ("train.max_updates", "train.save_every", "train.validate_every", "train.batch_size", "train.seed"):
        assert key in flat


def test_the_defaults_are_the_papers() -> None:
    recipe = build_recipe(TASK, "defaults")
    assert recipe.attention.k == 10 and recipe.loss.commitment == 3e-5
    assert recipe.train.lr == 2e-4 and recipe.train.clip == 5 and recipe.train.optimizer == "adam"
    assert recipe.model.decoder == 360 and recipe.task.nodes == 7
