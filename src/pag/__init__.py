"""Planning attention for sequence-to-sequence models.

model = pag.load("runs/quickstart")
[result] = model.generate("1 connected-to 2 … eulerian-circuit 1 2", beam=5, alignments=True)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pag.generator import Generator, Output, Result, Score

__all__ = ["Generator", "Output", "Result", "Score", "load"]


def load(folder: str | Path, device: str = "auto", ensemble: Sequence[str | Path] = ()) -> "Generator":
    """The model of a run or checkpoint folder: its best checkpoint, else its last.

    `ensemble` names further runs with the same vocabularies that decode together with it.
    """
    from pag.generator import Generator

    return Generator.load(folder, device, ensemble)


def __getattr__(name: str) -> Any:
    """The classes are imported when asked for, so that `import pag` stays light."""
    if name in __all__:
        from pag import generator

        return getattr(generator, name)
    raise AttributeError(f"module 'pag' has no attribute '{name}'")
