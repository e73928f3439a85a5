"""The timeline in a browser: what is drawn and saved, and what its address says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Request, Route
from timeline_page import (
    OFF,
    ON,
    READY,
    SAMPLES,
    SVG,
    OpenPage,
    canvas_box,
    opened,
    picture,
    said,
    wait_for,
)
from viewer_pages import complete, show, too_wide
from viewer_process import Viewer
from viewer_traces import HOSTILE, hostile, written

from cctrace.app.palette import CAUSE_COLOURS
from cctrace.trace import open_trace
from cctrace.trace.metadata import Lane

MANY = 80
CAUSES = ("launch", "pcie", "overlap")


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


@pytest.fixture
def many_lanes(tmp_path: Path) -> Path:
    """A recording with a few calls on each of 80 threads."""
    trace = open_trace(ON)
    table = trace.table()
    calls = table.filter(pc.equal(table["lane"], 2)).slice(4000, MANY * 30)
    position = calls.column_names.index("lane")
    numbers = pa.array(np.repeat(np.arange(MANY, dtype=np.int32), 30))
    lanes = tuple(Lane(lane=number, pid=1663, tid=number + 1) for number in range(MANY))
    rows = calls.set_column(position, "lane", numbers)
    return written(tmp_path / "many.parquet", rows, replace(trace.metadata, lanes=lanes))


def test_of_very_many_lanes_those_near_the_view_are_asked_for(
    viewer_of: Callable[..., Viewer], open_page: OpenPage, many_lanes: Path
) -> None:
    viewer = viewer_of(many_lanes)
    page = open_page(viewer, "/")
    asked: set[str] = set()

    def note(request: Request) -> None:
        for numbers in parse_qs(urlsplit(request.url).query).get("lanes", []):
            asked.update(numbers.split(","))

    page.on("request", note)
    show(page, viewer, "/timeline")
    page.wait_for_selector(READY)
    complete(page)
    at_top = set(asked)
    asked.clear()
    with page.expect_request(lambda request: "/view?" in request.url):
        page.locator(".timeline-scroller").evaluate("one => { one.scrollTop = one.scrollHeight; }")
    complete(page)

    assert page.locator(".timeline-title").count() == MANY
    assert 5 < len(at_top) < MANY / 2
    assert 5 < len(asked) < MANY / 2
    assert not at_top & asked


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


def test_colours_follow_the_scheme(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair)
    corner = "document.querySelector('.timeline canvas').getContext('2d').getImageData(2, 2, 1, 1)"
    ground = f"[...{corner}.data].slice(0, 3)"
    light = page.evaluate(ground)

    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => {ground}[0] < 100")

    assert min(light) == 255


def test_links_of_the_page_can_be_followed_while_it_is_shown(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100")
    wait_for(page, step="100")

    show(page, graph_pair, "/timeline?arm=off&step=7&q=Memcpy")
    page.wait_for_selector(READY)

    assert page.get_by_label("Search names").input_value() == "Memcpy"
    assert page.get_by_role("spinbutton", name="Step").input_value() == "7"
