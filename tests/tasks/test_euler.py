"""Eulerian circuits: the surface form, the splits, and what counts as right."""

from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st
from pydantic import ValidationError

from pag.errors import DataError, InputError
from pag.tasks.euler import EDGE, QUERY, EulerSettings, EulerTask, Graph, draw, graphs, is_circuit, possible
from pag.text.vocabulary import END

SMALL = EulerSettings(nodes=4, distractors=3, train=40, valid=10, test=20)
TRIANGLE = Graph(circuit=(2, 3, 1), distractor=(), order=(5, 0, 3, 1, 2, 4))


@st.composite
def some_graph(choose: st.DrawFn) -> Graph:
    nodes, distractors = choose(st.integers(3, 6)), choose(st.sampled_from([0, 3, 4]))
    asked = EulerSettings(nodes=nodes, distractors=distractors)
    return draw(asked, np.random.default_rng(choose(st.integers(0, 10_000))))


def told_edges(question: str) -> list[tuple[str, str]]:
    words = question.split()[:-3]
    assert all(word == EDGE for word in words[1::3])
    return list(zip(words[::3], words[2::3], strict=True))


def walks_from(question: str) -> list[str]:
    """Every closed walk of the queried component that uses each edge once and starts as asked, by trying all."""
    first, second = question.split()[-2:]
    edges = {frozenset(edge) for edge in told_edges(question)}
    found = []

    def go(walk: list[str], left: set[frozenset[str]]) -> None:
        if len(walk) > 1 and walk[-1] == first and not any(first in edge for edge in left):
            found.append(" ".join(walk))
        for edge in left:
            if walk[-1] in edge:
                (onward,) = edge - {walk[-1]}
                go([*walk, onward], left - {edge})

    go([first, second], edges - {frozenset((first, second))})
    return found


def test_the_surface_form_by_hand() -> None:
    """Edges 2-3, 3-1, 1-2 and their reverses, numbered 0 to 5, told in the order 5 0 3 1 2 4."""
    assert TRIANGLE.question() == (
        "2 connected-to 1 2 connected-to 3 3 connected-to 2 3 connected-to 1 1 connected-to 2 1 connected-to 3 "
        "eulerian-circuit 2 3"
    )
    assert TRIANGLE.answer() == "2 3 1 2"


@given(some_graph())
def test_every_edge_is_told_once_in_each_direction(graph: Graph) -> None:
    told = told_edges(graph.question())
    assert max(Counter(told).values()) == 1
    assert {frozenset((int(a), int(b))) for a, b in told} == graph.edges
    assert set(told) == {(b, a) for a, b in told}
    assert len(told) == 2 * (len(graph.circuit) + len(graph.distractor))


@given(some_graph())
def test_the_circuit_and_the_distractor_share_no_node(graph: Graph) -> None:
    nodes = [*graph.circuit, *graph.distractor]
    assert sorted(nodes) == list(range(1, len(nodes) + 1))


@trials(deadline=None)
@given(some_graph())
def test_the_query_makes_the_answer_unique(graph: Graph) -> None:
    assert walks_from(graph.question()) == [graph.answer()]


@given(some_graph())
def test_the_true_circuit_is_accepted(graph: Graph) -> None:
    assert is_circuit(graph.answer(), graph.question())


@given(some_graph(), st.data())
def test_an_output_is_a_circuit_only_if_it_is_the_answer(graph: Graph, data: st.DataObject) -> None:
    """The answer is unique, so any other sequence of nodes is wrong: edited, cut, repeated or made up."""
    answer = graph.answer().split()
    node = st.sampled_from([str(n) for n in (*graph.circuit, *graph.distractor)])
    place = data.draw(st.integers(0, len(answer) - 1))
    output = data.draw(
        st.one_of(
            st.just([*answer[:place], data.draw(node), *answer[place + 1 :]]),
            st.just(answer[:place]),
            st.just([*answer, *answer[1:]]),
            st.just(answer[::-1]),
            st.permutations(answer),
            st.lists(node, max_size=8),
        )
    )
    assert is_circuit(" ".join(output), graph.question()) == (output == answer)


@pytest.mark.parametrize("output", ["", "2", "2 3", "2 3 1", "2 1 3 2", "2 3 1 3 2", "2 3 3 1 2", "9 9 9 9", QUERY])
def test_what_is_no_circuit_is_refused(output: str) -> None:
    assert not is_circuit(output, TRIANGLE.question())


def test_the_distractor_is_no_part_of_the_circuit() -> None:
    graph = Graph((1, 2, 3), (4, 5, 6), tuple(range(12)))
    assert is_circuit("1 2 3 1", graph.question())
    assert not is_circuit("1 2 3 1 4 5 6 4", graph.question())


def test_no_graph_is_in_two_splits_or_twice_in_one() -> None:
    edges = [graph.edges for split in graphs(SMALL).values() for graph in split]
    assert len(edges) == 70 == len(set(edges))


def test_the_splits_have_the_sizes_asked_for() -> None:
    assert {split: len(made) for split, made in graphs(SMALL).items()} == {"train": 40, "valid": 10, "test": 20}


def test_the_test_set_does_not_depend_on_the_training_set() -> None:
    more = graphs(SMALL.model_copy(update={"train": 75}))
    assert more["test"] == graphs(SMALL)["test"]
    assert more["valid"] == graphs(SMALL)["valid"]
    assert more["train"][:40] == graphs(SMALL)["train"]


def test_another_seed_gives_other_graphs() -> None:
    assert graphs(SMALL.model_copy(update={"seed": 2}))["test"] != graphs(SMALL)["test"]


@pytest.mark.parametrize(("nodes", "distractors"), [(3, 0), (4, 0), (5, 0), (3, 3), (4, 3), (3, 4)])
def test_the_number_of_possible_graphs_is_what_trying_all_names_gives(nodes: int, distractors: int) -> None:
    everything = {Graph(names[:nodes], names[nodes:], ()).edges for names in permutations(range(nodes + distractors))}
    assert possible(EulerSettings(nodes=nodes, distractors=distractors)) == len(everything)


def test_every_possible_graph_can_be_asked_for() -> None:
    """3 + 3 nodes make ten graphs: which triangle is the circuit does not make another."""
    made = graphs(EulerSettings(nodes=3, distractors=3, train=8, valid=1, test=1))
    assert sum(map(len, made.values())) == 10


def test_more_graphs_than_there_are_is_an_error_that_says_how_many() -> None:
    with pytest.raises(DataError, match=r"= 15 graphs, but only 12 different ones have 5 nodes and 0 distractors"):
        graphs(EulerSettings(nodes=5, distractors=0, train=5, valid=5, test=5))


@pytest.mark.parametrize("distractors", [1, 2])
def test_a_cycle_has_three_nodes_or_is_not_there(distractors: int) -> None:
    with pytest.raises(ValidationError, match="at least 3"):
        EulerSettings(distractors=distractors)


def test_scores_by_hand() -> None:
    """Right; reversed within; a node missing; nothing. References have four symbols each."""
    task = EulerTask.build(EulerSettings(nodes=3, distractors=0))
    question, answer = TRIANGLE.question(), TRIANGLE.answer()
    scores = task.score(["2 3 1 2", "2 1 3 2", "2 3 1", ""], [question] * 4, [answer] * 4)
    assert scores == {"exact": 0.25, "valid": 0.25, "sorted": 0.5, "token": (4 + 2 + 3 + 0) / 16}


def test_every_declared_metric_is_scored() -> None:
    task = EulerTask.build(SMALL)
    assert task.score(["1"], [TRIANGLE.question()], ["1"]).keys() == task.metrics.keys()


def test_references_score_full_marks() -> None:
    task = EulerTask.build(SMALL)
    references = task.references("valid")
    assert set(task.score(references, task.inputs("valid"), references).values()) == {1.0}


def test_examples_are_the_encoded_inputs_and_references() -> None:
    task = EulerTask.build(SMALL)
    example, typed = task.examples("test")[0], task.encode(task.inputs("test")[0])
    assert example.source == typed.source and example.source[-1] == END
    assert task.decode(example.target) == task.references("test")[0]
    assert task.encode_output(task.references("test")[0]) == example.target
    assert len(task.examples("test")) == 20


@pytest.mark.parametrize("symbol", ["8", "joined-to", "<pad>", "<end>", "<unk>"])
def test_a_symbol_that_no_graph_has_is_named_with_its_place(symbol: str) -> None:
    with pytest.raises(InputError, match=f"symbol 3, '{symbol}', is not in the vocabulary.*nodes 1 to 7"):
        EulerTask.build(SMALL).encode(f"1 {EDGE} {symbol}")


def test_a_long_unknown_symbol_is_shown_in_part() -> None:
    with pytest.raises(InputError) as error:
        EulerTask.build(SMALL).encode("x" * 10_000)
    assert len(str(error.value)) < 200


def test_a_checkpoint_keeps_what_is_needed_to_read_and_write() -> None:
    task = EulerTask.build(SMALL)
    again = EulerTask.load(SMALL, task.files())
    line = task.inputs("test")[0]
    assert again.encode(line) == task.encode(line)
    assert again.source_labels(again.encode("1 2").source) == ["1", "2", "<end>"]


def test_consecutive_nodes_of_an_answer_are_edges() -> None:
    for graph in graphs(SMALL)["train"]:
        assert all(frozenset(pair) in graph.edges for pair in pairwise((*graph.circuit, graph.circuit[0])))


def test_a_graph_can_be_typed_in_short(task: EulerTask) -> None:
    long = "1 connected-to 2 2 connected-to 1 2 connected-to 3 3 connected-to 2 eulerian-circuit 1 2"
    assert task.encode("1-2 2-3 start 1 2") == task.encode(long)
    for wrong in ("1-2 start", "1-2 3 start 1 2", "1-2 start 1", " start ", "a b start 1 2"):
        with pytest.raises(InputError, match="is not in the vocabulary"):
            task.encode(wrong)
