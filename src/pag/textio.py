"""Lines in, lines and records out. Order is kept: one line out per line in."""

import json
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np

from pag.errors import InputError
from pag.generator import Output, Result
from pag.prepare.reading import LineFile
from pag.text.word_alignment import word_alignment

RECORDS = ("alignment", "plan", "gate", "switch", "commitment", "copying", "copied", "copy_share")


def read_lines(path: Path | None) -> Iterator[str | InputError]:
    """Lines of a file, plain or packed, or of standard input; one that is not UTF-8 comes as the error to report."""
    with LineFile(path or Path("-")) as file:
        while taken := file.take(1):
            yield _text(taken[0])


def _text(line: bytes) -> str | InputError:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        return InputError(f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}): convert the file first")


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {_why(error)}")


def strict_lines(path: Path | None) -> list[str]:
    """All lines, the first bad one refused."""
    lines = []
    for number, line in enumerate(read_lines(path)):
        if isinstance(line, InputError):
            raise InputError(f"{path or 'standard input'}, line {number + 1}: {line}")
        lines.append(line)
    return lines


def as_json(result: Result, records: bool) -> dict[str, Any]:
    """A result as JSON: its text, scores, all outputs, and what they looked at where recorded."""
    line: dict[str, Any] = {"text": result.text, "outputs": [_output(output, records) for output in result.outputs]}
    return line | {name: value for name in ("warning", "error") if (value := getattr(result, name))}


def _output(output: Output, records: bool) -> dict[str, Any]:
    line: dict[str, Any] = {"text": output.text, "score": output.score, "log_prob": output.log_prob}
    if output.copied is not None:
        line |= {"tokens": output.tokens}
    if records:
        line |= {"source": output.source, "tokens": output.tokens}
        line |= {name: np.round(value, 5).tolist() for name, value in arrays(output).items()}
    return line | copies(output)


def copies(output: Output) -> dict[str, Any]:
    """Where the output can copy: each token's word number in the source, or null; the answer's place there; and how
    many words of the document come before and after the source."""
    if output.copied is None:
        return {}
    places = [place if place >= 0 else None for place in output.copied.tolist()]
    return {"copied": places, "answer": output.answer, "left_out": output.left_out}


def arrays(output: Output) -> dict[str, np.ndarray]:
    return {name: value for name in RECORDS if (value := getattr(output, name)) is not None}


def read_records(path: Path) -> list[Result]:
    """What `pag generate --save` wrote as .jsonl."""
    results = []
    for number, line in enumerate(strict_lines(path)):
        try:
            told = json.loads(line)
            outputs = tuple(_read_output(output) for output in told["outputs"])
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}, line {number + 1}: not a record of `pag generate --save FILE.jsonl`") from None
        results.append(Result(outputs, told.get("warning", ""), told.get("error", "")))
    return results


def _read_output(told: dict[str, Any]) -> Output:
    recorded: dict[str, Any] = {name: np.array(told[name]) for name in RECORDS if name in told}
    if "copied" in told:
        recorded["copied"] = np.array([-1 if place is None else place for place in told["copied"]])
        recorded |= {"answer": tuple(told["answer"]), "left_out": tuple(told.get("left_out", (0, 0)))}
    return Output(
        told["text"], told["score"], told["log_prob"], tuple(told["source"]), tuple(told["tokens"]), **recorded
    )


class RecordWriter:
    """Alignments, plans, switches and commitments of every output, as `.jsonl`, `.npz` or `.pharaoh`."""

    def __init__(self, path: Path, words: str | None = None) -> None:
        """`words`: which side of .pharaoh pairs is counted in words, "source", "target" or "both"."""
        if path.suffix not in (".jsonl", ".npz", ".pharaoh"):
            raise InputError(f"--save {path}: the name must end in .jsonl, .npz or .pharaoh")
        if words is not None and path.suffix != ".pharaoh":
            raise InputError("--words is for --save FILE.pharaoh: the other formats keep every position")
        if words not in (None, "source", "target", "both"):
            raise InputError(f"--words must be source, target or both, not '{words}'")
        self.path, self.words = path, words
        self.number = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            place = stack.enter_context(whole_file(self.path))
            self.file = stack.enter_context(place.open("wb"))
            packed = self.path.suffix == ".npz"
            self.zip = stack.enter_context(zipfile.ZipFile(self.file, "w", zipfile.ZIP_DEFLATED)) if packed else None
            self.stack = stack.pop_all()
        return self

    def write(self, result: Result) -> None:
        try:
            self._write(result)
        except OSError as error:
            raise unwritable(self.path, error) from None
        self.number += 1

    def _write(self, result: Result) -> None:
        if self.zip is not None:
            self._write_arrays(self.zip, result)
        elif self.path.suffix == ".pharaoh":
            self.file.write(((self._pairs(result.outputs[0]) if result.outputs else "") + "\n").encode())
        else:
            self.file.write((json.dumps(as_json(result, records=True), ensure_ascii=False) + "\n").encode())

    def _pairs(self, output: Output) -> str:
        if self.words is None:
            return output.pharaoh()
        return word_alignment(output, self.words != "target", self.words != "source").pharaoh()

    def _write_arrays(self, archive: zipfile.ZipFile, result: Result) -> None:
        """Members `line.output.name`, as in `0.0.alignment`."""
        for rank, output in enumerate(result.outputs):
            named = arrays(output) | {"source": np.array(output.source), "tokens": np.array(output.tokens)}
            for name, value in named.items():
                with archive.open(f"{self.number}.{rank}.{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, value, allow_pickle=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.__exit__(kind, error, trace)


@contextmanager
def output_file(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears only when it is whole."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        yield sys.stdout
        return
    with whole_file(path) as place, place.open("w", encoding="utf-8") as file:
        yield file


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write a file that is to appear only when it is whole. A device, a pipe or a link is written to as it
    is: a file must not take its place."""
    plain = not path.is_symlink() and (path.is_file() or not path.exists())
    place = path.with_name(f"{path.name}.unfinished") if plain else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield place
        place.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        if plain:
            with suppress(OSError):
                place.unlink()
