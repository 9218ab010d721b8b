"""Raw text → prepared folder: what is kept and dropped, that it repeats, and that it is all or nothing."""

import gzip
import io
import json
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from pag.cli import app
from pag.data.prepared import Prepared
from pag.errors import DataError
from pag.prepare import translation as module
from pag.prepare.cleaning import clean
from pag.prepare.command import Files, Meter, further_sets, prepare_files
from pag.prepare.misaligned import first_suspicious
from pag.prepare.reading import Corpus, Pairs
from pag.prepare.settings import PrepareSettings
from pag.prepare.spool import Spool
from pag.prepare.translation import prepare
from pag.text.vocabulary import END

SETTINGS = PrepareSettings(subwords=80, characters=40, max_source=12, max_target=60)
ENGLISH = [f"the {animal} sleeps in the {place}." for animal in ("cat", "dog", "cow") for place in ("house", "garden")]
GERMAN = [f"{animal} schläft im {place}." for animal in ("Katze", "Hund", "Kuh") for place in ("Haus", "Garten")]


@pytest.fixture
def picture() -> None:
    """Asked for by the tests that want the histograms drawn; the others do without, which is faster."""


@pytest.fixture(autouse=True)
def _no_picture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "picture" not in request.fixturenames:
        monkeypatch.setattr("pag.prepare.report.draw_lengths", lambda counts, units, path: path.write_bytes(b""))


def write(path: Path, lines: list[str]) -> Path:
    content = "".join(f"{line}\n" for line in lines).encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return path


def corpus(folder: Path, name: str, source: list[str], target: list[str], suffix: str = "") -> Corpus:
    return Corpus([write(folder / f"{name}.en{suffix}", source)], [write(folder / f"{name}.de{suffix}", target)])


def corpora(folder: Path, source: list[str] = ENGLISH, target: list[str] = GERMAN) -> dict[str, Corpus]:
    valid = corpus(folder, "valid", ["A dog; a cow?", ENGLISH[0]], ["Ein Hund; eine Kuh?", "Etwas anderes."])
    test = corpus(folder, "test", ["“Cows”", ""], ["„Kühe“", "nichts"])
    return {"train": corpus(folder, "train", source, target), "valid": valid, "test": test}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    prepare(SETTINGS, corpora(tmp_path), tmp_path / "out")
    return Prepared(tmp_path / "out")


def test_ids_are_the_tokenised_text(prepared: Prepared) -> None:
    example = prepared.examples("train")[1]
    assert prepared.subwords.decode(example.source) == "the cat sleeps in the garden ."
    assert "".join(prepared.characters.decode(example.target or ())) == "Katze schläft im Garten ."
    assert example.source[-1] == END == (example.target or [0])[-1]
    assert len(prepared.examples("train")) == len(ENGLISH)


def test_lengths_are_known_without_reading_the_ids(prepared: Prepared) -> None:
    data = prepared.examples("train")
    assert [[len(data[i].source), len(data[i].target or ())] for i in range(len(data))] == data.lengths.tolist()


def test_a_held_out_set_is_kept_whole_and_as_it_came(prepared: Prepared) -> None:
    assert prepared.lines("test", "source") == ["“Cows”", ""]
    assert prepared.lines("test", "target") == ["„Kühe“", "nichts"]
    assert prepared.lines("train", "source") is None
    assert len(prepared.examples("test")) == 2 and prepared.examples("test")[1].source == [END]


@pytest.mark.usefixtures("picture")
def test_the_same_input_gives_the_same_folder_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with other blocks, several processes, and files packed in another way."""
    source, target = ENGLISH * 30, GERMAN * 30
    prepare(SETTINGS, corpora(tmp_path, source, target), tmp_path / "one")
    monkeypatch.setattr("pag.prepare.reading.BLOCK", 7)
    prepare(SETTINGS, corpora(tmp_path, source, target), tmp_path / "two", workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_packed_files_read_like_plain_ones(tmp_path: Path, suffix: str) -> None:
    plain = [block.source for block in corpus(tmp_path, "a", ENGLISH, GERMAN).blocks()]
    assert [block.source for block in corpus(tmp_path, "a", ENGLISH, GERMAN, suffix).blocks()] == plain


def test_several_files_a_side_follow_one_another(tmp_path: Path) -> None:
    files = [[write(tmp_path / f"{n}.{side}", [f"{side}{n}"] * (n + 1)) for n in range(2)] for side in "ab"]
    both = Corpus(*files)
    assert [line for block in both.blocks() for line in block.source] == [b"a0", b"a1", b"a1"]
    assert both.read == both.size > 0


def test_pairs_come_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{a}\t{b}\n" for a, b in zip(ENGLISH, GERMAN, strict=True)).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(gzip.compress(text)))))
    [block] = Pairs([Path("-")]).blocks()
    assert [line.decode() for line in block.source] == ENGLISH
    assert [line.decode() for line in block.target] == GERMAN


def test_a_line_of_pairs_without_a_tab_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pairs.tsv, line 2: 0 tabs"):
        list(Pairs([write(tmp_path / "pairs.tsv", ["a\tb", "c"])]).blocks())


def test_windows_line_ends_and_a_byte_order_mark_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffone\r\ntwo\r\n".encode())
    [block] = Corpus([tmp_path / "a"], [tmp_path / "a"]).blocks()
    assert block.source == [b"one", b"two"] == block.target


def test_subwords_are_learned_from_lines_evenly_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third of ten lines, although blocks hold four."""
    monkeypatch.setattr("pag.prepare.reading.BLOCK", 4)
    spool, lines = Spool(tmp_path, "train"), [f"line {n}" for n in range(10)]
    for block in corpus(tmp_path, "a", lines, lines).blocks():
        spool.append(clean(block, SETTINGS, {}))
    assert list(spool.sources(4)) == ["line 0", "line 3", "line 6", "line 9"]
    assert list(spool.sources(10)) == lines


# what is dropped


def test_every_dropped_line_has_its_reason_and_the_first_their_numbers(tmp_path: Path) -> None:
    source = [*ENGLISH, "", "one", " ".join(["word"] * 13), "short", "bad", "a \x00 b"]
    target = [*GERMAN, "leer", "w " * 12, " ".join(["wort"] * 9), "x" * 61, "schlecht", "b"]
    made = corpora(tmp_path, source, target)
    bad = (tmp_path / "train.en").read_bytes().replace(b"bad", b"b\xffd").replace(b"\x00", b"")
    (tmp_path / "train.en").write_bytes(bad)
    report = prepare(SETTINGS, made, tmp_path / "out")["splits"]["train"]
    assert report["read"] == 12 and report["kept"] == 7
    assert {reason: found["first"] for reason, found in report["dropped"].items()} == {
        "empty": ["train.en:7"],
        "ratio": ["train.en:8"],
        "too_long": ["train.en:9", "train.en:10"],
        "bad_encoding": ["train.en:11"],
    }


def test_what_is_as_long_as_the_limits_is_kept(tmp_path: Path) -> None:
    source, target = " ".join(["the"] * 12), " ".join(["a"] * 3) + "b" * 55
    more = [(source, "der"), (source + " the", target), (source, target + "b"), (source, target)]
    made = corpora(tmp_path, [*ENGLISH, *(a for a, _ in more)], [*GERMAN, *(b for _, b in more)])
    settings = SETTINGS.model_copy(update={"max_ratio": 12.0})
    report = prepare(settings, made, tmp_path / "out")["splits"]["train"]
    assert report["dropped"]["ratio"]["pairs"] == 0
    assert report["dropped"]["too_long"] == {"pairs": 2, "first": ["train.en:8", "train.en:9"]}
    kept = Prepared(tmp_path / "out").examples("train").lengths[-1]
    assert kept.tolist() == [SETTINGS.max_source + 1, SETTINGS.max_target + 1]  # and the end symbols


def test_a_zero_byte_far_into_a_file_drops_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pag.prepare.reading.BLOCK", 2)
    report = prepare(SETTINGS, corpora(tmp_path, [*ENGLISH, "a\x00b"], [*GERMAN, "ab"]), tmp_path / "out")
    assert report["splits"]["train"]["dropped"]["bad_encoding"] == {"pairs": 1, "first": ["train.en:7"]}


def test_the_limit_on_the_source_counts_subwords(tmp_path: Path) -> None:
    """Seven words, but spelled letter by letter: none was seen twice."""
    rare = "qwertz yxcvb plokij mnbuh zgvft crdxe swayq"
    report = prepare(SETTINGS, corpora(tmp_path, [*ENGLISH, rare], [*GERMAN, rare]), tmp_path / "out")
    assert report["splits"]["train"]["dropped"]["too_long"] == {"pairs": 1, "first": ["train.en:7"]}


def test_training_lines_that_are_also_held_out_are_reported(tmp_path: Path) -> None:
    report = prepare(SETTINGS, corpora(tmp_path), tmp_path / "out")["splits"]["train"]
    assert report["sources_also_in"]["valid"] == {"pairs": 1, "first": ["train.en:1"]}
    assert report["sources_also_in"]["test"] == {"pairs": 0, "first": []}


def test_coverage_counts_what_the_vocabularies_do_not_know(tmp_path: Path) -> None:
    few = SETTINGS.model_copy(update={"characters": 2})
    side = prepare(few, corpora(tmp_path), tmp_path / "out")["splits"]["train"]["target"]
    assert side["vocabulary"] == 5 and side["symbols_used"] == 2
    text = "".join(line.replace(".", " .") for line in GERMAN)
    common = sorted(set(text), key=lambda c: (-text.count(c), c))[:2]
    assert side["unknown"] == sum(c not in common for c in text)


@pytest.mark.usefixtures("picture")
def test_the_report_is_also_text_and_a_picture(tmp_path: Path) -> None:
    prepare(SETTINGS, corpora(tmp_path), tmp_path / "out")
    assert "train: 6 pairs kept of 6" in (tmp_path / "out" / "report.txt").read_text("utf-8")
    assert (tmp_path / "out" / "lengths.png").read_bytes().startswith(b"\x89PNG")


# what is refused


def test_sides_of_unequal_length_are_refused_with_both_counts_and_where_they_part(tmp_path: Path) -> None:
    source = [f"line {'x' * (7 * n % 50)}" for n in range(200)]
    target = [f"zeile {'y' * (7 * n % 50)}" for n in range(200) if n != 120]
    with pytest.raises(DataError, match=r"200 lines but .*train.de has 199.*part at about line 12[12]"):
        prepare(SETTINGS, corpora(tmp_path, source, target), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_first_suspicious_line_is_where_lines_went_missing() -> None:
    lengths = np.random.default_rng(0).integers(10, 200, 3000)
    shorter = np.delete(lengths, slice(1700, 1704))
    assert abs(first_suspicious(lengths, shorter) - 1701) <= 1
    assert abs(first_suspicious(shorter, lengths) - 1701) <= 1


def test_an_empty_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train.de is empty"):
        prepare(SETTINGS, corpora(tmp_path, ENGLISH, []), tmp_path / "out")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    made = corpora(tmp_path)
    (tmp_path / "train.de").write_bytes(b"\x7fELF\x02\x01\x01\x00\x00\x00\n" * 6)
    with pytest.raises(DataError, match=r"train.de is not text: line 1 holds a zero byte"):
        prepare(SETTINGS, made, tmp_path / "out")


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    made = corpora(tmp_path)
    (tmp_path / "train.de").write_bytes("\n".join(GERMAN).encode("latin1"))
    with pytest.raises(DataError, match=r"train.de: most lines are not UTF-8"):
        prepare(SETTINGS, made, tmp_path / "out")
    pairs = write(tmp_path / "pairs", [])
    pairs.write_bytes("".join(map("{}\t{}\n".format, ENGLISH, GERMAN)).encode("latin1"))
    with pytest.raises(DataError, match=r"pairs: most lines are not UTF-8"):
        list(Pairs([pairs]).blocks())


def test_a_held_out_line_that_is_not_text_is_refused_by_its_number(tmp_path: Path) -> None:
    made = corpora(tmp_path)
    (tmp_path / "valid.de").write_bytes(b"gut\nschl\xe4ft\n")  # one line of two is not most
    with pytest.raises(DataError, match=r"valid.en, line 2: the target is not UTF-8"):
        prepare(SETTINGS, made, tmp_path / "out")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_packed_file_cut_short_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", ENGLISH * 50)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"damaged or cut short"):
        list(Corpus([path], [path]).blocks())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*nowhere: no such file"):
        list(Corpus([tmp_path / "nowhere"], [tmp_path / "nowhere"]).blocks())


def test_as_many_files_are_needed_on_each_side(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"2 source files but 1 target files"):
        Corpus([tmp_path, tmp_path], [tmp_path])


def test_text_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no training pair is left of 2: 2 empty"):
        prepare(SETTINGS, corpora(tmp_path, ["", " "], ["a", "b"]), tmp_path / "out")


def test_a_folder_that_is_there_is_not_overwritten_unasked(tmp_path: Path, prepared: Prepared) -> None:
    with pytest.raises(DataError, match=r"out already exists: --replace"):
        prepare(SETTINGS, corpora(tmp_path), tmp_path / "out")
    prepare(SETTINGS, corpora(tmp_path), tmp_path / "out", replace=True)
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match=r"mine already exists: choose another name"):
        prepare(SETTINGS, corpora(tmp_path), tmp_path / "mine", replace=True)


@pytest.mark.parametrize("where", ["clean", "encode", "write_report"])
def test_interrupted_it_leaves_nothing_half_written(
    tmp_path: Path, prepared: Prepared, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    before = contents(tmp_path / "out")

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, where, interrupt)
    for name in ("out", "other"):
        with pytest.raises(KeyboardInterrupt):
            prepare(SETTINGS, corpora(tmp_path), tmp_path / name, replace=True)
    assert contents(tmp_path / "out") == before
    assert not list(tmp_path.glob("other*")) and not list(tmp_path.glob("*.unfinished"))


# the command


def test_the_command_prints_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpora(tmp_path)
    splits = {name: Files([tmp_path / f"{name}.en"], [tmp_path / f"{name}.de"]) for name in ("train", "valid", "test")}
    prepare_files({"subwords": 80}, splits | dict([Files.parse(_also(tmp_path))]), tmp_path / "out", 1, False)
    assert "train: 6 pairs kept of 6" in capsys.readouterr().out
    assert Prepared(tmp_path / "out").splits == ("train", "valid", "test", "more")


def _also(folder: Path) -> str:
    return f"more={folder / 'valid.en'},{folder / 'valid.de'}"


def test_settings_that_do_not_fit_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"subwords: .*not 2; max_ratio: .*not 0.5"):
        prepare_files({"subwords": 2, "max_ratio": 0.5}, {}, tmp_path / "out", 1, False)


def test_held_out_sets_may_be_pairs_too(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / name).write_text("".join(f"{name} a{n}\tb{n}\n" for n in range(4)))
    named = [option for name in ("train", "valid", "test") for option in (f"--{name}-pairs", str(tmp_path / name))]
    done = CliRunner().invoke(app, ["prepare", "translation", str(tmp_path / "out"), "--workers", "1", *named])
    assert done.exit_code == 0
    assert list(Prepared(tmp_path / "out").lines("test", "source") or ()) == [f"test a{n}" for n in range(4)]


def test_train_and_valid_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'valid' is missing: give --valid-source"):
        prepare_files({}, {"train": Files(pairs=[tmp_path / "a"]), "valid": Files()}, tmp_path / "out", 1, False)


def test_either_pairs_or_two_sides() -> None:
    with pytest.raises(DataError, match=r"either pairs, or a source and a target"):
        Files([Path("a")], [Path("b")], [Path("c")]).corpus("train")
    with pytest.raises(DataError, match=r"expected NAME=SOURCE,TARGET"):
        Files.parse("news.en,news.de")


def test_a_stage_that_is_over_has_a_full_bar() -> None:
    """Also one that could not say how far it was."""
    meter = Meter(Console(quiet=True), "pairs")
    for stage, share in (("tokenising", 0.5), ("learning subwords", 0.0), ("encoding train", 0.2)):
        meter.tell(stage, 10, share)
    assert [(bar.description, bar.finished) for bar in meter.bar.tasks] == [
        ("tokenising", True), ("learning subwords", True), ("encoding train", False),
    ]  # fmt: skip


def test_standard_input_is_not_read_for_two_things(tmp_path: Path) -> None:
    """Blocks of one stream would alternate between the sides."""
    stream = Path("-")
    valid = {"valid": Files([tmp_path / "a"], [tmp_path / "b"])}
    for train in (
        Files([stream], [stream]),
        Files([stream, stream], [tmp_path, tmp_path]),
        Files((), (), [stream] * 2),
    ):
        with pytest.raises(DataError, match=r"standard input \(-\) is asked for 2 times"):
            prepare_files({}, {"train": train, **valid}, tmp_path / "out", 1, False)


def test_a_further_set_does_not_take_another_s_name() -> None:
    assert list(further_sets(["a=a.en,a.de", "b=b.en,b.de"])) == ["a", "b"]
    for also in (["train=a.en,a.de"], ["test=a.en,a.de"], ["a=a.en,a.de", "a=b.en,b.de"]):
        with pytest.raises(DataError, match=r"--also (train|test|a)=.*: there is already a set of that name"):
            further_sets(also)


def test_the_manifest_tells_files_sizes_and_checksums(prepared: Prepared) -> None:
    manifest = json.loads((prepared.folder / "manifest.json").read_text())
    assert manifest["pairs"] == {"train": 6, "valid": 2, "test": 2}
    assert manifest["files"].keys() == {path.name for path in prepared.folder.iterdir()} - {"manifest.json"}
