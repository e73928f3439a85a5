"""The page of copies: what it says of known recordings, its choices, and the ways to the timeline."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from trace_builder import table_of
from viewer_pages import complete
from viewer_process import Viewer

from cctrace.analyzers.copy_law import MAX_SIZES
from cctrace.trace import Acceptance, Lane, Metadata, TraceWriter, open_trace
from cctrace.trace.acceptance import Security
from cctrace.trace.schema import COPY_KINDS

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
SIZES = (64, 4096, 65536, 1 << 20, 1 << 23, 1 << 26)
STEPS = 80

OpenPage = Callable[..., Page]
ViewerOf = Callable[..., Viewer]


def event(at_us: float, us: float, **more: Any) -> dict[str, Any]:
    return {
        "kind": "submit",
        "source": "interposer",
        "start_ns": 10**12 + round(at_us * 1e3),
        "duration_ns": round(us * 1e3),
        "pid": 7,
        "tid": 7,
        "lane": 0,
        "result": 0,
        **more,
    }


def a_copy(at_us: float, us: float, size: int, direction: str, **more: Any) -> dict[str, Any]:
    host, device = more.pop("memory", "pinned"), "device"
    source, target = (device, host) if direction == "d2h" else (host, device)
    known = {"name": "cuMemcpyAsync", "operation": "copy", "copy_kind": direction, "bytes": size}
    where = {"src_memory": source, "dst_memory": target, "blocking": False}
    return event(at_us, us, **{**known, **where, **more})


def server(path: Path, *, fixed_us: float, gb_per_s: float, blocks_us: float, cc_mode: str) -> Path:
    """Steps with copies to the device that follow a law, and a read-back that waits or does not."""
    random = np.random.default_rng(1)
    rows: list[dict[str, Any]] = []
    now = 0.0
    for step in range(STEPS):
        begin = now
        for index in range(4):
            size = SIZES[(4 * step + index) % len(SIZES)]
            us = (fixed_us + size / gb_per_s / 1e3) * float(np.exp(random.normal(0, 0.03)))
            rows.append(a_copy(now, us, size, "h2d"))
            now += us + 20
        rows.append(a_copy(now, 5 + blocks_us, 256, "d2h", tid=8, lane=1))
        rows.append(a_copy(now + 300, 40, 65536, "h2d", memory="pageable", blocking=True))
        now += 400
        for index in range(20):
            launch = {"name": "cuLaunchKernel", "operation": "kernel", "kernel": f"k{index}"}
            rows.append(event(now, fixed_us, **launch))
            now += 30
        now += blocks_us
        mark = {"name": "decode bs=8", "step": step, "step_class": "decode bs=8", "source": "hook"}
        rows.append(event(begin, now - begin, kind="step", **mark))
    rows.sort(key=lambda row: (row["lane"], row["start_ns"], row["kind"] != "step"))
    roles = ("scheduler", "copy-worker")
    lanes = [Lane(lane=n, pid=7, kind="thread", tid=7 + n, role=role) for n, role in enumerate(roles)]
    with TraceWriter(path) as writer:
        writer.write(table_of(rows))
        security = Acceptance(security=Security(cc_mode=cc_mode))
        writer.finish(Metadata(acceptance=security, lanes=tuple(lanes)))
    return path


@pytest.fixture(scope="session")
def law_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("copies")
    on = {"fixed_us": 16.0, "gb_per_s": 9.5, "blocks_us": 900.0, "cc_mode": "on"}
    off = {"fixed_us": 4.0, "gb_per_s": 50.0, "blocks_us": 0.0, "cc_mode": "off"}
    return server(folder / "on.parquet", **on), server(folder / "off.parquet", **off)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def law_pair(viewer_of: ViewerOf, law_files: tuple[Path, Path]) -> Viewer:
    return viewer_of(*law_files)


def traces(page: Page, direction: str) -> dict[str, dict[str, Any]]:
    """What a chart draws: name → symbol, dash, points."""
    found: list[dict[str, Any]] = page.evaluate(
        """id => document.querySelector(`#${id} .js-plotly-plot`)._fullData.map(one => ({
          name: one.name, symbol: one.marker && one.marker.symbol, dash: one.line && one.line.dash,
          mode: one.mode, x: Array.from(one.x), y: Array.from(one.y),
        }))""",
        f"copies-{direction}",
    )
    return {one["name"]: one for one in found}


def table(page: Page, place: str) -> list[dict[str, str]]:
    """The rows of a table, by heading."""
    head = page.locator(f"{place} th").all_inner_texts()
    cells = [row.locator("td").all_inner_texts() for row in page.locator(f"{place} tbody tr").all()]
    return [dict(zip(head, row, strict=True)) for row in cells]


def charts(page: Page) -> list[str]:
    return page.locator("#page figcaption").evaluate_all("all => all.map(one => one.firstChild.textContent)")


def test_both_arms_are_told_apart_by_more_than_colour(law_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(law_pair, "/copies")
    to_device, to_host = traces(page, "h2d"), traces(page, "d2h")

    assert to_device["off: returned at once"]["symbol"] == "circle-open"
    assert to_device["on: returned at once"]["symbol"] == "circle"
    assert to_device["off: blocks by contract"]["symbol"] == "cross-open"
    assert to_device["on: blocks by contract"]["symbol"] == "cross"
    assert to_host["on: waited in effect"]["symbol"] == "x"
    assert "off: waited in effect" not in to_host
    lines = {name: one["dash"] for name, one in to_device.items() if one["mode"] == "lines"}
    assert sorted(lines.values()) == ["dash", "solid"]
    assert all(name.startswith("off" if dash == "dash" else "on") for name, dash in lines.items())


def test_the_law_of_each_arm_is_in_the_table_and_in_the_chart(law_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(law_pair, "/copies")
    rows = {(row["copies"], row["arm"]): row for row in table(page, "#copies-law")}
    off, on = (rows["host to device, pinned", arm] for arm in ("off", "on"))

    for row, fixed, rate in ((off, 4.0, 50.0), (on, 16.0, 9.5)):
        assert value(row["fixed cost"]) == pytest.approx(fixed, rel=0.05)
        assert value(row["bandwidth"]) == pytest.approx(rate, rel=0.05)
        assert re.search(r"\[\d.* to \d.*\]", row["fixed cost"])
        assert re.search(r"\[\d.* to \d.* GB/s\]", row["bandwidth"])
    law = on["law, or why there is none"]
    assert f"on: pinned: {law}" in traces(page, "h2d")
    unknown = rows["host to device, pageable", "on"]["law, or why there is none"]
    assert unknown == "cannot tell, because all of them waited"
    assert "only 1 size" in rows["device to host, pinned", "off"]["law, or why there is none"]


def value(text: str) -> float:
    """The first number of a cell, in µs or GB/s."""
    number, unit = re.match(r"([\d.]+) (\S+)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"ms": 1e3}.get(unit, 1.0)


def test_medians_by_size_stand_side_by_side(law_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(law_pair, "/copies")
    rows = [row for row in table(page, "#copies-medians") if row["copies"] == "host to device, pinned"]

    assert len(rows) == len(SIZES) <= MAX_SIZES
    for size, row in zip(SIZES, rows, strict=True):
        off, on = 4 + size / 50e3, 16 + size / 9.5e3
        assert value(row["off: median [10–90 %]"]) == pytest.approx(off, rel=0.03)
        assert value(row["on: median [10–90 %]"]) == pytest.approx(on, rel=0.03)
        assert value(row["on − off"].lstrip("+")) == pytest.approx(on - off, rel=0.05)
    (back,) = (row for row in table(page, "#copies-medians") if row["copies"] == "device to host, pinned")
    assert (back["off: waited"], back["on: median [10–90 %]"]) == ("–", "–")
    assert re.fullmatch(r"\d+ × 905 µs", back["on: waited"])


def test_sizes_without_end_are_a_table_that_sorts(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage
) -> None:
    rows = [a_copy(100 * index, 4 + index % 30, 64 * (1 + index % 30), "h2d") for index in range(300)]
    rows += [a_copy(100 * index + 40_000, 5, 7, "h2d") for index in range(2)]
    path = tmp_path_factory.mktemp("sizes") / "many.parquet"
    with TraceWriter(path) as writer:
        writer.write(table_of(rows))
        writer.finish(Metadata())
    page = open_page(viewer_of(path), "/copies")
    grid = page.locator("#copies-sizes")
    grid.locator(".ag-header-cell[col-id=median_one]").click()
    grid.locator(".ag-header-cell[col-id=median_one]").click()

    # Numbers in order, largest first: 9 does not come before 10.
    first = grid.locator(".ag-row[row-index='0'] [col-id=median_one]")
    expect(first).to_have_text("33")
    assert "Left out: 1 size with fewer than 5 copies" in page.locator("#copies-medians").inner_text()


def test_copies_per_step(law_pair: Viewer, open_page: OpenPage) -> None:
    rows = table(open_page(law_pair, "/copies"), "#copies-per-step")

    assert sum(float(row["on: a step"]) for row in rows if row["copies"] == "host to device, pinned") == (
        pytest.approx(4, abs=0.1)
    )
    (back,) = (row for row in rows if row["copies"] == "device to host, pinned")
    assert (back["off: a step"], back["on: a step"], back["on: bytes a step"]) == ("1", "1", "256 B")
    assert back["off: waited"] == "–"
    assert int(back["on: waited"]) > 60


def test_places_that_block_lead_to_the_timeline(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/copies")
    first = table(page, "#copies-sites")[0]

    assert first["copy"] == "copy d2h of 64 B"
    assert first["cause"] == "overlap: blocks"
    assert first["saved if removed"].startswith("−")
    page.locator("#copies-sites a").first.click()
    page.wait_for_url("**/timeline?*class=*")


def test_choices_are_links_that_the_address_holds(law_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(law_pair, "/copies")
    assert charts(page) == ["Host to device", "Device to host"]
    page.get_by_role("link", name="device to host").click()
    page.wait_for_url("**/copies?direction=d2h")
    page.wait_for_function("() => document.querySelectorAll('#page figure').length === 1")
    complete(page)

    assert charts(page) == ["Device to host"]
    page.get_by_role("link", name="copy-worker (off 8, on 8)").click()
    page.wait_for_url("**/copies?direction=d2h&thread=copy-worker")
    complete(page)
    again = open_page(law_pair, "/copies?direction=d2h&thread=copy-worker")
    assert again.locator("#page").inner_text() == page.locator("#page").inner_text()
    page.go_back()
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('#page figure').length === 2")


def test_filters_leave_out_what_was_not_chosen(law_pair: Viewer, open_page: OpenPage) -> None:
    pageable = open_page(law_pair, "/copies?memory=pageable")
    scheduler = open_page(law_pair, "/copies?thread=scheduler")

    assert charts(pageable) == ["Host to device"]
    assert set(traces(pageable, "h2d")) == {"off: blocks by contract", "on: blocks by contract"}
    assert charts(scheduler) == ["Host to device"]
    nothing = open_page(law_pair, "/copies?memory=pageable&direction=d2h")
    assert "No copy is as chosen." in nothing.locator("#page").inner_text()


def test_what_makes_no_sense_in_an_address_is_left_out(law_pair: Viewer, open_page: OpenPage) -> None:
    nonsense = {
        "direction": "<script>",
        "memory": "../../etc/passwd",
        "thread": "9" * 300,
        "scope": "\x00",
        "time": "gpu",
        "profile": "/etc/passwd.toml",
        "run_on": "-1",
    }
    plain = open_page(law_pair, "/copies").locator("#page").inner_text()
    page = open_page(law_pair, f"/copies?{urlencode(nonsense)}")

    assert page.locator("#page").inner_text() == plain


def test_a_platform_is_drawn_as_a_reference(law_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(law_pair, "/copies?profile=b200-tdx")
    line = traces(page, "h2d")["b200-tdx, pinned: CC adds"]

    # Launch toll and encryption of 64 MiB: about 9.5 GB/s on, 55 GB/s off.
    assert np.interp(1 << 26, line["x"], line["y"]) == pytest.approx(12.25 + 5832, rel=0.02)
    assert traces(page, "d2h")["b200-tdx, pinned: CC adds"]["dash"] == "dashdot"


@pytest.mark.parametrize("arm", ["on", "off"])
def test_the_slowest_copies_lead_to_their_rows(
    law_pair: Viewer, law_files: tuple[Path, Path], open_page: OpenPage, arm: str
) -> None:
    page = open_page(law_pair, "/copies?direction=h2d&memory=pinned")
    link = page.locator("#copies-slowest a", has_text=f"{arm}: row").first
    row = int(re.findall(r"\d+", link.inner_text())[0])
    rows = open_trace(law_files[arm == "off"]).table(["bytes", "duration_ns", "copy_kind"]).to_pylist()

    assert rows[row]["copy_kind"] == COPY_KINDS[0]
    assert rows[row]["duration_ns"] == max(one["duration_ns"] for one in rows if one["bytes"] == SIZES[-1])
    assert link.get_attribute("href") == f"/timeline?arm={arm}&row={row}"


def test_a_click_on_a_point_opens_it_in_the_timeline(law_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(law_pair, "/copies?direction=d2h")
    point = page.locator("#copies-d2h .scatterlayer .trace").nth(1).locator(".point").first
    box = point.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    # The timeline goes to the row, and selects it.
    page.wait_for_url(re.compile(r"/timeline\?.*(arm=on&row=|sel=on(:|%3A))\d+"))


def test_one_recording_has_one_arm(
    viewer_of: ViewerOf, law_files: tuple[Path, Path], open_page: OpenPage
) -> None:
    page = open_page(viewer_of(law_files[0]), "/copies")
    text = page.locator("#page").inner_text()

    assert "Places that block" not in text
    assert "on − off" not in text
    assert set(traces(page, "d2h")) >= {"waited in effect"}
    assert {row["law, or why there is none"] for row in table(page, "#copies-law")}


def test_times_that_cupti_lengthens_give_no_law(viewer_of: ViewerOf, open_page: OpenPage) -> None:
    viewer = viewer_of(SAMPLES / "server-graph-overlap-nodes.parquet")
    on_gpu, calls = open_page(viewer, "/copies"), open_page(viewer, "/copies?time=calls")

    # What nobody asks for first: times of host calls in such a recording.
    assert "time on the GPU (CUPTI)" in on_gpu.locator("#page").inner_text()
    assert set(traces(on_gpu, "d2h")) == {"copy"}
    assert "Made with CUPTI, which lengthens host calls" in calls.locator("#page").inner_text()
    laws = {row["law, or why there is none"] for row in table(calls, "#copies-law")}
    assert laws == {"cannot tell, because CUPTI lengthens host calls in this recording"}


def test_a_pair_without_copies_says_so(viewer_of: ViewerOf, open_page: OpenPage) -> None:
    viewer = viewer_of(*(SAMPLES / f"launch-181-{arm}.parquet" for arm in ("emulated", "off")))
    page = open_page(viewer, "/copies")

    assert page.locator("#page h2").all_inner_texts() == ["No copies to show"]
    assert page.locator("#page").inner_text().count("holds no copy") == 2


def test_emulated_costs_are_called_so(graph_pair: Viewer, open_page: OpenPage) -> None:
    text = open_page(graph_pair, "/copies").locator("#page .warning").all_inner_texts()

    assert any("on: emulated (b200-tdx: launch, overlap)" in one for one in text)
