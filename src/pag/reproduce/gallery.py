"""Outputs of several models for the same inputs: pictures of where each looked, and texts side by side.

As the paper's Figure 2 and the table of its appendix, but drawn at random by a stated seed.
"""

import json
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from pag.checkpoint import to_json, write_atomically
from pag.reproduce.tables import Gallery, Table

if TYPE_CHECKING:
    from pag.generator import Generator, Result

WIDEST = 60  # characters of an output that a picture's title shows
AMONG = 100  # first examples of the split that are drawn from, as the paper does


def gallery_file(name: str) -> str:
    return f"{name}-gallery.json"


def picture_file(name: str, slug: str) -> str:
    return f"{name}-alignments-{slug}.png"


def make_gallery(name: str, table: Table, runs: Path, results: Path, figures: Path) -> list[Path]:
    """Once all its models have been trained, each with its first seed; nothing before."""
    wanted = table.gallery
    if wanted is None:
        return []
    cells = {cell: table.expanded()[cell] for cell in wanted.cells}
    folders = {cell: runs / cells[cell].slug / "seed-0" for cell in cells}
    if not all((folder / "checkpoints").is_dir() for folder in folders.values()):
        return []
    import pag

    models = {cell: pag.load(str(folder)) for cell, folder in folders.items()}
    numbers = draw_numbers(wanted, len(next(iter(models.values())).task.inputs(wanted.split)))
    found = {cell: answers(model, wanted, numbers) for cell, model in models.items()}
    write_atomically(results / gallery_file(name), to_json(described(wanted, models, numbers, found)))
    shortest = sorted(range(len(numbers)), key=lambda i: max(len(found[cell][i].text) for cell in cells))
    return [results / gallery_file(name)] + [
        picture(found[cell], shortest[: wanted.pictures], figures / picture_file(name, cells[cell].slug))
        for cell in cells
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
    task = next(iter(models.values())).task
    inputs, references = task.inputs(wanted.split), task.references(wanted.split)
    rows = [
        {
            "number": number,
            "source": inputs[number],
            "reference": references[number],
            "outputs": {cell: results[place].text for cell, results in found.items()},
        }
        for place, number in enumerate(numbers)
    ]
    return {"split": wanted.split, "seed": wanted.seed, "among": AMONG, "rows": rows}


def picture(results: "list[Result]", places: list[int], path: Path) -> Path:
    from pag.plots import alignments

    titled = [(shorten(results[i].text, WIDEST), results[i].outputs[0]) for i in places if results[i].outputs]
    return alignments(titled, path)


def gallery_section(name: str, table: Table, results: Path, figures: Path) -> str:
    """Pictures and texts for the results page; nothing where they were not made yet."""
    file = results / gallery_file(name)
    if table.gallery is None or not file.is_file():
        return ""
    found = json.loads(file.read_text("utf-8"))
    cells = [cell for cell in table.expanded().values() if cell.name in table.gallery.cells]
    shown = [
        f"Where {cell.name} looked:\n\n![alignments](figures/{picture_file(name, cell.slug)})"
        for cell in cells
        if (figures / picture_file(name, cell.slug)).is_file()
    ]
    head = ["input", "reference", *(cell.name for cell in cells)]
    lines = [head, ["---"] * len(head)]
    for row in found["rows"]:
        texts = (row["source"], row["reference"], *(row["outputs"][cell.name] for cell in cells))
        lines.append([text.replace("|", "\\|").replace("\n", " ") for text in texts])
    told = (
        f"{len(found['rows'])} of the first {found['among']} of {found['split']}, drawn by seed {found['seed']}; "
        "the pictures are of those with the shortest outputs."
    )
    return "\n\n".join([*shown, "\n".join(f"| {' | '.join(line)} |" for line in lines), told])
