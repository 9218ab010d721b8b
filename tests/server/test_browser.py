"""The page in a real browser: type, generate, hover, compare; with the keyboard alone; when the server refuses."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium, window
from playwright.sync_api import Browser, Page, expect
from serving import Serving, asker, gated, generator, serving

from pag.generator import Result
from pag.server.limits import Limits
from pag.server.schema import Graph
from pag.viewer import write_page

GRAPH = "1-2 2-3 3-4 4-1 5-6 6-7 7-5 start 1 2"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, served: Serving) -> Iterator[Page]:
    with window(browser) as opened:
        opened.goto(served.url)
        yield opened


def alone(served: Serving, model: str = "pag", **options: Any) -> Result:
    """What the model says of GRAPH, asked through the API's own words."""
    pairs = [[int(a) for a in edge.split("-")] for edge in GRAPH.split()[:-3]]
    line = Graph(edges=pairs, first=1, second=2).question()
    [result] = served.generators[model].generate(line, alignments=True, **options)
    return result


def ask(page: Page, text: str = GRAPH, **fields: str) -> None:
    page.get_by_label("Input", exact=True).fill(text)
    for name, value in fields.items():
        box = page.get_by_label(name.replace("_", " "), exact=True)
        box.select_option(value) if name in ("Model", "Compare_with") else box.fill(value)
    page.get_by_role("button", name="Generate").click()


def shown(token: str) -> str:
    return "⏎" if token == "<end>" else token


def settle(page: Page) -> None:
    """Wait until every answer is whole: while one grows, its rows move and nothing can be chosen."""
    expect(page.locator("[aria-busy]")).to_have_count(0)


def words(page: Page) -> list[str]:
    settle(page)
    return page.locator(".output .word:not(.end)").all_inner_texts()


def row(page: Page, step: int) -> tuple[float, float]:
    """Where the middle of a step's row is in the alignment's heat map."""
    settle(page)
    heat_map = page.get_by_role("slider", name="The alignment")
    heat_map.scroll_into_view_if_needed()
    box = heat_map.bounding_box()
    assert box is not None
    # rows are at the bottom of the map, all equally high; its last row's lower edge is the map's
    count = int(heat_map.get_attribute("aria-valuemax") or 0)
    high = min(24.0, max(15.0, 420 / count))
    return box["x"] + 200, box["y"] + box["height"] - (count - step - 0.5) * high - 1


def test_type_generate_hover_and_the_plan_of_that_step_is_shown(page: Page, served: Serving) -> None:
    [output] = alone(served).outputs
    ask(page)
    assert words(page) == list(output.tokens[:-1])
    assert output.switch is not None and output.plan is not None
    replanned = f"re-planned at {int(output.switch.sum())} of {len(output.tokens)} steps"
    expect(page.locator(".card-head .note").filter(has_text=replanned)).to_be_visible()
    for step in (2, 5):
        page.mouse.move(*row(page, step))
        title = page.locator(".plan-view h3")
        expect(title).to_contain_text(f"Step {step + 1} {output.tokens[step]}")
        expect(title).to_contain_text("re-planned" if output.switch[step] else "followed the plan")
    page.get_by_text("The plan as a table").click()
    rows = page.locator(".plan-view tbody tr")
    expect(rows).to_have_count(output.plan.shape[1])
    assert [row.locator("td").last.inner_text() for row in rows.all()] == ["1.000"] * output.plan.shape[1]
    now = output.plan[5][0]
    expect(rows.first).to_contain_text(f"“{output.source[int(now.argmax())]}”")


def test_hovering_shows_clicking_keeps_and_leaving_goes_back(page: Page) -> None:
    ask(page)
    title = page.locator(".plan-view h3")
    page.mouse.click(*row(page, 1))
    expect(title).to_contain_text("Step 2")
    page.mouse.move(*row(page, 4))
    expect(title).to_contain_text("Step 5")
    page.mouse.move(2, 2)
    expect(title).to_contain_text("Step 2")


def test_the_output_and_the_alignment_grow_while_it_is_generated(browser: Browser) -> None:
    with gated(Limits()) as (server, gate), window(browser) as page:
        page.goto(server.url)
        ask(page)
        for step in (1, 2, 3):
            gate.let(1)
            expect(page.locator(".output .word")).to_have_count(step)
            expect(page.get_by_role("slider", name="The alignment")).to_have_attribute("aria-valuemax", str(step))
        expect(page.get_by_text("generating …")).to_be_visible()
        gate.let(1000)
        assert words(page) == alone(server).text.split()


def test_a_stream_that_breaks_off_is_an_error(page: Page) -> None:
    half = 'event: tokens\ndata: {"keep": 0, "tokens": ["1"], "text": "1", "provisional": false}\n\n'
    headers = {"Content-Type": "text/event-stream"}
    page.route("**/api/generate", lambda route: route.fulfill(body=half, headers=headers))
    ask(page)
    expect(page.get_by_role("alert")).to_have_text("the connection closed before the answer was whole")


def test_models_are_compared_side_by_side(page: Page, served: Serving) -> None:
    ask(page, Compare_with="baseline")
    panes = page.get_by_role("article")
    expect(panes).to_have_count(2)
    settle(page)
    for name, pane in zip(("pag", "baseline"), panes.all(), strict=True):
        expect(pane.get_by_role("heading", level=2)).to_have_text(name)
        expected = [token for token in alone(served, name).outputs[0].tokens if token != "<end>"]
        expect(pane.locator(".output .word:not(.end)")).to_have_text(expected)
    expect(panes.nth(1)).to_contain_text("This model keeps no plan")
    left, right = (pane.bounding_box() for pane in panes.all())
    assert left and right and left["y"] == right["y"] and right["x"] >= left["x"] + left["width"]
    panes.nth(0).get_by_role("button", name="One step on").click()
    expect(panes.nth(1).locator(".plan-view h3")).to_contain_text("Step 2")


def test_an_output_of_the_n_best_list_can_be_picked(page: Page, served: Serving) -> None:
    outputs = alone(served, beam=3, n_best=3).outputs
    ask(page, Beam="3", Outputs="3")
    page.get_by_role("radio").nth(2).check()
    assert words(page) == outputs[2].text.split()
    expect(page.locator(".nbest-score").nth(2)).to_have_text(f"{outputs[2].score:.3f}")


def test_everything_can_be_done_with_the_keyboard(page: Page, served: Serving) -> None:
    def tab_to(role: str, name: str) -> None:
        wanted = page.get_by_role(role, name=name).first
        expect(wanted).to_be_visible()
        for _ in range(60):
            page.keyboard.press("Tab")
            if wanted.evaluate("node => node === document.activeElement"):
                return
        raise AssertionError(f"{role} {name} cannot be reached with the Tab key")

    output = alone(served).outputs[0]
    tab_to("textbox", "Input")
    page.keyboard.press("Control+a")
    page.keyboard.type(GRAPH)
    page.keyboard.press("Control+Enter")
    assert words(page) == list(output.tokens[:-1])
    tab_to("slider", "The alignment")
    heat_map = page.get_by_role("slider", name="The alignment")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert output.alignment is not None
    most = int(output.alignment[2].argmax())
    said = heat_map.get_attribute("aria-valuetext") or ""
    assert said.startswith(f"Step 3 of {len(output.tokens)}: {output.tokens[2]}, ")
    assert f"looks at “{output.source[most]}”" in said
    page.keyboard.press("End")
    expect(page.locator(".plan-view h3")).to_contain_text(f"Step {len(output.tokens)}")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".caption")).to_contain_text(f"looks at “{output.source[0]}”, position 1")
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    expect(page.locator(".plan-view h3")).to_contain_text("Step 2")  # the film plays
    expect(page.get_by_role("button", name="Pause the film")).to_be_visible()


def test_what_the_server_refuses_is_shown_in_its_own_words(page: Page) -> None:
    ask(page, "1 connected-to nowhere eulerian-circuit 1 2")
    expect(page.get_by_role("alert")).to_contain_text("symbol 3, 'nowhere', is not in the vocabulary")
    ask(page, GRAPH, Beam="50")
    expect(page.get_by_role("alert")).to_have_text("beam is at most 32 here, not 50")
    ask(page, GRAPH, Beam="1")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.route("**/api/generate", lambda route: route.abort())
    ask(page)
    expect(page.get_by_role("alert")).to_have_text("the server cannot be reached")


def give_key(page: Page, key: str) -> None:
    page.get_by_label("This server wants a key").fill(key)
    page.get_by_role("button", name="Open").click()


def test_a_key_is_asked_for_where_the_server_wants_one(browser: Browser) -> None:
    with serving({"pag": generator("pag")}, key="s3cret") as server, window(browser) as page:
        page.goto(server.url)
        give_key(page, "wrong")
        expect(page.get_by_role("alert")).to_have_text("The server does not take that key")
        give_key(page, "s3cret")
        ask(page)
        assert words(page) == alone(server).text.split()


def copied(page: Page, when: str) -> str:
    """The clipboard, as soon as it holds what it should: pages write to it in their own time."""
    page.wait_for_function(f"() => navigator.clipboard.readText().then((text) => {when})")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_the_link_restores_the_view(page: Page, browser: Browser) -> None:
    ask(page, Beam="3", Outputs="3", Compare_with="rpag")
    words(page)
    page.get_by_role("article").first.get_by_role("radio").nth(1).check()
    page.get_by_role("article").first.get_by_role("button", name="One step on").click()
    page.get_by_role("button", name="Copy link").first.click()
    link = copied(page, "text.startsWith('http')")
    with window(browser) as other:
        other.goto(link)
        expect(other.get_by_role("article")).to_have_count(2)
        expect(other.locator(".plan-view h3").first).to_contain_text("Step 2")
        expect(other.get_by_label("Input", exact=True)).to_have_value(GRAPH)
        expect(other.get_by_role("article").first.get_by_role("radio").nth(1)).to_be_checked()


def test_the_circuit_is_walked_on_the_drawn_graph(page: Page, served: Serving) -> None:
    output = alone(served).outputs[0]
    ask(page)
    expect(page.locator(".node")).to_have_count(7)
    expect(page.locator(".edge")).to_have_count(7)
    page.get_by_role("button", name="One step on").click()
    walked = [token for token in output.tokens[:2] if token != "<end>"]
    expect(page.locator(".graph svg")).to_have_attribute(
        "aria-label", re.compile(f"^Walk so far: {' → '.join(walked)}")
    )


@pytest.mark.parametrize("kind", ["PNG", "SVG", "JSON"])
def test_what_is_shown_can_be_downloaded(page: Page, served: Serving, kind: str, tmp_path: Path) -> None:
    ask(page)
    words(page)
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.name == f"pag-pag.{kind.lower()}"
    starts = {"PNG": b"\x89PNG", "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"', "JSON": b"{"}
    assert saved.read_bytes().startswith(starts[kind])
    if kind == "JSON":
        assert json.loads(saved.read_text())["text"] == alone(served).text


def test_text_is_copied(page: Page, served: Serving) -> None:
    ask(page)
    words(page)
    page.get_by_role("button", name="Copy text").click()
    assert copied(page, f"text === {json.dumps(alone(served).text)}") == alone(served).text


@pytest.mark.parametrize(("width", "height"), [(390, 844), (320, 640)])
def test_a_narrow_screen_never_scrolls_sideways(browser: Browser, served: Serving, width: int, height: int) -> None:
    with window(browser, width, height) as page:
        page.goto(served.url)
        ask(page, Outputs="3", Compare_with="baseline")
        words(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_dark_is_dark_and_can_be_chosen(browser: Browser, served: Serving) -> None:
    def brightness(page: Page) -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    with window(browser, color_scheme="dark") as page:
        page.goto(served.url)
        ask(page)
        assert brightness(page) < 150
        page.get_by_role("button", name="Colours").click()
        assert brightness(page) > 600
        page.reload()
        assert brightness(page) > 600


def test_a_document_has_its_answer_marked_and_copied_words_linked(browser: Browser) -> None:
    with serving({"asker": asker()}) as server, window(browser) as page:
        line = server.inputs()[0]
        output = server.generators["asker"].generate(line, alignments=True)[0].outputs[0]
        assert output.copied is not None and output.answer is not None
        places = [int(place) for place in output.copied]
        page.goto(server.url)
        expect(page.get_by_label("Document", exact=True)).to_have_value(json.loads(line)["document"])
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".source .answer")).to_have_text(list(output.source[slice(*output.answer)]))
        copied = sorted({place for place in places if place >= 0})
        expect(page.locator(".source .copied")).to_have_text([shown(output.source[place]) for place in copied])
        page.locator(".source .copied").last.click()
        step = places.index(copied[-1])
        expect(page.locator(f".output .now[data-step='{step}']")).to_have_count(1)
        expect(page.locator(".source .from-here")).to_have_text(shown(output.source[copied[-1]]))


def test_the_api_is_described_without_a_network(page: Page, served: Serving) -> None:
    page.get_by_role("link", name="API").click()
    for place in ("POST /api/generate", "POST /api/score", "GET /api/models", "GET /metrics"):
        expect(page.get_by_role("heading", name=place)).to_be_visible()
    expect(page.locator("pre").first).to_contain_text(f"curl {served.url}/api/generate")


def test_one_file_shows_the_same_views_without_a_server(browser: Browser, served: Serving, tmp_path: Path) -> None:
    result = alone(served, beam=3, n_best=2)
    write_page([result], tmp_path / "plan.html", "a plan")
    with window(browser) as page:
        page.goto(f"file://{tmp_path}/plan.html")
        assert words(page) == result.text.split()
        page.mouse.move(*row(page, 3))
        expect(page.locator(".plan-view h3")).to_contain_text("Step 4")
        expect(page.locator(".node")).to_have_count(7)
        page.get_by_role("radio").nth(1).check()
        assert words(page) == result.outputs[1].text.split()
        with page.expect_download():
            page.get_by_role("button", name="PNG").click()


def test_a_notebook_shows_the_result_in_a_frame(browser: Browser, served: Serving, tmp_path: Path) -> None:
    result = alone(served)
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{result._repr_html_()}</body>", "utf-8")
    with window(browser) as page:
        page.goto(f"file://{tmp_path}/notebook.html")
        frame = page.frame_locator("iframe")
        expect(frame.locator(".output .word:not(.end)")).to_have_text(result.text.split())
        expect(frame.locator(".plan-view h3")).to_contain_text("Step 1")
