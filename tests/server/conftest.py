from collections.abc import Iterator

import pytest
from serving import Serving, generator, serving


@pytest.fixture(scope="session")
def served() -> Iterator[Serving]:
    """PAG, rPAG and the baseline behind one server."""
    with serving({name: generator(name) for name in ("pag", "rpag", "baseline")}) as running:
        yield running
