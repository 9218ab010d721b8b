"""Public data by name: downloads that go on where they stopped, are verified, and are unpacked into plain text."""

import hashlib
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from pag.checkpoint import cannot_write
from pag.errors import DataError, nearest

KEPT = "archives"
CHUNK = 1 << 20
TRIES = 4
TIMEOUT = 60.0  # seconds without a byte
Tick = Callable[[int, int | None], None]  # bytes so far, of how many


@dataclass(frozen=True)
class Archive:
    """A file to download; what is not surely known is None."""

    url: str
    size: int | None = None  # bytes
    checksum: str | None = None  # "sha256:…" or "md5:…"

    @property
    def name(self) -> str:
        """Unlike the URL's last part, different for different files."""
        return "-".join(self.url.split("/")[-2:])


@dataclass(frozen=True)
class Text:
    """Two files inside an archive, found by their names wherever they lie, and what they become."""

    archive: Archive
    source: str
    target: str
    split: str


@dataclass(frozen=True)
class Collection:
    texts: tuple[Text, ...]
    languages: tuple[str, str]
    note: str = ""

    @property
    def archives(self) -> list[Archive]:
        return list(dict.fromkeys(text.archive for text in self.texts))

    def place(self, archive: Archive, folder: Path) -> Path:
        """Where it is kept."""
        return folder / KEPT / archive.name

    def unpack(self, folder: Path) -> None:
        for text in self.texts:
            unpack(text, self.place(text.archive, folder), folder, self.languages)

    def command(self, folder: Path) -> str:
        """What to type next."""
        return prepare_command(self, folder)


@dataclass(frozen=True)
class Files:
    """Files that are used as they come, under their own names."""

    archives: tuple[Archive, ...]
    then: str  # what to type next, {folder} being where they are
    note: str = ""

    def place(self, archive: Archive, folder: Path) -> Path:
        return folder / archive.url.rpartition("/")[2]

    def unpack(self, folder: Path) -> None:
        """There is nothing to unpack."""

    def command(self, folder: Path) -> str:
        return self.then.format(folder=folder)


STATMT = "https://www.statmt.org"
EUROPARL = Archive(
    f"{STATMT}/wmt13/training-parallel-europarl-v7.tgz",
    657_632_379,
    "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
EUROPARL_FI = Archive(f"{STATMT}/wmt15/europarl-v8.fi-en.tgz")
CRAWL = Archive(
    f"{STATMT}/wmt13/training-parallel-commoncrawl.tgz",
    918_311_367,
    "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
NEWS = Archive(
    f"{STATMT}/wmt15/training-parallel-nc-v10.tgz",
    125_136_590,
    "sha256:11e053e7ea29e87e69a1ad05e61cb559820947ecec144ea8c1d6cf05017c9602",
)
DEV = Archive(
    "https://data.statmt.org/wmt19/translation-task/dev.tgz",
    38_654_961,
    "sha256:7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)
TEST_2013 = Archive(f"{STATMT}/wmt13/test.tgz", None, "md5:48eca5d02f637af44e85186847141f67")
TEST_2014 = Archive(f"{STATMT}/wmt14/test-full.tgz", None, "md5:a8cd784e006feb32ac6f3d9ec7eb389a")
TEST_2015 = Archive(f"{STATMT}/wmt15/test.tgz", None, "md5:67e3beca15e69fe3d36de149da0a96df")


def _wmt15(other: str) -> Collection:
    """WMT'15 from English, as far as it can be had without registration."""
    pair = f"{other}-en"
    texts = [Text(EUROPARL, f"europarl-v7.{pair}.en", f"europarl-v7.{pair}.{other}", "train.europarl")]
    texts += [Text(CRAWL, f"commoncrawl.{pair}.en", f"commoncrawl.{pair}.{other}", "train.commoncrawl")]
    texts += [Text(NEWS, f"news-commentary-v10.{pair}.en", f"news-commentary-v10.{pair}.{other}", "train.news")]
    held_out = [
        Text(TEST_2013, "newstest2013-src.en.sgm", f"newstest2013-src.{other}.sgm", "newstest2013"),
        Text(
            TEST_2014, f"newstest2014-{other}en-src.en.sgm", f"newstest2014-{other}en-ref.{other}.sgm", "newstest2014"
        ),
        Text(
            TEST_2015, f"newstest2015-en{other}-src.en.sgm", f"newstest2015-en{other}-ref.{other}.sgm", "newstest2015"
        ),
    ]
    return Collection((*texts, *held_out), ("en", other))


SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
DU = "https://raw.githubusercontent.com/xinyadu/nqg/7f8bb00af7881bb8d8eaedc61e38e4114ff43ac6/data"
COLLECTIONS: dict[str, Collection | Files] = {
    "squad": Files(
        (
            Archive(f"{SQUAD}/train-v1.1.json", 30_288_272, "md5:981b29407e0affa3b1b156f72073b945"),
            Archive(f"{SQUAD}/dev-v1.1.json", 4_854_279, "md5:3e85deb501d4e538b6bc56f786231552"),
            Archive(
                f"{DU}/doclist-train.txt",
                6_004,
                "sha256:2c99082b23fcfb6c0d9c12fe6140eedd1690d581b1e7c8d38b36eeca4677d998",
            ),
            Archive(
                f"{DU}/doclist-dev.txt", 761, "sha256:9f8220717484ad975348e913fde4616dc47ee1f6bd079a694c8c441c68b3f06d"
            ),
            Archive(
                f"{DU}/doclist-test.txt", 809, "sha256:2a2b79a476e04276f2fdecbbb991db2ee2a712ecc4ef2f02629d46681f8bd108"
            ),
        ),
        "pag prepare questions {folder}/prepared --train {folder}/train-v1.1.json --test {folder}/dev-v1.1.json",
        "doclist-*.txt are the articles of the split by Du et al. (2017): --articles train=doclist-train.txt and so on",
    ),
    "wmt15/en-de": _wmt15("de"),
    "wmt15/en-cs": Collection(
        _wmt15("cs").texts,
        ("en", "cs"),
        "CzEng 1.0, most of the task's Czech text, needs a registration and is not among these files: add it by hand "
        "(https://ufal.mff.cuni.cz/czeng/czeng10)",
    ),
    "wmt15/en-fi": Collection(
        (
            Text(EUROPARL_FI, "europarl-v8.fi-en.en", "europarl-v8.fi-en.fi", "train.europarl"),
            Text(DEV, "newsdev2015-enfi-src.en.sgm", "newsdev2015-enfi-ref.fi.sgm", "newsdev2015"),
            Text(TEST_2015, "newstest2015-enfi-src.en.sgm", "newstest2015-enfi-ref.fi.sgm", "newstest2015"),
        ),
        ("en", "fi"),
    ),
}


def collection(name: str) -> Collection | Files:
    if name not in COLLECTIONS:
        raise DataError(f"unknown data '{name}'{nearest(name, COLLECTIONS)}")
    return COLLECTIONS[name]


def plan(found: Collection | Files, folder: Path) -> list[str]:
    """What will be downloaded, and how big it is, a line each."""
    lines, total, unsure = [], 0, False
    for archive in found.archives:
        have = found.place(archive, folder).is_file()
        size = archive.size if archive.size is not None else _asked_size(archive.url)
        unsure |= size is None
        total += 0 if have else (size or 0)
        state = "already here" if have else "size unknown" if size is None else megabytes(size)
        lines.append(f"{state:>14}  {archive.url}")
    return [*lines, f"{megabytes(total):>14}  to download{' at least' if unsure else ''}"]


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _asked_size(url: str) -> int | None:
    try:
        with urlopen(Request(url, method="HEAD"), timeout=TIMEOUT) as reply:
            length = reply.headers.get("Content-Length")
    except (OSError, HTTPException):
        return None
    return int(length) if length and length.isdigit() else None


def fetch(
    found: Collection | Files, folder: Path, tick: Callable[[str], Tick] = lambda name: lambda done, total: None
) -> None:
    """Download every archive of a collection and unpack its texts into the folder."""
    places = {archive: found.place(archive, folder) for archive in found.archives}
    for place in places.values():
        _make(place.parent)
    missing = sum(archive.size or 0 for archive, place in places.items() if not place.is_file())
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise DataError(f"{megabytes(missing)} to download, but {folder} has {megabytes(free)} free")
    for archive, place in places.items():
        download(archive, place, tick(place.name))
    found.unpack(folder)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None


# downloading


def download(
    archive: Archive, path: Path, tick: Tick = lambda done, total: None, wait: Callable[[float], None] = time.sleep
) -> Path:
    """Bring a file here, going on from what an earlier try left. A file that is here is verified, but left alone."""
    if path.is_file():
        if wrong := _wrong(archive, path):
            raise DataError(
                f"{path} is not what {archive.url} gives: {wrong}; remove it, and the same command brings it"
            )
        return path
    part = path.with_name(f"{path.name}.part")
    for attempt in range(TRIES):
        try:
            _go_on(archive, part, tick)
            break
        except HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise DataError(f"{archive.url}: the server says {error.code} {error.reason}") from None
            _again(archive, part, attempt, f"the server says {error.code} {error.reason}")
        except (HTTPException, URLError, TimeoutError, ConnectionError) as error:
            _again(archive, part, attempt, str(getattr(error, "reason", error)) or type(error).__name__)
        except OSError as error:
            raise cannot_write(part, error) from None
        wait(2.0**attempt)
    _verify(archive, part)
    part.replace(path)
    return path


def _again(archive: Archive, part: Path, attempt: int, why: str) -> None:
    """Let the next attempt begin, or give up."""
    if attempt + 1 < TRIES:
        return
    have = part.stat().st_size if part.exists() else 0
    raise DataError(
        f"{archive.url}: {why}; {have:,} bytes are kept in {part}: the same command goes on from there"
    ) from None


def _go_on(archive: Archive, part: Path, tick: Tick) -> None:
    """One request for what is still missing."""
    have = part.stat().st_size if part.exists() else 0
    if archive.size is not None and have >= archive.size:
        return
    with _reply(archive.url, have) as reply:
        if reply is None:  # nothing lies past what is here
            return
        resumed = reply.status == 206 and str(reply.headers.get("Content-Range")).startswith(f"bytes {have}-")
        have = have if resumed else 0
        length = reply.headers.get("Content-Length")
        total = archive.size or (have + int(length) if length else None)
        with part.open("ab" if resumed else "wb") as file:
            have += _copy(reply, file, lambda done: tick(have + done, total))
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


@contextmanager
def _reply(url: str, start: int) -> Iterator[HTTPResponse | None]:
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urlopen(request, timeout=TIMEOUT) as reply:
            yield reply
    except HTTPError as error:
        if error.code != 416:
            raise
        yield None


def _copy(reply: HTTPResponse, file: BinaryIO, tick: Callable[[int], None]) -> int:
    done = 0
    while chunk := reply.read1(CHUNK):
        file.write(chunk)
        done += len(chunk)
        tick(done)
    return done


def _verify(archive: Archive, part: Path) -> None:
    """A file that is not what it should be is removed: going on from it would be no use."""
    if wrong := _wrong(archive, part):
        part.unlink()
        raise DataError(f"{archive.url}: {wrong}: the file is damaged or was changed; removed, try again")


def _wrong(archive: Archive, path: Path) -> str:
    """What tells the file from the archive, as far as that is known; nothing where it is the same."""
    size = path.stat().st_size
    if archive.size is not None and size != archive.size:
        return f"it has {size:,} bytes, not {archive.size:,}"
    if archive.checksum is None:
        return ""
    kind, _, wanted = archive.checksum.partition(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    return "" if found == wanted else f"its {kind} is {found}, not {wanted}"


# unpacking


def unpack(text: Text, archive: Path, folder: Path, languages: tuple[str, str]) -> None:
    """Write both sides as plain text, one sentence a line, as `<split>.<language>`."""
    files = [folder / f"{text.split}.{language}" for language in languages]
    if all(file.is_file() for file in files):
        return
    members = _read(archive, (text.source, text.target))
    for file, (name, content) in zip(files, members, strict=True):
        lines = segments(content) if name.endswith(".sgm") else content
        unfinished = file.with_name(f"{file.name}.unfinished")
        try:
            unfinished.write_bytes(lines)
            unfinished.replace(file)
        except OSError as error:
            raise cannot_write(file, error) from None


def _read(archive: Path, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """The named members, wherever they lie in the archive."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name).name
                if name in names and name not in found and (file := tar.extractfile(member)):
                    found[name] = file.read()
                if len(found) == len(set(names)):
                    break
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{archive} cannot be unpacked: {error}; remove it and fetch again") from None
    for name in names:
        if name not in found:
            raise DataError(f"{archive} has no file {name}: the archive has changed since this was written")
    return [(name, found[name]) for name in names]


def segments(sgm: bytes) -> bytes:
    """The sentences of a WMT test file, one a line."""
    found = re.findall(r"<seg[^>]*>(.*?)</seg>", sgm.decode("utf-8"), re.DOTALL | re.IGNORECASE)
    return "".join(f"{' '.join(sentence.split())}\n" for sentence in found).encode()


def prepare_command(found: Collection, folder: Path) -> str:
    """What to type next."""
    source, target = found.languages
    parts = [f"pag prepare translation {folder}/prepared --source-language {source} --target-language {target}"]
    splits = list(dict.fromkeys(text.split for text in found.texts))
    held_out = [split for split in splits if not split.startswith("train.")]
    for split in splits:
        files = f"{folder}/{split}.{source}", f"{folder}/{split}.{target}"
        if split in held_out[1:-1]:
            parts.append(f"--also {split}={','.join(files)}")
            continue
        name = "train" if split not in held_out else "valid" if split == held_out[0] else "test"
        parts.append(f"--{name}-source {files[0]} --{name}-target {files[1]}")
    return " \\\n    ".join(parts)
