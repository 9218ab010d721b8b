"""The page in one file: whole, closed to the network, and faithful to what was stored."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pag
from pag.cli import app
from pag.errors import InputError
from pag.generator import Output, Result
from pag.textio import RecordWriter, read_records
from pag.viewer import page


def result(text: str = "x y") -> Result:
    alignment = np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]], np.float32)
    plan = np.stack([np.log(alignment + 0.01), np.zeros((3, 3))], 1).astype(np.float32)
    switch, commitment = np.array([1.0, 0.0, 1.0], np.float32), np.full((3, 2), 0.5, np.float32)
    recorded = {"alignment": alignment, "plan": plan, "gate": plan * 0, "switch": switch, "commitment": commitment}
    return Result((Output(text, -0.5, -1.5, ("a", "b", "<end>"), ("x", "y", "<end>"), **recorded),))


def stored(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="stored">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def modules(text: str) -> dict[str, str]:
    found = re.search(r'<script type="importmap">(.*?)</script>', text)
    assert found is not None
    imports = json.loads(found[1])["imports"]
    return {name: base64.b64decode(url.partition("base64,")[2]).decode() for name, url in imports.items()}


def test_what_was_stored_comes_back_whatever_it_holds() -> None:
    nasty = '</script><script>alert(1)</script> & "quotes" \u2028 <!--'
    whole = page([result(nasty)], "a <title>")
    [found] = stored(whole)["results"]
    assert found["text"] == nasty
    assert found["card"] == {"attention": "pag", "k": 2}
    np.testing.assert_allclose(found["outputs"][0]["alignment"], result().outputs[0].alignment, atol=1e-5)
    assert "alert(1)</script>" not in whole
    assert "<title>a &lt;title&gt;</title>" in whole


def test_every_module_that_is_imported_is_in_the_file() -> None:
    found = modules(page([result()], "pag"))
    imported = {name for text in found.values() for name in re.findall(r'from "([^"]+)"', text)}
    assert imported <= found.keys()
    assert "pag/stored.js" in found and "pag/matrix.js" in found
    assert "pag/api.js" not in found  # needs a server


def test_the_file_may_not_ask_the_network_for_anything() -> None:
    whole = page([result()], "pag")
    assert "default-src 'none'" in whole and "connect-src" not in whole
    assert not re.findall(r'(?:src|href)="(?!data:)', whole)


def test_a_result_without_an_alignment_cannot_be_shown() -> None:
    with pytest.raises(InputError, match="no result has an alignment"):
        page([Result((Output("x", 0.0, 0.0),))], "pag")


def test_a_notebook_shows_the_viewer_or_the_text() -> None:
    assert result()._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert Result((Output("1 < 2", 0.0, 0.0),))._repr_html_() == "<pre>1 &lt; 2</pre>"
    assert Result(error="no & no")._repr_html_() == "<pre>no &amp; no</pre>"


def test_records_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        writer.write(result())
        writer.write(Result(error="refused"))
    first, second = read_records(tmp_path / "r.jsonl")
    assert second == Result(error="refused")
    [read], [written] = first.outputs, result().outputs
    assert (read.text, read.tokens, read.source) == (written.text, written.tokens, written.source)
    for name in ("alignment", "plan", "gate", "switch", "commitment"):
        np.testing.assert_allclose(getattr(read, name), getattr(written, name), atol=1e-5)
    (tmp_path / "r.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(InputError, match=r"r\.jsonl, line 1: not a record of"):
        read_records(tmp_path / "r.jsonl")


@pytest.mark.parametrize("name", ["r.jsonl", "r.npz", "r.pharaoh"])
def test_a_full_disk_is_one_line_that_names_the_records(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.unfinished").symlink_to("/dev/full")

    def write() -> None:
        with RecordWriter(tmp_path / name) as writer:
            for _ in range(2000 if name == "r.jsonl" else 1):  # past the buffer, or only when it is closed
                writer.write(result())

    with pytest.raises(InputError, match=rf"cannot write .*/{name}: no space left on device"):
        write()
    assert not list(tmp_path.iterdir())


def test_copied_places_and_the_answer_are_read_back_too(tmp_path: Path) -> None:
    [written] = result().outputs
    asked = replace(written, copied=np.array([1, -1, -1]), copy_share=np.array([0.5, 0.0, 0.0]), answer=(0, 2))
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        writer.write(Result((asked,)))
    [read] = read_records(tmp_path / "r.jsonl")[0].outputs
    assert read.copied is not None and read.copied.tolist() == [1, -1, -1] and read.answer == (0, 2)
    [found] = stored(page([Result((read,))], "asker"))["results"]
    assert found["outputs"][0]["copied"] == [1, None, None] and found["outputs"][0]["answer"] == [0, 2]


def test_plot_writes_the_page_from_a_run_and_from_records(run: Path, tmp_path: Path) -> None:
    def drawn(*arguments: str) -> list[dict]:
        done = CliRunner().invoke(app, ["plot", *arguments, "--html", str(tmp_path / "p.html")], catch_exceptions=False)
        assert done.output.strip() == str(tmp_path / "p.html")
        return stored((tmp_path / "p.html").read_text("utf-8"))["results"]

    model = pag.load(str(run))
    expected = model.generate(list(model.task.inputs("test")[:2]), alignments=True)
    assert [r["text"] for r in drawn("alignments", str(run), "--number", "2")] == [r.text for r in expected]
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        for each in expected:
            writer.write(each)
    assert [r["text"] for r in drawn("plan", str(tmp_path / "r.jsonl"))] == [expected[0].text]
