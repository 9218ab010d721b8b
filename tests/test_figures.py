"""The figure of the mechanism."""

from pathlib import Path

import matplotlib.image
import numpy as np

from pag.figures import CARD, mechanism

STORED = Path(__file__).parent.parent / "docs" / "figures" / "mechanism.png"


def test_the_stored_figure_is_the_one_that_the_code_draws(tmp_path: Path) -> None:
    """Up to how a version of matplotlib smooths its edges."""
    drawn = matplotlib.image.imread(mechanism(tmp_path / "new" / "mechanism.png"))
    stored = matplotlib.image.imread(STORED)
    assert drawn.shape == stored.shape
    assert np.abs(drawn - stored).mean() < 0.01


def test_the_stored_figure_is_small_and_brings_its_own_background() -> None:
    assert STORED.stat().st_size <= 200_000
    picture = matplotlib.image.imread(STORED)
    card = [int(CARD[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    for corner in (picture[0, 0], picture[-1, -1]):
        np.testing.assert_allclose(corner[:3], card, atol=0.01)
        assert len(corner) == 3 or corner[3] == 1
