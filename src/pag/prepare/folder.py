"""A prepared folder in the making: whole or not at all, with every file in its manifest."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from pag.checkpoint import cannot_write, to_json, write_durably
from pag.config import Settings
from pag.data.folder import FORMAT, MANIFEST, offsets_file, values_file
from pag.errors import DataError
from pag.prepare.arrays import ArrayWriter, checksum


@contextmanager
def whole(out: Path, replace: bool) -> Iterator[Path]:
    """A folder to write into that takes its name only when it is whole."""
    if out.exists() and not (replace and (out / MANIFEST).is_file()):
        hint = "--replace writes it anew" if (out / MANIFEST).is_file() else "choose another name"
        raise DataError(f"{out} already exists: {hint}")
    unfinished = out.with_name(f"{out.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        yield unfinished
        shutil.rmtree(out, ignore_errors=True)
        os.replace(unfinished, out)
    except OSError as error:
        raise cannot_write(out, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_manifest(folder: Path, task: str, settings: Settings, fingerprint: str, pairs: Mapping[str, int]) -> None:
    """Last: it lists every file there is."""
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    manifest = {
        "format": FORMAT,
        "task": task,
        "settings": settings.model_dump(),
        "vocabularies": fingerprint,
        "pairs": dict(pairs),
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": checksum(path)} for path in files},
    }
    write_durably(folder / MANIFEST, to_json(manifest))


class RaggedWriter:
    """Sequences of different lengths: all values in one file, and where each starts in another."""

    def __init__(self, folder: Path, name: str, dtype: Any) -> None:
        self.stack = ExitStack()
        self.values = self.stack.enter_context(ArrayWriter(folder / values_file(name), dtype))
        self.offsets = self.stack.enter_context(ArrayWriter(folder / offsets_file(name), np.int64))
        self.offsets.append(np.zeros(1, np.int64))

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        start = self.values.length
        self.values.append(values)
        self.offsets.append(start + np.cumsum(lengths))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self.stack.__exit__(*failure)
