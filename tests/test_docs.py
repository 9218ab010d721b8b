"""What the documentation says about the code is so."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest
import torch

from pag.attention.base import Glimpse
from pag.config import AttentionSettings, LossSettings, build_recipe, read_recipe
from pag.registry import ATTENTIONS
from pag.reproduce.tables import read_table

ROOT = Path(__file__).parent.parent
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "pag"
PAPER, LIBRARY = (DOCS / "paper.md").read_text("utf-8"), (DOCS / "library.md").read_text("utf-8")
NAMED = re.compile(r"`([\w/]+\.py):([\w.]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(#[\w-]+)?\)")


def names_in(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a module or a class defines, by name."""
    found: dict[str, ast.stmt] = {}
    for item in body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            found[item.name] = item
        elif isinstance(item, ast.Assign):
            found |= {target.id: item for target in item.targets if isinstance(target, ast.Name)}
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found[item.target.id] = item
    return found


def missing(file: str, dotted: str) -> str | None:
    """What of `file.py:Class.method` is not there, if anything."""
    path = SOURCE / file
    if not path.is_file():
        return file
    body = ast.parse(path.read_text("utf-8")).body
    for name in dotted.split("."):
        item = names_in(body).get(name)
        if item is None:
            return f"{file}:{dotted}"
        body = getattr(item, "body", [])
    return None


def test_every_function_that_paper_md_names_exists() -> None:
    named = NAMED.findall(PAPER)
    assert len(named) > 30
    assert [gone for gone in (missing(*name) for name in named) if gone] == []


def test_a_name_that_does_not_exist_would_be_noticed() -> None:
    assert missing("losses.py", "commitment_loss") is None
    assert missing("losses.py", "comitment_loss") and missing("loses.py", "losses")
    assert missing("decoder.py", "Decoder.walk")


def test_every_link_beside_a_function_leads_to_its_file() -> None:
    for file, link in re.findall(r"\[`([\w/]+\.py):[\w.]+`\]\(([^)]+)\)", PAPER):
        assert link == f"../src/pag/{file}"


@pytest.mark.parametrize("page", ["paper.md", "library.md", "serve.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    for link, anchor in LINK.findall((DOCS / page).read_text("utf-8")):
        target = DOCS / link
        assert target.exists(), link
        headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE) if anchor else []
        assert not anchor or anchor[1:] in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def settings_in(text: str) -> Iterator[tuple[str, object]]:
    for key, value in re.findall(r"`(\w+\.\w+) = ([^`]+)`", text):
        yield key, None if value == "none" else tomllib.loads(f"x = {value}")["x"]


def test_every_default_that_paper_md_gives_is_the_real_one() -> None:
    defaults = build_recipe({"task": {"name": "euler"}}, "defaults").flat()
    for key, value in settings_in(PAPER):
        assert defaults[key] == value, key


def test_paper_md_explains_every_setting_of_attention_and_loss() -> None:
    explained = {key for key, _ in settings_in(PAPER)}
    for section, settings in (("attention", AttentionSettings), ("loss", LossSettings)):
        assert {f"{section}.{key}" for key in settings.model_fields} <= explained


def test_library_md_explains_every_field_of_a_glimpse() -> None:
    assert re.findall(r"^\| `(\w+)` \|", LIBRARY, re.MULTILINE) == [field.name for field in fields(Glimpse)]


def run_blocks(text: str) -> dict[str, object]:
    """Run the Python blocks of a page in order, in one namespace; a block that names its file becomes that module."""
    page = ModuleType("page")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        file = re.match(r"# src/([\w/]+)\.py\n", block)
        module = ModuleType(file[1].replace("/", ".")) if file else page
        sys.modules[module.__name__] = module
        exec(compile(block, "library.md", "exec"), module.__dict__)
    return page.__dict__


def test_the_code_of_library_md_runs_and_does_what_it_says() -> None:
    torch.manual_seed(0)
    with patch.dict(ATTENTIONS), patch.dict(sys.modules):
        found = run_blocks(LIBRARY)
    assert found["log_probs"].shape == (1, 3, 16)
    torch.testing.assert_close(found["first"], found["log_probs"][:, 0])
    assert type(found["model"].decoder.attention).__name__ == "LocatedAttention"
    assert found["trace"].context.shape == (4, 7, 32)
    assert (found["trace"].switch == 1).all()  # held
    assert found["attention"].commitment.state.weight.grad.any()
    assert "located" not in ATTENTIONS


def test_the_table_of_running_md_is_one(tmp_path: Path) -> None:
    block = re.search(r"^```toml\n(.*?)^```", (DOCS / "running.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    (tmp_path / "mine.toml").write_text(block[1])
    rows = read_table(str(tmp_path / "mine.toml")).expanded()
    assert list(rows) == ["baseline", "pag, k 3", "pag, k 10", "rpag, k 3", "rpag, k 10"]
    for row in rows.values():
        read_recipe(row.recipe, row.settings)


def test_the_ten_lines_are_ten_lines() -> None:
    """Without imports and the stand-ins for the reader's own encoder and embeddings."""
    block = re.search(r"^```python\n(.*?)^```", LIBRARY, re.MULTILINE | re.DOTALL)
    assert block is not None
    lines = [line for line in block[1].splitlines() if line and "import" not in line and "torch.randn" not in line]
    assert len(lines) <= 10
