"""What the docs take from the code and from results files is up to date: `make docs` changes nothing."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make.py")
assert spec is not None and spec.loader is not None
make_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_docs)


@pytest.mark.parametrize("page", sorted(make_docs.PAGES))
def test_a_generated_page_is_not_stale(page: str) -> None:
    assert (ROOT / page).read_text("utf-8") == make_docs.PAGES[page](), f"{page} is stale: run `make docs`"


def test_every_picture_that_the_readme_shows_is_there() -> None:
    pictures = [part.split(")")[0] for part in (ROOT / "README.md").read_text("utf-8").split("](")[1:]]
    for picture in pictures:
        assert (ROOT / picture).exists(), picture
