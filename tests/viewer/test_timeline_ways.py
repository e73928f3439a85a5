"""The ways through the timeline: keys, mouse, fingers, search."""

from __future__ import annotations

import re

import pyarrow.parquet as pq
import pytest
from timeline_page import (
    OFF,
    ON,
    OpenPage,
    canvas_box,
    moved,
    opened,
    picture,
    said,
    spoken,
    wait_for,
)
from viewer_pages import complete
from viewer_process import Viewer


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


def test_rows_too_short_to_be_drawn_are_summed_up(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair, "/timeline?arm=on&step=100&from_us=-300000&to_us=300000")
    box = canvas_box(page)
    complete(page)

    for share in range(20, 95):
        page.mouse.move(box["x"] + box["width"] * share / 100, box["y"] + 108)
        if "short row" in page.inner_text(".timeline-tip"):
            break
    tip = page.inner_text(".timeline-tip")
    page.mouse.down()
    page.mouse.up()
    start, end = moved(page, {"from_us": "-300000", "to_us": "300000"})

    assert re.search(r"^\d+ short rows?\nbusy \d+ % of ", tip)
    assert end - start == pytest.approx(150_000, rel=0.01)


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


def test_help_lists_the_keys(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = opened(open_page, graph_pair)

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys and gestures")
    text = dialog.inner_text()
    page.keyboard.press("Escape")

    assert "Next blocking copy" in text
    assert dialog.is_hidden()
