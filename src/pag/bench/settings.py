"""What is measured, how large, and how often."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

from pag.errors import InputError, nearest
from pag.generator import device_of

VARIANTS = ("baseline", "rpag", "pag")
ALWAYS = ("train", "update", "decode", "replan", "scaling")
SECTIONS = (*ALWAYS, "ragged")  # which needs data
CLOCKS = ("wall", "cpu")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Sizes:
    """One batch. Embedding, encoder (each direction) and both decoder layers have `units` units."""

    batch: int = 16
    source: int = 30
    target: int = 60
    units: int = 256
    k: int = 10
    vocabulary: int = 302  # the paper's target characters
    attention: int | None = None  # units of our alignment MLP; default: twice the encoder's, as in a recipe
    layer_norm: bool = False

    def with_(self, name: str, value: int) -> "Sizes":
        return Sizes(**{**asdict(self), name: value})


@dataclass(frozen=True)
class Settings:
    preset: str
    device: str = "cpu"
    sizes: Sizes = Sizes()
    precisions: tuple[str, ...] = ("float32",)
    threads: int | None = None
    clock: str = "wall"  # or cpu: processor time
    variants: tuple[str, ...] = VARIANTS
    sections: tuple[str, ...] = ALWAYS
    data: str | None = None  # prepared text whose lengths make ragged batches
    rounds: int = 11  # timed runs of each contestant
    patience: float = 6.0  # seconds after which a contestant sits out, once it has run three times
    beams: tuple[int, ...] = (1, 5, 15)
    sentences: int = 16  # searched at once
    length: int = 60  # of each output found
    replan_every: tuple[int, ...] = (1, 2, 10)  # steps from one re-plan to the next
    scaling: dict[str, tuple[int, ...]] = field(default_factory=dict)  # size → its values

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PRESETS = {
    "cpu": Settings(
        "cpu",
        threads=2,
        scaling={"target": (15, 30, 60, 120), "source": (15, 30, 60), "batch": (4, 16, 32), "k": (5, 10, 20)},
    ),
    "h200": Settings(
        "h200",
        "cuda",
        Sizes(batch=64, source=50, target=200, units=600),
        ("float32", "bfloat16"),
        rounds=7,
        patience=1.5,
        sentences=256,
        length=200,
        scaling={"target": (50, 100, 200, 500), "source": (25, 50, 100), "batch": (16, 64, 256), "k": (5, 10, 20)},
    ),
    "smoke": Settings(
        "smoke",
        sizes=Sizes(batch=2, source=4, target=3, units=8, k=3, vocabulary=12),
        threads=1,
        rounds=2,
        beams=(1, 2),
        sentences=2,
        length=4,
        replan_every=(1, 3),
        scaling={"target": (2, 3), "k": (2, 3)},
    ),
}


def choose_preset(preset: str, device: str) -> tuple[Settings, str]:
    """The settings, and one line that says which and why. "auto" takes the device's own."""
    chosen = str(device_of(device))
    if not chosen.startswith(("cpu", "cuda")):
        raise InputError(f"--device must be auto, cpu or cuda: on {chosen} nothing is timed right")
    if preset == "auto":
        preset = "h200" if chosen.startswith("cuda") else "cpu"
        why = f"chosen for the device {chosen}"
    elif preset in PRESETS:
        why = f"on the device {chosen}"
    else:
        raise InputError(f"unknown preset '{preset}'{nearest(preset, PRESETS)}")
    return replace(PRESETS[preset], device=chosen), f"preset {preset}, {why}"


def override(settings: Settings, **given: Any) -> Settings:
    """The settings with what is given (and neither None nor empty) in their place."""
    given = {name: value for name, value in given.items() if value not in (None, [], ())}
    sizes = {name: given.pop(name) for name in [f.name for f in fields(Sizes)] if name in given}
    _check("--variant", given.get("variants", ()), VARIANTS)
    _check("--only", given.get("sections", ()), SECTIONS)
    _check("--precision", given.get("precisions", ()), tuple(PRECISIONS))
    _check("--clock", [given.get("clock", settings.clock)], CLOCKS)
    if given.get("clock") == "cpu" and settings.device.startswith("cuda"):
        raise InputError("--clock: processor time says nothing about a GPU; use wall")
    if "data" in given and "ragged" not in given.get("sections", settings.sections):
        raise InputError("--data is read by --only ragged alone")
    if "replan" in given.get("sections", ()) and set(given.get("variants", settings.variants)) == {"baseline"}:
        raise InputError("--only replan: the baseline has no plan to follow; add --variant pag or rpag")
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list | tuple)}
    return replace(settings, **{**given, **lists}, sizes=replace(settings.sizes, **sizes))


def _check(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for value in given:
        if value not in known:
            raise InputError(f"{option}: unknown '{value}'{nearest(value, known)}")
