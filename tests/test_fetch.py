"""Downloads from a server of our own: whole, in parts, cut short, changed, or not there."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pag.errors import DataError
from pag.fetch import (
    COLLECTIONS,
    TRIES,
    Archive,
    Collection,
    Files,
    Text,
    collection,
    download,
    fetch,
    plan,
    prepare_command,
    segments,
)

CONTENT = bytes(range(256)) * 40
SUM = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """What it serves, how it misbehaves, and what it was asked for."""

    files: dict[str, bytes] = field(default_factory=lambda: {"/data/file.bin": CONTENT})
    ranges: bool = True  # does it serve parts?
    cut: list[int] = field(default_factory=list)  # the next replies end after so many bytes
    broken: list[int] = field(default_factory=list)  # the next replies have this status
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def archive(self, size: int | None = None, checksum: str | None = None, path: str = "/data/file.bin") -> Archive:
        return Archive(self.url + path, size, checksum)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *given: object) -> None: ...

        def do_HEAD(self) -> None:
            self._answer(b"")

        def do_GET(self) -> None:
            state.asked.append(self.headers.get("Range", "whole"))
            self._answer(None)

        def _answer(self, body: bytes | None) -> None:
            whole = state.files.get(self.path)
            if state.broken or whole is None:
                self.send_error(state.broken.pop(0) if state.broken else 404)
                return
            start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if state.ranges else 0
            if start >= len(whole):
                self.send_error(416)
                return
            part = whole[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            part = part if body is None else body
            self.wfile.write(part[: state.cut.pop(0)] if state.cut and body is None else part)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()


def bring(archive: Archive, folder: Path) -> bytes:
    return download(archive, folder / "file.bin", wait=lambda seconds: None).read_bytes()


def test_a_whole_file_comes_and_is_verified(server: Server, tmp_path: Path) -> None:
    ticks: list[tuple[int, int | None]] = []
    download(server.archive(len(CONTENT), SUM), tmp_path / "a", lambda done, total: ticks.append((done, total)))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert ticks[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_that_is_here_is_not_asked_for(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"mine")
    assert bring(server.archive(), tmp_path) == b"mine" and not server.asked


def test_a_file_that_is_here_is_verified_and_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1])
    for archive, wrong in (
        (server.archive(len(CONTENT)), "it has 10,239 bytes, not 10,240"),
        (server.archive(None, SUM), r"its sha256 is \w+, not \w+"),
    ):
        with pytest.raises(DataError, match=rf"file.bin is not what .* gives: {wrong}; remove it"):
            bring(archive, tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT[:-1] and not server.asked


def test_it_goes_on_from_what_is_here(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:4000])
    assert bring(server.archive(checksum=SUM), tmp_path) == CONTENT
    assert server.asked == ["bytes=4000-"]


def test_a_connection_cut_short_is_taken_up_again(server: Server, tmp_path: Path) -> None:
    server.cut = [3000, 2000]
    assert bring(server.archive(len(CONTENT), SUM), tmp_path) == CONTENT
    assert server.asked == ["whole", "bytes=3000-", "bytes=5000-"]


def test_a_server_without_parts_starts_again(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cut = False, [3000]
    assert bring(server.archive(checksum=SUM), tmp_path) == CONTENT


def test_a_file_that_stays_truncated_is_kept_for_the_next_time(server: Server, tmp_path: Path) -> None:
    server.cut = [1000, 1000, 1000, 1000]
    with pytest.raises(DataError, match=r"ended after 4,000 of 10,240 bytes; 4,000 bytes are kept in .*same command"):
        bring(server.archive(len(CONTENT), SUM), tmp_path)
    assert not (tmp_path / "file.bin").exists()
    assert bring(server.archive(len(CONTENT), SUM), tmp_path) == CONTENT
    assert server.asked[-1] == "bytes=4000-"


def test_a_wrong_checksum_is_refused_and_the_file_removed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"its md5 is \w+, not 0123: the file is damaged or was changed; removed"):
        bring(server.archive(checksum="md5:0123"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_size_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"it has 10,240 bytes, not 7: .*; removed"):
        bring(server.archive(7), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_not_asked_for_twice(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing.tgz: the server says 404"):
        bring(server.archive(path="/data/nothing.tgz"), tmp_path)
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.broken = [503, 429]
    assert bring(server.archive(checksum=SUM), tmp_path) == CONTENT
    server.broken = [500] * TRIES
    with pytest.raises(DataError, match="the server says 500"):
        bring(server.archive(), tmp_path / "other")


def test_no_server_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"127.0.0.1:9/a/b: .*refused"):
        bring(Archive("http://127.0.0.1:9/a/b"), tmp_path)


def test_a_part_that_was_already_whole_is_verified(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert bring(server.archive(checksum=SUM), tmp_path) == CONTENT


# collections


def packed(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def small(server: Server) -> Collection:
    sgm = '<srcset>\n<doc>\n<seg id="1">Eins  {}</seg>\n<hl>\n<SEG id="2"> Zwei </SEG>\n</doc>'
    server.files["/wmt15/train.tgz"] = packed({"training/a.de-en.en": "one\n", "training/a.de-en.de": "eins\n"})
    server.files["/wmt15/test.tgz"] = packed(
        {"test/t-src.en.sgm": sgm.format("x"), "test/t-ref.de.sgm": sgm.format("y")}
    )
    train, test = (server.archive(path=f"/wmt15/{name}.tgz") for name in ("train", "test"))
    texts = (
        Text(train, "a.de-en.en", "a.de-en.de", "train.a"),
        Text(test, "t-src.en.sgm", "t-ref.de.sgm", "news1"),
    )
    return Collection(texts, ("en", "de"))


def test_a_collection_becomes_plain_text(small: Collection, tmp_path: Path) -> None:
    fetch(small, tmp_path)
    assert (tmp_path / "train.a.de").read_text() == "eins\n"
    assert (tmp_path / "news1.en").read_text() == "Eins x\nZwei\n"
    assert "--train-source" in prepare_command(small, tmp_path) and "--valid-target" in prepare_command(small, tmp_path)


def test_the_plan_says_what_is_downloaded_and_how_big(small: Collection, server: Server, tmp_path: Path) -> None:
    lines = plan(small, tmp_path)
    assert len(lines) == 3 and "MB" in lines[0] and lines[0].endswith("/wmt15/train.tgz")
    fetch(small, tmp_path)
    assert "already here" in plan(small, tmp_path)[0]
    del server.files["/wmt15/train.tgz"]
    (tmp_path / "archives" / "wmt15-train.tgz").unlink()
    assert "size unknown" in plan(small, tmp_path)[0] and "at least" in plan(small, tmp_path)[-1]


def test_the_command_that_comes_next_prepares_every_set(small: Collection, tmp_path: Path) -> None:
    [train, news] = small.texts
    more = [replace(news, split=f"news{year}") for year in (2, 3, 4)]
    said = prepare_command(replace(small, texts=(train, news, *more)), Path("data"))
    for part in (
        "--train-source data/train.a.en --train-target data/train.a.de",
        "--valid-source data/news1.en --valid-target data/news1.de",
        "--also news2=data/news2.en,data/news2.de",
        "--also news3=data/news3.en,data/news3.de",
        "--test-source data/news4.en --test-target data/news4.de",
    ):
        assert part in said


def test_an_archive_without_the_file_is_named(small: Collection, server: Server, tmp_path: Path) -> None:
    server.files["/wmt15/train.tgz"] = packed({"training/other": ""})
    with pytest.raises(DataError, match=r"has no file a.de-en.en"):
        fetch(small, tmp_path)


def test_an_archive_that_cannot_be_unpacked_is_named(small: Collection, server: Server, tmp_path: Path) -> None:
    server.files["/wmt15/train.tgz"] = b"<html>sorry</html>"
    with pytest.raises(DataError, match=r"train.tgz cannot be unpacked"):
        fetch(small, tmp_path)


def test_more_than_the_disk_holds_is_refused_before_anything_comes(server: Server, tmp_path: Path) -> None:
    huge = Collection((Text(server.archive(10**18), "a", "b", "train.a"),), ("en", "de"))
    with pytest.raises(DataError, match="MB free"):
        fetch(huge, tmp_path)
    assert not server.asked


def test_names_lead_to_collections() -> None:
    assert set(COLLECTIONS) == {"squad", "wmt15/en-de", "wmt15/en-cs", "wmt15/en-fi"}
    with pytest.raises(DataError, match=r"unknown data 'wmt15/en-ed' \(did you mean 'wmt15/en-de'"):
        collection("wmt15/en-ed")
    for one in COLLECTIONS.values():
        assert len({archive.name for archive in one.archives}) == len(one.archives)
        assert all(archive.url.startswith("https://") for archive in one.archives)


def test_segments_keep_blanks_out_and_text_in() -> None:
    assert segments(b'<seg id="1">a\n b</seg><seg id="2"></seg>') == b"a b\n\n"


def test_files_that_need_no_unpacking_come_under_their_own_names(server: Server, tmp_path: Path) -> None:
    found = Files((server.archive(len(CONTENT), SUM),), "use {folder}/file.bin")
    server.cut = [100]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", lambda seconds: None)
        fetch(found, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["file.bin"]
    assert (tmp_path / "out" / "file.bin").read_bytes() == CONTENT
    assert found.command(tmp_path / "out") == f"use {tmp_path}/out/file.bin"
    assert "already here" in plan(found, tmp_path / "out")[0]


def test_squad_is_whole_and_verified() -> None:
    found = collection("squad")
    assert all(archive.size and archive.checksum for archive in found.archives)
    assert {found.place(archive, Path("x")).name for archive in found.archives} == {
        "train-v1.1.json", "dev-v1.1.json", "doclist-train.txt", "doclist-dev.txt", "doclist-test.txt",
    }  # fmt: skip
