"""The API says what the models say, whoever asks at the same time, and refuses the rest in one clear line."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import Serving, asker, generator, serving

from pag.server.guard import HEADERS
from pag.server.limits import Limits
from pag.server.schema import Graph
from pag.tasks.euler import EDGE, QUERY

EVERYTHING = ["alignment", "plan", "gate", "switch", "commitment"]


def ask(served: Serving, **body: Any) -> dict[str, Any]:
    with served.client() as client:
        answer = client.post("/api/generate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_an_answer_is_what_the_model_says_alone(served: Serving) -> None:
    text = served.inputs()[0]
    for name, alone in served.generators.items():
        [result] = alone.generate(text, beam=3, n_best=2, alignments=True)
        answer = ask(served, model=name, text=text, beam=3, n_best=2, include=EVERYTHING)
        assert answer["model"] == name
        assert [output["text"] for output in answer["outputs"]] == [output.text for output in result.outputs]
        for told, output in zip(answer["outputs"], result.outputs, strict=True):
            assert told["tokens"] == list(output.tokens) and told["source"] == list(output.source)
            assert told["score"] == pytest.approx(output.score, abs=1e-4)
            for kind in EVERYTHING:
                expected = getattr(output, kind)
                assert (kind in told) == (expected is not None)
                if expected is not None:
                    np.testing.assert_allclose(told[kind], expected, atol=2e-4)


def test_only_what_was_asked_for_comes_back(served: Serving) -> None:
    [output] = ask(served, text=served.inputs()[0], include=["switch"])["outputs"]
    assert "switch" in output and "plan" not in output and "alignment" not in output


def test_many_at_once_get_what_each_would_get_alone(served: Serving) -> None:
    """Different inputs, models and options, so that batches mix and split."""
    cases = [
        {"model": name, "text": " ".join(text.split()[3 * (i % 3) :]), "beam": 1 + i % 3, "n_best": 1 + i % 2}
        for name in served.generators
        for i, text in enumerate(served.inputs() * 2)
    ]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda case: ask(served, **case), cases))
    for case, answer in zip(cases, answers, strict=True):
        [alone] = served.generators[case["model"]].generate(case["text"], beam=case["beam"], n_best=case["n_best"])
        assert [output["text"] for output in answer["outputs"]] == [output.text for output in alone.outputs]
    with served.client() as client:
        sizes = [s for f in text_string_to_metric_families(client.get("/metrics").text) for s in f.samples]
    together = {s.labels["le"]: s.value for s in sizes if s.name == "pag_batch_requests_bucket"}
    assert together["+Inf"] > together["1.0"], "no two requests ever ran together"


def events(served: Serving, **body: Any) -> list[tuple[str, dict[str, Any]]]:
    with served.client() as client, client.stream("POST", "/api/generate", json={**body, "stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        parts = answer.read().decode().strip().split("\n\n")
    lines = [part.split("\n") for part in parts]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_stream_tells_the_tokens_and_then_the_same_result(served: Serving, beam: int) -> None:
    text = served.inputs()[1]
    (first, source), *steps, (last, result) = events(served, text=text, beam=beam, include=EVERYTHING)
    assert (first, last) == ("source", "result")
    assert result == ask(served, text=text, beam=beam, include=EVERYTHING)
    tokens: list[str] = []
    alignment: list[list[float]] = []
    for name, step in steps:
        assert name == "tokens"
        assert beam > 1 or step["keep"] == len(tokens), "greedy search never takes a token back"
        assert step["provisional"] == (beam > 1)
        tokens = [*tokens[: step["keep"]], *step["tokens"]]
        alignment = [*alignment[: step["keep"]], *step["alignment"]]
    [output] = result["outputs"]
    assert tokens == output["tokens"]
    assert steps[-1][1]["text"] == output["text"]
    assert alignment == output["alignment"]
    assert source["source"] == output["source"]


def test_a_graph_is_told_in_the_tasks_own_words(served: Serving) -> None:
    graph = {"edges": [[1, 2], [2, 3], [3, 1]], "first": 1, "second": 2}
    line = Graph(**graph).question()
    told, _, query = line.partition(f" {QUERY} ")
    assert query == "1 2"
    words = told.split()
    pairs = sorted((words[i], words[i + 2]) for i in range(0, len(words), 3))
    assert pairs == sorted((str(a), str(b)) for x, y in graph["edges"] for a, b in ((x, y), (y, x)))
    assert set(words[1::3]) == {EDGE}
    assert ask(served, graph=graph)["text"] == served.generators["pag"].generate(line)[0].text


def test_score_is_the_models_own(served: Serving) -> None:
    text = served.inputs()[0]
    [alone] = served.generators["rpag"].score([text], ["1 2 3 1"])
    with served.client() as client:
        answer = client.post("/api/score", json={"model": "rpag", "text": text, "output": "1 2 3 1"}).json()
    assert answer["log_prob"] == pytest.approx(alone.log_prob, abs=1e-4)
    assert answer["tokens"] == ["1", "2", "3", "1", "<end>"]
    assert sum(answer["log_probs"]) == pytest.approx(alone.log_prob, abs=1e-4)


def test_models_and_health_say_what_is_there(served: Serving) -> None:
    with served.client() as client:
        models = client.get("/api/models").json()["models"]
        health = client.get("/api/health").json()
    assert [(m["name"], m["attention"], m["k"]) for m in models] == [
        ("pag", "pag", 3),
        ("rpag", "rpag", 3),
        ("baseline", "baseline", None),
    ]
    assert models[0]["examples"] == served.inputs()[:8]
    assert health["status"] == "ok" and set(health["waiting"]) == set(served.generators)


def test_metrics_count_answers_by_route_and_status(served: Serving) -> None:
    def count(client: httpx.Client, status: str) -> float:
        families = text_string_to_metric_families(client.get("/metrics").text)
        samples = [s for f in families for s in f.samples if s.name == "pag_requests_total"]
        return sum(s.value for s in samples if s.labels == {"route": "/api/generate", "status": status})

    with served.client() as client:
        before = count(client, "200"), count(client, "422")
        client.post("/api/generate", json={"text": served.inputs()[0]})
        client.post("/api/generate", json={"text": "nonsense"})
        assert (count(client, "200"), count(client, "422")) == (before[0] + 1, before[1] + 1)


BAD = [
    ({"text": "1 connected-to x"}, 422, "input", "symbol 3, 'x', is not in the vocabulary"),
    ({"text": "  "}, 422, "empty", "the input is empty"),
    ({"text": "1 " * 1200}, 422, "too_long", "the input has 1,201 tokens, its end included: 1,000 are the most"),
    ({}, 422, "invalid", "give one of `text`, `graph`, or `document` with its answer"),
    ({"text": "1", "graph": {"edges": [[1, 2]], "first": 1, "second": 2}}, 422, "invalid", "give one of"),
    ({"document": "a b"}, 422, "invalid", "`document` goes together with `answer`"),
    ({"text": "1", "answer_start": 0}, 422, "invalid", "`document` goes together with `answer`"),
    ({"document": "a b", "answer": "b"}, 422, "input", "the model 'pag' takes a graph or text, not a document"),
    ({"text": "1", "beam": 0}, 422, "invalid", "beam: Input should be greater than or equal to 1"),
    ({"text": "1", "beam": 33}, 422, "limit", "beam is at most 32 here, not 33"),
    ({"text": "1", "n_best": 40}, 422, "limit", "n_best is at most 32 here, not 40"),
    ({"text": "1", "colour": "red"}, 422, "invalid", "unknown field 'colour' (known: answer, "),
    ({"text": "1", "nbest": 2}, 422, "invalid", "unknown field 'nbest' (did you mean 'n_best'"),
    (
        {"graph": {"edges": [[1, 2]], "frist": 1, "second": 2}},
        422,
        "invalid",
        "graph.first: Field required; unknown field 'graph.frist' (did you mean 'first'",
    ),
    ({"text": "1", "model": "pga"}, 404, "model", "no model 'pga' is served here (did you mean 'pag'"),
    ({"text": "1 \x00 2"}, 422, "invalid", "text: U+0000 at character 3 is not text"),
    ({"text": "1 \x1b[31m"}, 422, "invalid", "text: U+001B at character 3 is not text"),
    ({"text": 7}, 422, "invalid", "text: Input should be a valid string"),
]


@pytest.mark.parametrize(("body", "status", "code", "message"), BAD, ids=lambda v: str(v)[:30])
def test_what_a_model_cannot_take_is_refused(
    served: Serving, body: dict[str, Any], status: int, code: str, message: str
) -> None:
    with served.client() as client:
        found = refused(client.post("/api/generate", json=body))
        assert found[:2] == (status, code)
        assert message in found[2]
        assert refused(client.post("/api/generate", json={**body, "stream": True})) == found


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "json"),
        (b"", 422, "invalid"),
        (b"[" * 20_000, 400, "json"),
        (b'{"text": "\\ud800"}', 422, "invalid"),
        (b'{"text": "1", "length_penalty": NaN}', 422, "invalid"),
        (b'{"text": "1", "beam": 1e999}', 422, "invalid"),
        (b'"text"', 422, "invalid"),
        (b"\xff\xfe", 400, "json"),
        (b'{"text": "\xff"}', 400, "json"),
        (b"x" * 70_000, 413, "too_large"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_a_body_that_is_no_request_is_refused(served: Serving, content: bytes, status: int, code: str) -> None:
    with served.client(headers={"Content-Type": "application/json"}) as client:
        found = refused(client.post("/api/generate", content=content))
    assert found[:2] == (status, code)


def test_a_body_of_unsaid_length_is_cut_off_at_the_limit(served: Serving) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b" " * 10_000

    with served.client(headers={"Content-Type": "application/json"}) as client:
        assert refused(client.post("/api/generate", content=endless()))[:2] == (413, "too_large")


def test_a_body_must_say_that_it_is_json(served: Serving) -> None:
    """Else a form on any site could make a visitor's browser ask."""
    with served.client() as client:
        found = client.post("/api/generate", content=b'{"text": "1"}', headers={"Content-Type": "text/plain"})
    assert refused(found)[:2] == (415, "content_type")


def test_unknown_places_and_methods_are_refused_in_json(served: Serving) -> None:
    with served.client() as client:
        assert refused(client.get("/api/nothing"))[:2] == (404, "not_found")
        assert refused(client.get("/api/generate"))[:2] == (405, "method_not_allowed")
        assert refused(client.get("/../../etc/passwd"))[0] == 404
        assert refused(client.get("/%2e%2e/app.py"))[0] == 404


def test_every_answer_has_the_security_headers(served: Serving) -> None:
    with served.client() as client:
        answers = [
            client.get("/"),
            client.get("/app.js"),
            client.get("/api/health"),
            client.get("/api/nothing"),
            client.post("/api/generate", json={"text": "x"}),
            client.post("/api/generate", content=b"x" * 70_000, headers={"Content-Type": "application/json"}),
        ]
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_the_page_asks_no_other_place_for_anything(served: Serving) -> None:
    with served.client() as client:
        for place in ("/", "/api.html", "/style.css", "/app.js"):
            answer = client.get(place)
            assert answer.status_code == 200
            assert "http" not in answer.text.replace("http://www.w3.org/2000/svg", "")


def test_a_key_is_wanted_where_it_is_set() -> None:
    with serving({"pag": generator("pag")}, key="s3cret") as server, server.client() as client:
        body = {"text": server.inputs()[0]}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
            assert refused(client.post("/api/generate", json=body, headers=headers))[:2] == (401, "key")
        assert client.get("/api/models").status_code == client.get("/metrics").status_code == 401
        assert client.get("/api/health").status_code == client.get("/").status_code == 200
        given = {"Authorization": "Bearer s3cret"}
        assert client.post("/api/generate", json=body, headers=given).status_code == 200


def test_a_server_on_loopback_answers_to_no_other_name() -> None:
    """A site elsewhere could point its name at 127.0.0.1 and read the answers."""
    with serving({"pag": generator("pag")}, hosts=("localhost", "[::1]")) as server, server.client() as client:
        assert refused(client.get("/api/health", headers={"Host": "evil.example"}))[:2] == (421, "host")
        assert client.get("/api/health", headers={"Host": "localhost:8000"}).status_code == 200
        assert client.get("/api/health", headers={"Host": "[::1]:8000"}).status_code == 200


def test_plans_that_would_make_an_answer_too_long_are_left_out_and_it_says_so() -> None:
    with serving({"pag": generator("pag")}, Limits(values=500)) as server:
        answer = ask(server, text=server.inputs()[0], include=EVERYTHING)
    assert "plan" not in answer["outputs"][0] and "alignment" in answer["outputs"][0]
    assert answer["warning"].startswith("plans and gates left out: an answer has at most 500 numbers")


def test_a_question_says_where_its_words_and_its_answer_are() -> None:
    with serving({"asker": asker()}) as server:
        given = json.loads(server.inputs()[0])
        [output] = ask(server, **given, include=["alignment"])["outputs"]
        assert " ".join(output["source"][slice(*output["answer"])]) == given["answer"]
        assert len(output["copied"]) == len(output["tokens"])
        assert any(place is not None for place in output["copied"])
        (_, source), *steps, (_, result) = events(server, **given, beam=1, include=["alignment"])
        assert source["source"] == output["source"]
        assert [token for _, step in steps for token in step["tokens"]] == result["outputs"][0]["tokens"]
        assert "alignment" not in events(server, **given)[1][1], "copying needs alignments, but nobody asked for them"
        by_place = {"document": given["document"], "answer_start": given["document"].find(given["answer"])}
        assert ask(server, **by_place)["outputs"][0]["answer"][0] == output["answer"][0]
        with server.client() as client:
            models = client.get("/api/models").json()["models"]
            score = client.post("/api/score", json={**given, "output": "who is it ?"})
            graph = {"edges": [[1, 2]], "first": 1, "second": 2}
            message = refused(client.post("/api/generate", json={"graph": graph}))[2]
        assert message == "the model 'asker' takes a document or text, not a graph"
        assert models[0]["input"] == "document" and json.loads(models[0]["examples"][0]) == given
        assert score.status_code == 200 and score.json()["log_prob"] < 0
