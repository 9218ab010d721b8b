"""Arrays written piece by piece as .npy files, to be memory-mapped later."""

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np


class ArrayWriter:
    """A one-dimensional .npy file that grows; its length is filled in when it is closed."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self.file = path.open("wb")
        self.file.write(self._header())

    def _header(self) -> bytes:
        """Always 128 bytes, so that the length can be replaced in place."""
        words = f"{{'descr': {self.dtype.str!r}, 'fortran_order': False, 'shape': ({self.length},), }}"
        return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + f"{words:117}\n".encode("latin1")

    def append(self, values: np.ndarray) -> None:
        self.file.write(values.astype(self.dtype, copy=False).tobytes())
        self.length += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.file.seek(0)
            self.file.write(self._header())
            self.file.flush()
            os.fsync(self.file.fileno())
        self.file.close()


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
