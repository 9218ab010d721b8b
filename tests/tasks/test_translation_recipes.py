"""The shipped translation recipes: the paper's sizes, and variants that differ in their attention alone."""

import pytest
import torch

from pag.config import Recipe, read_recipe, recipe_names
from pag.model import Seq2Seq

PAPER_SUBWORDS, PAPER_CHARACTERS = 24_440, 302
VARIANTS = ("baseline", "pag", "rpag")
FAMILIES = sorted(
    {name.rpartition("/")[0] for name in recipe_names() if name.startswith("translation/")} - {"translation"}
)


def parameters(recipe: Recipe) -> int:
    with torch.device("meta"):
        model = Seq2Seq(recipe, PAPER_SUBWORDS, PAPER_CHARACTERS)
    return sum(weights.numel() for weights in model.parameters())


def test_every_data_set_has_every_variant() -> None:
    assert len(FAMILIES) == 8
    for family in FAMILIES:
        for variant in VARIANTS:
            assert read_recipe(f"{family}/{variant}").attention.name == variant


@pytest.mark.parametrize("family", FAMILIES)
def test_variants_differ_in_attention_alone_but_for_the_papers_baseline(family: str) -> None:
    pag, rpag, baseline = (read_recipe(f"{family}/{variant}") for variant in ("pag", "rpag", "baseline"))
    assert pag.model_copy(update={"attention": None, "description": ""}) == rpag.model_copy(
        update={"attention": None, "description": ""}
    )
    assert baseline.task == pag.task and baseline.generate == pag.generate
    if "wmt15" in family:
        assert (baseline.model.encoder, baseline.model.decoder) == (512, 1024)
        assert (pag.model.encoder, pag.model.decoder, pag.model.embedding) == (600, 600, 600)
    else:
        assert baseline.model == pag.model and baseline.train == pag.train


@pytest.mark.parametrize("family", [family for family in FAMILIES if "wmt15" in family])
def test_planning_models_are_smaller_than_the_papers_baseline(family: str) -> None:
    """The paper says about 4 million fewer; with our deep output it is between 5 and 6."""
    baseline, pag, rpag = (parameters(read_recipe(f"{family}/{variant}")) for variant in VARIANTS)
    assert 4_000_000 < baseline - pag < 6_000_000 and rpag < pag


@pytest.mark.parametrize("family", FAMILIES)
def test_the_switch_is_held_until_the_model_attends(family: str) -> None:
    for variant in ("pag", "rpag"):
        assert read_recipe(f"{family}/{variant}").attention.hold_until is not None


def test_layer_normalisation_is_a_switch() -> None:
    off = read_recipe("translation/wmt15-de/pag")
    on = read_recipe("translation/wmt15-de/pag", ["model.layer_norm=true"])
    assert not off.model.layer_norm and parameters(on) > parameters(off)


def test_numbers_runs_in_each_variant() -> None:
    for variant in VARIANTS:
        assert read_recipe("translation/numbers", [f"attention.name={variant}"]).task.name == "numbers"
