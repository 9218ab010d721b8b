"""A prepared folder: ids in memory-mapped files, vocabularies, the held-out sets' own text."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pag.data.batch import Example
from pag.errors import DataError, nearest
from pag.text.subwords import Subwords
from pag.text.vocabulary import Vocabulary

FORMAT = 1
MANIFEST = "manifest.json"
SIDES = ("source", "target")


def ids_file(split: str, side: str) -> str:
    return f"{split}.{side}.ids.npy"


def offsets_file(split: str, side: str) -> str:
    return f"{split}.{side}.offsets.npy"


def text_file(split: str, side: str) -> str:
    return f"{split}.{side}.txt"


def fingerprint(subwords: Any, characters: Sequence[str]) -> str:
    """Two folders, or a folder and a checkpoint, mean the same by their ids if and only if this agrees."""
    both = json.dumps([subwords, list(characters)], sort_keys=True)
    return hashlib.sha256(both.encode()).hexdigest()


class MappedDataset:
    """One split's examples, read from disk as they are asked for."""

    def __init__(self, folder: Path, split: str) -> None:
        self.ids = [_mapped(folder / ids_file(split, side)) for side in SIDES]
        self.offsets = [_mapped(folder / offsets_file(split, side)) for side in SIDES]
        self.lengths = np.stack([np.diff(offsets) for offsets in self.offsets], axis=1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Example:
        source, target = (
            ids[offsets[index] : offsets[index + 1]].tolist()
            for ids, offsets in zip(self.ids, self.offsets, strict=True)
        )
        return Example(source, target)


class Prepared:
    """A prepared folder, opened and checked."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self._manifest()
        self.languages = (
            self.manifest["settings"]["source_language"],
            self.manifest["settings"]["target_language"],
        )
        self._check_files()

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.manifest["pairs"])

    @property
    def fingerprint(self) -> str:
        return str(self.manifest["vocabularies"])

    @cached_property
    def subwords(self) -> Subwords:
        return Subwords.from_json(self._verified("subwords.json"))

    @cached_property
    def characters(self) -> Vocabulary:
        return Vocabulary(self._verified("characters.json"))

    def examples(self, split: str) -> MappedDataset:
        self._known(split)
        return MappedDataset(self.folder, split)

    def lines(self, split: str, side: str) -> list[str] | None:
        """The text as it came, of a held-out split; None where only ids were kept."""
        self._known(split)
        path = self.folder / text_file(split, side)
        return path.read_bytes().decode().split("\n")[:-1] if path.is_file() else None

    def _known(self, split: str) -> None:
        if split not in self.splits:
            raise DataError(f"{self.folder} has no split '{split}'{nearest(split, self.splits)}")

    def _manifest(self) -> dict[str, Any]:
        again = "`pag prepare translation` makes one"
        try:
            manifest = json.loads((self.folder / MANIFEST).read_bytes())
        except OSError:
            raise DataError(f"no prepared folder at {self.folder} (it has no {MANIFEST}): {again}") from None
        except ValueError:
            raise DataError(f"{self.folder / MANIFEST} is damaged: not JSON") from None
        theirs = manifest.get("format") if isinstance(manifest, dict) else None
        if theirs != FORMAT or manifest.get("task") != "translation":
            raise DataError(
                f"{self.folder} has format {theirs} of {manifest.get('task') if theirs else 'something else'}; this "
                f"version reads format {FORMAT} of translation: prepare the text again ({again})"
            )
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

    def _verified(self, name: str) -> Any:
        content = (self.folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != self.manifest["files"][name]["sha256"]:
            raise DataError(f"{self.folder / name} was edited or is damaged: its checksum is not the one in {MANIFEST}")
        return json.loads(content)


def _mapped(path: Path) -> np.ndarray:
    array = np.load(path, allow_pickle=False) if path.stat().st_size <= 128 else np.load(path, mmap_mode="r")
    return np.asarray(array)
