"""A prepared folder is opened only if it is whole and of this version."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pag.data.folder import MANIFEST
from pag.data.prepared import Prepared
from pag.errors import DataError
from pag.prepare.arrays import ArrayWriter
from pag.prepare.reading import Corpus
from pag.prepare.settings import PrepareSettings
from pag.prepare.translation import prepare


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "a").write_text("a b c\nb c d\n" * 4)
    text = Corpus([folder / "a"], [folder / "a"])
    prepare(PrepareSettings(subwords=20), {"train": text, "valid": text}, folder / "out")
    return folder / "out"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def edit(folder: Path, **changes: object) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_from_another_version_is_refused(folder: Path) -> None:
    edit(folder, format=2)
    with pytest.raises(DataError, match=r"has format 2 of translation; this version reads format 1 .*prepare"):
        Prepared(folder)


def test_something_else_is_refused(folder: Path) -> None:
    edit(folder, task="questions")
    with pytest.raises(DataError, match=r"format 1 of questions"):
        Prepared(folder)
    (folder / MANIFEST).write_text("[1]")
    with pytest.raises(DataError, match=r"format None of something else"):
        Prepared(folder)
    (folder / MANIFEST).write_text('{"format": 1, "task": "translation", "settings": {}, "pairs": {}, "files": {}}')
    with pytest.raises(DataError, match=r"manifest.json was edited or is damaged: it does not tell vocabularies"):
        Prepared(folder)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(DataError, match=r"damaged: not JSON"):
        Prepared(folder)


def test_a_folder_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no prepared folder at .*`pag prepare translation` makes one.*--data FOLDER"):
        Prepared(tmp_path)


def test_a_file_cut_short_or_missing_is_named(folder: Path) -> None:
    path = folder / "train.target.ids.npy"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"train.target.ids.npy is .* bytes, not"):
        Prepared(folder)
    path.unlink()
    with pytest.raises(DataError, match=r"train.target.ids.npy is missing"):
        Prepared(folder)


def test_an_edited_vocabulary_is_refused(folder: Path) -> None:
    path = folder / "characters.json"
    path.write_text(path.read_text().replace('"a"', '"z"'))
    with pytest.raises(DataError, match=r"characters.json was edited"):
        _ = Prepared(folder).characters


def test_an_unknown_split_names_those_there_are(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no split 'test' \(known: train, valid\)"):
        Prepared(folder).examples("test")


def test_arrays_written_in_pieces_map_as_one(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path / "a.npy", np.uint16) as writer:
        for piece in ([1, 2], [], [65535]):
            writer.append(np.array(piece, np.int64))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert mapped.tolist() == [1, 2, 65535] and mapped.dtype == np.uint16


def test_an_array_of_nothing_can_be_read(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path / "a.npy", np.int64):
        pass
    assert np.load(tmp_path / "a.npy").shape == (0,)
