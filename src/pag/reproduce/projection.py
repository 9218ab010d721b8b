"""How long the paper's own training would take at the speed that `pag bench` measured."""

import json
from pathlib import Path
from typing import Any

from pag.config import read_recipe

RECIPE = "translation/wmt15-de/{model}"
RAGGED, UPDATES = "bench-h200-ragged.json", "bench-h200-train.json"
HOUR = 3_600_000.0  # milliseconds


def projection(folder: Path) -> str:
    """A table of hours, one row per model that was timed on real lengths; nothing where none was."""
    found = [row for row in _rows(folder / RAGGED) if "batches" in row["facts"] and "by sentences" in row["task"]]
    if not found:
        return ""
    whole = {row["model"]: row["over_pass"] for row in _rows(folder / UPDATES) if row["over_pass"]}
    lines = [_line(row, whole[row["model"]]) for row in found]
    return f"""## What the paper's training would take

| model | target characters/s | ms an update | the paper's updates | hours on one GPU |
|---|---|---|---|---|
{chr(10).join(lines)}

Not run: the measured time of forward + backward on batches of real lengths (`{RAGGED}`, Europarl's; 600
units, no layer normalisation), times what clipping, optimiser and data add (`{UPDATES}`), for updates of
the WMT'15 recipes' size. The paper's baseline has 1,024 units in its decoder and takes longer than the one that was
timed. Validation is not counted.
"""


def _rows(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_bytes())["rows"] if file.is_file() else []


def _line(row: dict[str, Any], over_pass: float) -> str:
    train = read_recipe(RECIPE.format(model=row["model"])).train
    parts = train.batch_size * train.accumulate / row["sizes"]["batch"]
    update = row["ms"] / row["facts"]["batches"] * parts * over_pass
    hours = update * train.max_updates / HOUR
    return f"| {row['model']} | {row['per_second']:,.0f} | {update:.0f} | {train.max_updates:,} | {hours:.1f} |"
