"""A prepared folder: files with their sizes and checksums in a manifest, opened and checked."""

import json
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pag.errors import DataError, nearest

FORMAT = 1
MANIFEST = "manifest.json"


class Folder:
    """What `pag prepare TASK` made."""

    task: ClassVar[str]

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self._manifest()
        self._check_files()

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.manifest["pairs"])

    @property
    def fingerprint(self) -> str:
        return str(self.manifest["vocabularies"])

    def known(self, split: str) -> None:
        if split not in self.splits:
            raise DataError(f"{self.folder} has no split '{split}'{nearest(split, self.splits)}")

    def verified(self, name: str) -> Any:
        """A JSON file whose checksum is the manifest's."""
        content = (self.folder / name).read_bytes()
        if sha256(content).hexdigest() != self.manifest["files"][name]["sha256"]:
            raise DataError(f"{self.folder / name} was edited or is damaged: its checksum is not the one in {MANIFEST}")
        return json.loads(content)

    def _manifest(self) -> dict[str, Any]:
        again = f"`pag prepare {self.task}` makes one"
        try:
            manifest = json.loads((self.folder / MANIFEST).read_bytes())
        except OSError:
            raise DataError(
                f"no prepared folder at {self.folder} (it has no {MANIFEST}): {again}; one that lies elsewhere is "
                "named by --set task.data=FOLDER to train, by --data FOLDER to evaluate"
            ) from None
        except ValueError:
            raise DataError(f"{self.folder / MANIFEST} is damaged: not JSON") from None
        theirs = manifest.get("format") if isinstance(manifest, dict) else None
        if theirs != FORMAT or manifest.get("task") != self.task:
            raise DataError(
                f"{self.folder} has format {theirs} of {manifest.get('task') if theirs else 'something else'}; this "
                f"version reads format {FORMAT} of {self.task}: prepare the text again ({again})"
            )
        if missing := [name for name in ("settings", "vocabularies", "pairs", "files") if name not in manifest]:
            raise DataError(f"{self.folder / MANIFEST} was edited or is damaged: it does not tell {missing[0]}")
        return dict(manifest)

    def _check_files(self) -> None:
        """Sizes only: gigabytes of ids are not read to open a folder."""
        for name, facts in self.manifest["files"].items():
            path = self.folder / name
            if not path.is_file() or path.stat().st_size != facts["bytes"]:
                found = f"{path.stat().st_size:,} bytes" if path.is_file() else "missing"
                raise DataError(
                    f"{path} is {found}, not {facts['bytes']:,} bytes: the folder is damaged, prepare it again"
                )


class Ragged:
    """Sequences of different lengths in two memory-mapped files: all values, and where each sequence starts."""

    def __init__(self, folder: Path, name: str) -> None:
        self.values = mapped(folder / values_file(name))
        self.offsets = mapped(folder / offsets_file(name))

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.values[self.offsets[index] : self.offsets[index + 1]]


def values_file(name: str) -> str:
    return f"{name}.ids.npy"


def offsets_file(name: str) -> str:
    return f"{name}.offsets.npy"


def mapped(path: Path) -> np.ndarray:
    array = np.load(path, allow_pickle=False) if path.stat().st_size <= 128 else np.load(path, mmap_mode="r")
    return np.asarray(array)
