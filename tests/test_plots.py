"""What pictures say can be read: no text lies on another, however long the sentence and narrow the picture."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pag import plots
from pag.generator import Output

SENTENCE = "Ein Mann mit einem orangefarbenen Hut starrt auf etwas, das man auf dem Bild nicht sehen kann."


def output(steps: int = 4, positions: int = 3, k: int = 5) -> Output:
    alignment = np.full((steps, positions), 1 / positions)
    plan, commitment = np.zeros((steps, k, positions)), np.full((steps, k), 1 / k)
    names = tuple("abcdefghijklmnopqrst"[:positions]), tuple("abcdefghijklmnopqrst"[:steps])
    recorded = {"alignment": alignment, "plan": plan, "switch": np.ones(steps), "commitment": commitment}
    return Output("x", -1.0, -2.0, *names, **recorded)


def headings(figure: Any) -> list[Any]:
    """Where each title and note is, in pixels."""
    figure.canvas.draw()
    texts = [text for axes in figure.axes for text in (axes._left_title, axes._right_title, axes.title, *axes.texts)]
    return [text.get_window_extent() for text in texts if text.get_text()]


@pytest.mark.parametrize(("positions", "across"), [(plots.WIDE, 3), (plots.WIDE + 1, 1)])
def test_models_stand_side_by_side_where_there_is_room(
    positions: int, across: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    looks = replace(output(), source=("x",) * positions, alignment=np.full((4, positions), 1 / positions))
    plots.compare([(name, looks) for name in ("baseline", "pag", "rpag")], Path("x.png"))
    places = [axes.get_subplotspec().get_geometry() for axes in drawn[0].axes]
    assert [axes.get_title("left") for axes in drawn[0].axes] == ["baseline", "pag", "rpag"]
    assert {place[1] for place in places} == {across}
    plots.plt.close(drawn[0])


def test_curves_begin_with_the_first_trained_model(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    events = [{"kind": "valid", "update": update, "loss": loss} for update, loss in ((0, 900.0), (5, 9.0), (10, 8.0))]
    plots.curves([("long", [events]), ("only begun", [events[:1]])], ["loss"], Path("x.png"))
    [axes] = drawn[0].axes
    assert [curve.get_xydata().tolist() for curve in axes.lines] == [[[5, 9], [10, 8]], [[0, 900]]]
    plots.plt.close(drawn[0])


@pytest.mark.parametrize("kind", ["alignments", "plan"])
def test_headings_do_not_lie_on_one_another(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    if kind == "plan":
        plots.plan(output(), Path("x.png"), SENTENCE)
    else:
        plots.alignments([(SENTENCE, output()), (SENTENCE, output(9))], Path("x.png"))
    found = headings(drawn[0])
    assert len(found) == (2 if kind == "plan" else 4)
    assert not [pair for pair in combinations(found, 2) if pair[0].overlaps(pair[1])]
    assert max(box.width for box in found) < 1.5 * drawn[0].bbox.width  # long sentences are wrapped
    plots.plt.close(drawn[0])


def test_letters_of_other_scripts_are_looked_for_in_fonts_that_are_installed() -> None:
    assert plots.families(["Malgun Gothic", "Some Other", "Noto Sans CJK SC"]) == [
        "DejaVu Sans",
        "Noto Sans CJK SC",
        "Malgun Gothic",
    ]
    assert plots.families([]) == ["DejaVu Sans"]


def drawn_curves(monkeypatch: pytest.MonkeyPatch, losses: list[float], models: int) -> Any:
    kept: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: kept.append(figure))
    events = [{"kind": "valid", "update": 100 * n, "loss": loss} for n, loss in enumerate(losses, 1)]
    plots.curves([(f"model {n}", [events]) for n in range(models)], ["loss"], Path("curves.png"))
    return kept[0]


@pytest.mark.parametrize(("losses", "scale"), [([20.0, 1.0], "log"), ([20.0, 0.001], "log"), ([20.0, 3.0], "linear")])
def test_a_loss_that_falls_by_powers_of_ten_is_drawn_so(
    losses: list[float], scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drawn_curves(monkeypatch, losses, 2).axes[0].get_yscale() == scale


def test_many_names_stand_below_the_curves_and_few_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    many, few = (drawn_curves(monkeypatch, [2.0, 1.0], count) for count in (7, 6))
    assert len(many.legends[0].get_texts()) == 7 and many.axes[0].get_legend() is None
    assert not few.legends and len(few.axes[0].get_legend().get_texts()) == 6
