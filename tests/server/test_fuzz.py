"""Requests made up from the API's own description: nothing breaks, and every answer is one that it describes."""

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from serving import Serving

CHECKS = [
    schemathesis.checks.not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance, negative_data_rejection,
]  # fmt: skip
OPERATIONS = [("POST", "/api/generate"), ("POST", "/api/score"), ("GET", "/api/models"), ("GET", "/api/health")]


def test_every_operation_is_fuzzed(served: Serving) -> None:
    api = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    found = {(operation.ok().method.upper(), operation.ok().path) for operation in api.get_all_operations()}
    assert found == {*OPERATIONS, ("GET", "/metrics")}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_made_up_request_breaks_the_server(served: Serving, method: str, path: str, mode: GenerationMode) -> None:
    operation = schemathesis.openapi.from_url(f"{served.url}/openapi.json")[path][method]
    if method == "GET" and mode is GenerationMode.NEGATIVE:
        return  # nothing to get wrong

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=60 if method == "POST" else 3, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS, timeout=60)

    check()


WORDS = st.lists(st.sampled_from(["connected-to", "eulerian-circuit", *map(str, range(1, 8))]), min_size=1, max_size=60)


def test_any_words_of_the_vocabulary_are_answered(served: Serving) -> None:
    with served.client() as client:

        @hypothesis.given(
            WORDS, st.sampled_from([*served.generators]), st.integers(1, 4), st.integers(1, 3), st.booleans()
        )
        @hypothesis.settings(max_examples=40, deadline=None, derandomize=True, database=None)
        def check(words: list[str], model: str, beam: int, n_best: int, stream: bool) -> None:
            body = {"text": " ".join(words), "model": model, "beam": beam, "n_best": n_best, "stream": stream}
            answer = client.post("/api/generate", json=body)
            assert answer.status_code == 200
            assert "event: error" not in answer.text

        check()
