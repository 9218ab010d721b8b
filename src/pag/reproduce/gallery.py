"""Outputs of several models for the same inputs: pictures of where each looked, and texts side by side.

As the paper's Figure 2 and the table of its appendix, but drawn at random by a stated seed.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pag.checkpoint import to_json, write_atomically
from pag.reproduce.tables import Gallery, Table

if TYPE_CHECKING:
    from pag.generator import Generator, Output, Result

WIDEST = 300  # characters of an input that are shown
AMONG = 100  # first examples of the split that are drawn from, as the paper does


def gallery_file(name: str) -> str:
    return f"{name}-gallery.json"


def picture_file(name: str, place: int) -> str:
    return f"{name}-alignments-{place + 1}.png"


def make_gallery(name: str, table: Table, runs: Path, results: Path, figures: Path) -> list[Path]:
    """Once all its models have been trained, each with its first seed; nothing before."""
    wanted = table.gallery
    if wanted is None:
        return []
    folders = {cell: runs / table.expanded()[cell].slug / "seed-0" for cell in wanted.cells}
    if not all((folder / "checkpoints").is_dir() for folder in folders.values()):
        return []
    import pag

    models = {cell: pag.load(str(folder)) for cell, folder in folders.items()}
    numbers = draw_numbers(wanted, len(next(iter(models.values())).task.inputs(wanted.split)))
    found = {cell: answers(model, wanted, numbers) for cell, model in models.items()}
    told = described(wanted, models, numbers, found)
    write_atomically(results / gallery_file(name), to_json(told))
    return [results / gallery_file(name), *draw_gallery(name, told, figures)]


def draw_kept(name: str, results: Path, figures: Path) -> list[Path]:
    """The pictures of a table's gallery where it was made."""
    file = results / gallery_file(name)
    return draw_gallery(name, json.loads(file.read_text("utf-8")), figures) if file.is_file() else []


def draw_gallery(name: str, told: dict[str, Any], figures: Path) -> list[Path]:
    """The pictures of a gallery, from what its file holds."""
    from pag.plots import compare

    looks = [row["looks"] for row in told["rows"] if "looks" in row]
    return [
        compare([(cell, seen(look)) for cell, look in models.items()], figures / picture_file(name, place))
        for place, models in enumerate(looks)
    ]


def draw_numbers(wanted: Gallery, there: int) -> list[int]:
    among = min(AMONG, there)
    chosen = np.random.default_rng(wanted.seed).choice(among, min(wanted.outputs, among), replace=False)
    return sorted(int(number) for number in chosen)


def answers(model: "Generator", wanted: Gallery, numbers: list[int]) -> "list[Result]":
    inputs = model.task.inputs(wanted.split)
    return list(model.generate([inputs[number] for number in numbers], alignments=True))


def described(
    wanted: Gallery, models: "dict[str, Generator]", numbers: list[int], found: "dict[str, list[Result]]"
) -> dict[str, Any]:
    """Everything that is shown; of the shortest outputs also where each model looked."""
    task = next(iter(models.values())).task
    inputs, references = task.inputs(wanted.split), task.references(wanted.split)
    rows: list[dict[str, Any]] = [
        {
            "number": number,
            "source": inputs[number],
            "shown": task.brief(inputs[number], WIDEST),
            "reference": references[number],
            "outputs": {cell: results[place].text for cell, results in found.items()},
        }
        for place, number in enumerate(numbers)
    ]
    whole = [place for place in range(len(rows)) if all(results[place].outputs for results in found.values())]
    shortest = sorted(whole, key=lambda place: max(map(len, rows[place]["outputs"].values())))
    for place in shortest[: wanted.pictures]:
        rows[place]["looks"] = {cell: look(results[place].outputs[0]) for cell, results in found.items()}
    return {"split": wanted.split, "seed": wanted.seed, "among": AMONG, "rows": rows}


def look(output: "Output") -> dict[str, Any]:
    """Where a model looked, as a file keeps it: α in thousandths, a line per step."""
    assert output.alignment is not None
    return {
        "source": list(output.source),
        "tokens": list(output.tokens),
        "alignment": [" ".join(f"{1000 * weight:.0f}" for weight in step) for step in output.alignment],
        "switch": None if output.switch is None else output.switch.astype(int).tolist(),
    }


def seen(kept: dict[str, Any]) -> "Output":
    from pag.generator import Output

    switch = None if kept["switch"] is None else np.array(kept["switch"])
    alignment = np.array([step.split() for step in kept["alignment"]], float) / 1000
    return Output("", 0.0, 0.0, kept["source"], kept["tokens"], alignment, switch=switch)


def gallery_section(name: str, table: Table, results: Path, figures: Path) -> str:
    """Pictures and texts for the results page; nothing where they were not made yet."""
    file = results / gallery_file(name)
    if table.gallery is None or not file.is_file():
        return ""
    found = json.loads(file.read_text("utf-8"))
    cells = [cell for cell in table.expanded().values() if cell.name in table.gallery.cells]
    pictured = [row for row in found["rows"] if "looks" in row]
    shown = [
        f"Where each looked, reading “{row['shown']}”:\n\n![alignments](figures/{picture_file(name, place)})"
        for place, row in enumerate(pictured)
        if (figures / picture_file(name, place)).is_file()
    ]
    head = ["input", "reference", *(cell.name for cell in cells)]
    lines = [head, ["---"] * len(head)]
    for row in found["rows"]:
        texts = (row["shown"], row["reference"], *(row["outputs"][cell.name] for cell in cells))
        lines.append([text.replace("|", "\\|").replace("\n", " ") for text in texts])
    told = (
        f"{len(found['rows'])} of the first {found['among']} of {found['split']}, drawn by seed {found['seed']}; "
        f"the pictures are of those with the shortest outputs. {found.get('note', '')}"
    ).strip()
    return "\n\n".join([*shown, "\n".join(f"| {' | '.join(line)} |" for line in lines), told])
