"""What the docs take from the code and from results files is up to date: `make docs` changes nothing."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make.py")
assert spec is not None and spec.loader is not None
make_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_docs)


PROSE = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("models/*/README.md")])


@pytest.mark.parametrize("page", sorted(make_docs.PAGES))
def test_a_generated_page_is_not_stale(page: str) -> None:
    assert (ROOT / page).read_text("utf-8") == make_docs.PAGES[page](), f"{page} is stale: run `make docs`"


def anchors(page: Path) -> set[str]:
    """What `page#…` can name: its headings, spelled as GitHub does."""
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_picture_and_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if link.startswith(("http", "mailto")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
