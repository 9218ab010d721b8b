"""The projected time is what is left of a division worked by hand."""

import json
from pathlib import Path

from pag.reproduce.projection import RAGGED, UPDATES, projection


def test_hours_are_updates_times_their_measured_time(tmp_path: Path) -> None:
    ragged = {"task": "real lengths, by sentences", "model": "pag", "sizes": {"batch": 64}, "per_second": 5e5}
    rows = [ragged | {"ms": 2400.0, "facts": {"batches": 24}}, ragged | {"task": "one length", "facts": {}}]
    (tmp_path / RAGGED).write_text(json.dumps({"rows": rows}))
    (tmp_path / UPDATES).write_text(json.dumps({"rows": [{"model": "pag", "over_pass": 1.1}]}))
    # 100 ms for 64 sentences: 200 for the recipe's 2 × 64, a tenth more for a whole update, 350,000 times
    assert "| pag | 500,000 | 220 | 350,000 | 21.4 |" in projection(tmp_path)


def test_nothing_is_projected_from_nothing(tmp_path: Path) -> None:
    assert projection(tmp_path) == ""
