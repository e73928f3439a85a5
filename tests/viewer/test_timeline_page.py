"""The timeline in a browser: what is drawn, the ways through it by keys, mouse and fingers, the address."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree.ElementTree import Element, fromstring

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, Route
from viewer_pages import complete, show, too_wide
from viewer_process import Viewer
from viewer_traces import HOSTILE, hostile, written

from cctrace.app.palette import CAUSE_COLOURS
from cctrace.trace import open_trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"server-graph-overlap-{name}.parquet" for name in ("emulated", "off"))
READY = ".timeline[data-ready]"
CAUSES = ("launch", "pcie", "overlap")
SVG = "{http://www.w3.org/2000/svg}"
TITLES_WIDTH = 190
"""Of a saved picture: what the titles take at the left of the lanes."""

OpenPage = Callable[..., Page]


def opened(open_page: OpenPage, viewer: Viewer, address: str = "/timeline", **how: object) -> Page:
    page = open_page(viewer, address, **how)
    page.wait_for_selector(READY)
    return page


def said(page: Page) -> dict[str, str]:
    """The parameters of the address line."""
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def wait_for(page: Page, **parameters: str | None) -> dict[str, str]:
    """Waits until the address line has (or, with None, lacks) parameters; all of them then."""
    page.wait_for_function(
        """wanted => {
          const said = new URLSearchParams(location.search);
          return Object.entries(wanted).every(([key, value]) => said.get(key) === value);
        }""",
        arg=parameters,
    )
    return said(page)


def moved(page: Page, before: dict[str, str]) -> tuple[float, float]:
    """Waits until another stretch of time is in view than an address said; its ends, µs."""
    page.wait_for_function(
        """before => {
          const said = new URLSearchParams(location.search);
          return said.has("from_us") && said.get("from_us") + said.get("to_us") !== before;
        }""",
        arg=before.get("from_us", "") + before.get("to_us", ""),
    )
    now = said(page)
    return float(now["from_us"]), float(now["to_us"])


def canvas_box(page: Page) -> dict[str, float]:
    box = page.locator(".timeline canvas").bounding_box()
    assert box is not None
    return {**box}


@dataclass(frozen=True)
class Picture:
    """A saved SVG: what the canvas shows, in a form that can be read."""

    root: Element

    @property
    def texts(self) -> list[str]:
        return [element.text or "" for element in self.root.iter(f"{SVG}text")]

    def place(self, text: str) -> tuple[float, float]:
        """Where the first text that begins so stands on the canvas."""
        moved_right = self.root.find(f"{SVG}g")
        assert moved_right is not None
        for element in moved_right.iter(f"{SVG}text"):
            if (element.text or "").startswith(text):
                return float(element.attrib["x"]), float(element.attrib["y"]) - 4
        raise AssertionError(f"{text!r} is not among {self.texts}")


def picture(page: Page) -> Picture:
    complete(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the picture as SVG").click()
    return Picture(fromstring(Path(download.value.path()).read_text(encoding="utf-8")))


def spoken(page: Page, words: str) -> str:
    """Waits until the live region holds some words; all of it."""
    page.wait_for_function(
        "words => document.querySelector('.timeline-live').textContent.includes(words)", arg=words
    )
    return page.inner_text(".timeline-live")


def test_both_arms_are_drawn_and_aligned_at_the_same_step(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")

    drawn = picture(page)
    axis = drawn.place("0")

    assert [text for text in drawn.texts if text.startswith("step 100 · decode bs=16 · ")] != []
    assert sum("step 100 " in text and " ms" in text for text in drawn.texts) == 2
    assert {"scheduler 1663", "scheduler 1519"} <= set(drawn.texts)
    assert "cuMemcpyDtoHAsync_v2" in drawn.texts
    assert "cuEventSynchronize" in drawn.texts
    steps = [
        float(element.attrib["x"])
        for element in drawn.root.iter(f"{SVG}text")
        if (element.text or "").startswith("step 100 · decode bs=16 ·") and element.get("font-weight")
    ]
    assert len(steps) == 2
    assert steps[0] == steps[1]
    assert abs(steps[0] - axis[0]) < 8


def test_canvas_has_the_colours_of_causes(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair)

    found = page.evaluate(
        """() => {
          const canvas = document.querySelector(".timeline canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let at = 0; at < data.length; at += 4) {
            seen.add([...data.subarray(at, at + 3)].join());
          }
          return [...seen];
        }"""
    )

    shown = {
        cause: ",".join(str(value) for value in bytes.fromhex(CAUSE_COLOURS[cause][1:])) for cause in CAUSES
    }
    assert set(shown.values()) <= set(found)


def test_a_link_to_a_step_of_the_off_arm_leads_by_that_arm(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=off&step=120")

    assert page.get_by_role("spinbutton", name="Step").input_value() == "120"
    assert "CC off" in page.inner_text(".timeline-about")
    assert wait_for(page, arm="off", step="120").keys() == {"arm", "step"}


def test_a_link_to_a_row_selects_it_and_aligns_at_its_step(graph_pair: Viewer, open_page: OpenPage) -> None:
    row = 6774
    table = pq.read_table(ON, columns=["name", "bytes", "start_ns"]).slice(row, 1).to_pylist()[0]

    page = opened(open_page, graph_pair, f"/timeline?arm=on&row={row}")

    assert wait_for(page, sel=f"on:{row}")["step"] == "100"
    page.wait_for_selector(".timeline-columns")
    columns = dict(re.findall(r"^(\w+)\n(.*)$", page.inner_text(".timeline-columns"), re.MULTILINE))
    assert page.inner_text(".timeline-detail h3 > span") == table["name"]
    assert columns["bytes"] == f"{table['bytes']} bytes"
    assert columns["start_ns"].split()[0] == str(table["start_ns"])
    assert page.locator(".timeline-columns [title*='direction of a copy']").count() == 1


def test_a_link_to_a_stretch_shows_it(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100&from_us=300&to_us=500")

    drawn = picture(page)

    assert wait_for(page, from_us="300", to_us="500")["step"] == "100"
    assert "400 µs" in drawn.texts
    assert "0" not in drawn.texts


def test_what_makes_no_sense_in_the_address_is_left_out(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(
        open_page,
        graph_pair,
        "/timeline?arm=up&step=9x&from_us=5&to_us=1&sel=on&hide=<b>,on.x&row=-1&range_us=1&run_on=77",
    )

    assert wait_for(page, arm="on", hide=None, from_us=None, sel=None)["step"].isdigit()
    assert "cuMemcpyDtoHAsync_v2" in picture(page).texts


def test_keys_zoom_and_move(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100&from_us=0&to_us=1000")
    page.mouse.move(5, 5)

    before = wait_for(page, from_us="0", to_us="1000")
    page.keyboard.press("w")
    closer = moved(page, before)
    page.keyboard.press("d")
    right = moved(page, said(page))
    page.keyboard.press("a")
    back = moved(page, said(page))
    page.keyboard.press("s")
    moved(page, said(page))
    page.keyboard.press("0")

    assert 0 < closer[0] < closer[1] < 1000
    assert right[0] > closer[0]
    assert right[1] - right[0] == pytest.approx(closer[1] - closer[0], rel=1e-4)
    assert back == pytest.approx(closer, abs=0.01)
    assert wait_for(page, from_us=None, to_us=None)["step"] == "100"


def test_the_wheel_zooms_about_the_pointer(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100&from_us=0&to_us=1000")
    box = canvas_box(page)

    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    start, end = moved(page, {"from_us": "0", "to_us": "1000"})

    assert end - start < 700
    assert start + (end - start) / 4 == pytest.approx(250, abs=3)


def test_the_mouse_moves_the_view_and_makes_a_range(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100&from_us=0&to_us=1000")
    box = canvas_box(page)
    y = box["y"] + 60

    def drag(start: float, end: float) -> None:
        page.mouse.move(box["x"] + box["width"] * start, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * end, y + 4, steps=6)
        page.mouse.up()

    drag(0.6, 0.4)
    start, end = moved(page, {"from_us": "0", "to_us": "1000"})
    page.keyboard.down("Shift")
    drag(0.25, 0.75)
    page.keyboard.up("Shift")
    page.wait_for_function("() => new URLSearchParams(location.search).has('range_us')")
    length = page.inner_text(".timeline-range")
    page.keyboard.press("f")
    zoomed = moved(page, said(page))

    assert (start, end) == pytest.approx((200, 1200), abs=2)
    assert length.startswith("Range 500 µs")
    assert zoomed == pytest.approx((450, 950), abs=3)
    wait_for(page, range_us=None)
    assert page.locator(".timeline-range").is_hidden()


def test_steps_are_places_that_the_browser_comes_back_to(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    number = page.get_by_role("spinbutton", name="Step")

    page.keyboard.press(".")
    wait_for(page, step="101")
    page.keyboard.press(".")
    wait_for(page, step="102")
    page.keyboard.press(",")
    wait_for(page, step="101")
    page.go_back()
    wait_for(page, step="102")
    page.wait_for_function("() => document.querySelector('.timeline-bar input').value === '102'")
    number.fill("120")
    number.press("Enter")
    wait_for(page, step="120")

    assert any(text.startswith("step 120 ") for text in picture(page).texts)
    assert page.locator(".timeline").count() == 1


def test_b_goes_from_one_blocking_copy_to_the_next(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")

    rows = []
    for key in ("b", "b", "B"):
        before = said(page).get("sel")
        page.keyboard.press(key)
        page.wait_for_function(
            "before => new URLSearchParams(location.search).get('sel') !== before", arg=before
        )
        rows.append(int(said(page)["sel"].removeprefix("on:")))
    found = pq.read_table(ON, columns=["operation", "copy_kind", "duration_ns"]).take(rows).to_pylist()

    assert rows[0] == rows[2] < rows[1]
    assert {(row["operation"], row["copy_kind"]) for row in found} == {("copy", "d2h")}
    assert min(row["duration_ns"] for row in found) > 100_000
    page.wait_for_selector(".timeline-columns dt:has-text('waiting')")


def test_the_lanes_are_walked_by_keys_and_spoken(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    for _ in range(80):
        if page.evaluate("document.activeElement.tagName") == "CANVAS":
            break
        page.keyboard.press("Tab")
    canvas = page.locator(".timeline canvas")

    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    assert canvas.get_attribute("role") == "application"
    assert "blocking copy" in page.inner_text(f"#{canvas.get_attribute('aria-describedby')}")
    page.keyboard.press("ArrowDown")
    assert spoken(page, "decode bs=16").startswith("CC on, scheduler 1663")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    spoken(page, ": cu")
    for _ in range(20):
        before = page.inner_text(".timeline-live")
        if "cuGraphLaunch" in before:
            break
        page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "before => document.querySelector('.timeline-live').textContent !== before", arg=before
        )
    launch = page.inner_text(".timeline-live")
    page.keyboard.press("ArrowLeft")
    spoken(page, "cuMemcpyDtoDAsync")
    page.keyboard.press("ArrowRight")
    assert spoken(page, "cuGraphLaunch") == launch
    page.keyboard.press("ArrowDown")

    assert launch == "CC on, scheduler 1663: cuGraphLaunch, start 374 µs, duration 19.1 µs"
    assert spoken(page, "stream 1").startswith("CC on, GPU 0, stream 1: graph, start 378 µs")
    page.wait_for_selector(".timeline-columns")
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"


def test_a_linked_row_is_one_button_away(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&row=6773")

    page.locator(".timeline-jump", has_text="graph").click()
    spoken(page, "stream 1")
    page.locator(".timeline-jump", has_text="cuGraphLaunch").click()

    assert "cuGraphLaunch" in spoken(page, "scheduler")
    wait_for(page, sel="on:6773")


def test_a_click_selects_and_a_hover_tells(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    x, y = picture(page).place("cuMemcpyDtoHAsync_v2")
    box = canvas_box(page)

    page.mouse.move(box["x"] + x + 10, box["y"] + y)
    page.wait_for_selector(".timeline-tip:not([hidden])")
    page.wait_for_function("() => document.querySelector('.timeline-tip').innerText.includes('64 B')")
    tip = page.inner_text(".timeline-tip")
    page.mouse.down()
    page.mouse.up()

    assert "cuMemcpyDtoHAsync_v2" in tip
    assert "1.13 ms, of which waits 1.11 ms" in tip
    wait_for(page, sel="on:6774")


def test_search_counts_in_both_arms_and_goes_from_hit_to_hit(graph_pair: Viewer, open_page: OpenPage) -> None:
    counts = {
        arm: sum(
            name == "cuGraphLaunch" for name in pq.read_table(path, columns=["name"])["name"].to_pylist()
        )
        for arm, path in (("on", ON), ("off", OFF))
    }
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")

    page.keyboard.press("/")
    page.keyboard.type("graphLAUNCH")
    page.wait_for_function("() => document.querySelector('.timeline-counts').textContent.includes('found')")
    names = page.inner_text(".timeline-names")
    page.keyboard.press("Enter")
    first = wait_for(page, q="graphLAUNCH", sel="on:6773")
    page.locator(".timeline canvas").focus()
    page.keyboard.press("n")
    page.wait_for_function(
        "before => new URLSearchParams(location.search).get('sel') !== before", arg=first["sel"]
    )

    assert page.inner_text(".timeline-counts") == f"on {counts['on']} · off {counts['off']} found"
    assert names.split("\n") == ["cuGraphLaunch", f"{counts['on']} · {counts['off']}"]
    assert "cuGraphLaunch" in spoken(page, "cuGraphLaunch")


def test_a_search_without_a_hit_says_so(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100&q=there-is-none")

    page.get_by_role("button", name="Next hit of the search").click()
    page.wait_for_function("() => document.querySelector('.timeline-note').textContent !== ''")

    assert page.inner_text(".timeline-counts") == "on 0 · off 0 found"
    assert "there-is-none" in page.inner_text(".timeline-note")


def test_lanes_are_hidden_folded_and_brought_back(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    lanes = page.locator(".timeline-gutter .timeline-title")
    count = lanes.count()

    page.get_by_role("button", name="Rows of scheduler 1663").click()
    page.wait_for_function("() => new URLSearchParams(location.search).has('fold')")
    folded = said(page)["fold"]
    page.locator(".timeline-lane", has_text="scheduler 1519").hover()
    page.get_by_role("button", name="Hide scheduler 1519").click()
    page.wait_for_function("() => new URLSearchParams(location.search).has('hide')")
    page.reload()
    page.wait_for_selector(READY)
    after_reload = lanes.all_inner_texts()
    page.get_by_text("Lanes (1 hidden)").click()
    page.get_by_role("checkbox", name="scheduler 1519").check()
    wait_for(page, hide=None, fold=folded)

    assert re.fullmatch(r"on\.\d+", folded)
    assert len(after_reload) == count - 1
    assert "scheduler 1519" not in after_reload
    page.wait_for_function(
        "n => document.querySelectorAll('.timeline-gutter .timeline-title').length === n", arg=count
    )
    assert page.locator(".timeline-fold[aria-expanded=false]").count() == 1


def test_pictures_are_saved(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100", scheme="dark")

    with page.expect_download() as download:
        page.get_by_role("button", name="Save the picture as PNG").click()
    content = Path(download.value.path()).read_bytes()
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    drawn = picture(page)

    assert download.value.suggested_filename == "server-graph-overlap-emulated-timeline-step-100.png"
    assert content.startswith(b"\x89PNG\r\n")
    assert (width, height) == (2 * int(drawn.root.attrib["width"]), 2 * int(drawn.root.attrib["height"]))
    ground = next(element for element in drawn.root if element.tag == f"{SVG}rect")
    assert ground.attrib["fill"] == "rgb(255, 255, 255)"
    assert any(text.startswith(f"CC on · {ON.name} · emulated") for text in drawn.texts)


def test_texts_of_a_trace_stay_texts_in_pictures_and_panels(
    viewer_of: Callable[..., Viewer], open_page: OpenPage, tmp_path: Path
) -> None:
    viewer = viewer_of(hostile(ON, tmp_path), hostile(OFF, tmp_path))
    page = opened(open_page, viewer, "/timeline?arm=on&row=6774&q=script")

    drawn = picture(page)
    page.get_by_label("Search names").focus()
    page.wait_for_selector(".timeline-names button")

    assert {element.tag.removeprefix(SVG) for element in drawn.root.iter()} <= {
        *("svg", "defs", "pattern", "clipPath", "g"),
        *("rect", "line", "path", "polygon", "text"),
    }
    assert any("<img src=x" in text or "</title>" in text for text in drawn.texts)
    assert HOSTILE[:20] in page.inner_text(".timeline-detail")
    assert page.locator(".pwned").count() == 0
    assert page.evaluate("window.pwned") is None
    assert "\u202e" not in page.inner_text(".timeline")
    assert not any("\u202e" in text for text in drawn.texts)


def test_it_says_that_it_waits_and_why_it_cannot(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/", complaints=True)
    answers = [
        {"status": 202, "json": {"pending": "Indexing 40 %"}},
        {"status": 202, "json": {"pending": "Indexing 80 %"}},
        {"status": 422, "json": {"error": "on.parquet: damaged"}},
    ]
    seen = []

    def answer(route: Route) -> None:
        if "arm=on" not in route.request.url:
            route.continue_()
            return
        seen.append(page.inner_text(".timeline-status") if len(seen) else "")
        route.fulfill(**answers[min(len(seen), len(answers)) - 1])

    page.route("**/api/timeline/lanes*", answer)
    page.locator("nav a", has_text="Timeline").click()
    page.wait_for_selector(READY)

    assert seen[1:] == ["CC on: Indexing 40 %", "CC on: Indexing 80 %"]
    assert page.inner_text(".timeline-status") == "CC on: on.parquet: damaged"
    texts = picture(page).texts
    assert "on.parquet: damaged" in texts
    assert "scheduler 1519" in texts


def test_it_ends_with_its_page_and_starts_again(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    for _ in range(3):
        page.locator("nav a", has_text="Environment").click()
        page.wait_for_function("() => !document.querySelector('.timeline')")
        page.keyboard.press(".")
        page.keyboard.press("?")
        page.locator("nav a", has_text="Timeline").click()
        page.wait_for_selector(READY)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    before = int(wait_for(page, arm="on")["step"])
    page.keyboard.press(",")
    wait_for(page, step=str(before - 1))
    complete(page)

    assert page.locator("dialog").count() == 1
    assert page.locator("dialog[open]").count() == 0
    steps = [url for url in asked if "/step?" in url and f"step={before - 1}&" in f"{url}&"]
    assert len(steps) <= 1


def test_a_recording_without_steps_is_shown_from_its_first_row(
    viewer_of: Callable[..., Viewer], open_page: OpenPage, tmp_path: Path
) -> None:
    trace = open_trace(ON)
    few = written(tmp_path / "few.parquet", trace.table().slice(4700, 40), trace.metadata)

    page = opened(open_page, viewer_of(few))

    assert page.inner_text(".timeline-about") == "no steps: aligned at the first row"
    assert "cannot tell the steps" in page.inner_text(".timeline-note")
    assert page.get_by_role("spinbutton", name="Step").is_disabled()
    assert len(picture(page).texts) > 5


def test_another_recording_of_an_arm_can_be_chosen(
    viewer_of: Callable[..., Viewer], open_page: OpenPage, tmp_path: Path
) -> None:
    for readback in ("overlap", "sync"):
        (tmp_path / "on").mkdir(exist_ok=True)
        shutil.copy(
            SAMPLES / f"server-graph-{readback}-emulated.parquet", tmp_path / "on" / f"{readback}.parquet"
        )
    page = opened(open_page, viewer_of(tmp_path / "on", OFF), "/timeline?arm=on&step=100")
    files = page.locator(".timeline-file")
    page.keyboard.press(".")
    wait_for(page, step="101")
    complete(page)

    page.get_by_label("recording of the on arm").first.click()
    page.get_by_role("option", name="sync.parquet").click()
    chosen = wait_for(page, run_on="1")
    page.wait_for_function("() => document.querySelector('.timeline-file').textContent === 'sync.parquet'")
    other = picture(page).texts
    page.go_back()
    wait_for(page, run_on=None)
    page.wait_for_function("() => document.querySelector('.timeline-file').textContent === 'overlap.parquet'")

    assert chosen["step"] == "101"
    assert any(text.startswith("CC on · sync.parquet") for text in other)
    assert files.all_inner_texts()[1] == OFF.name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_usable_on_a_narrow_screen(graph_pair: Viewer, open_page: OpenPage, scheme: str) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&row=6774", width=390, height=844, scheme=scheme)
    page.wait_for_selector(".timeline-columns")
    frame = page.locator(".timeline-frame").bounding_box()
    detail = page.locator(".timeline-detail").bounding_box()
    assert frame is not None
    assert detail is not None

    assert too_wide(page) == []
    assert canvas_box(page)["width"] > 340
    assert detail["y"] >= frame["y"] + frame["height"]
    assert page.locator(".timeline-title", has_text="scheduler 1663").is_visible()


def test_fingers_move_and_pinch(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(
        open_page, graph_pair, "/timeline?arm=on&step=100&from_us=0&to_us=1000", width=390, height=844
    )
    page.locator(".timeline canvas").scroll_into_view_if_needed()
    box = canvas_box(page)
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *xs: float) -> None:
        points = [{"x": box["x"] + box["width"] * x, "y": box["y"] + 60, "id": n} for n, x in enumerate(xs)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.7)
    for x in (0.6, 0.5, 0.4, 0.2):
        touch("touchMove", x)
    touch("touchEnd")
    start, end = moved(page, {"from_us": "0", "to_us": "1000"})
    touch("touchStart", 0.4, 0.6)
    for spread in (0.15, 0.2, 0.3):
        touch("touchMove", 0.5 - spread, 0.5 + spread)
    touch("touchEnd")
    closer = moved(page, said(page))

    assert (start, end) == pytest.approx((500, 1500), abs=40)
    assert closer[1] - closer[0] < 600
    assert sum(closer) / 2 == pytest.approx((start + end) / 2, abs=60)


def test_colours_follow_the_scheme(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair)
    corner = "document.querySelector('.timeline canvas').getContext('2d').getImageData(2, 2, 1, 1)"
    ground = f"[...{corner}.data].slice(0, 3)"
    light = page.evaluate(ground)

    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => {ground}[0] < 100")

    assert min(light) == 255


def test_help_lists_the_keys(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair)

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys and gestures")
    text = dialog.inner_text()
    page.keyboard.press("Escape")

    assert "Next blocking copy" in text
    assert dialog.is_hidden()


def test_links_of_the_page_can_be_followed_while_it_is_shown(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    wait_for(page, step="100")

    show(page, graph_pair, "/timeline?arm=off&step=7&q=Memcpy")
    page.wait_for_selector(READY)

    assert page.get_by_label("Search names").input_value() == "Memcpy"
    assert page.get_by_role("spinbutton", name="Step").input_value() == "7"
