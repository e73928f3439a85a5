"""The page of steps in a browser: charts, distributions, controls and the address, ways to the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from components import all_of, words
from playwright.sync_api import Page
from trace_builder import PID, Load, build
from viewer_pages import complete, show, too_wide
from viewer_process import Viewer
from viewer_traces import host_only, written

from cctrace.analyzers.step_series import METRICS, main_process, step_series
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.pages import steps as page_of_steps
from cctrace.app.viewer.step_charts import ALL_POINTS
from cctrace.app.viewer.view import View
from cctrace.app.viewer.view import opened as view_of
from cctrace.trace import Metadata

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"server-graph-overlap-{name}.parquet" for name in ("emulated", "off"))
CHART = "#steps-chart .js-plotly-plot"
PERIOD = METRICS[0]

OpenPage = Callable[..., Page]


def steps_page(open_page: OpenPage, viewer: Viewer, search: str = "", **how: object) -> Page:
    page = open_page(viewer, f"/steps{search}", **how)
    page.wait_for_selector(f"{CHART} .xy")
    return page


def said(page: Page) -> dict[str, str]:
    """The parameters of the address line."""
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def wait_for(page: Page, **parameters: str | None) -> None:
    """Waits until the address has (or, with None, lacks) parameters, and the page shows it."""
    page.wait_for_function(
        """wanted => {
          const said = new URLSearchParams(location.search);
          return Object.entries(wanted).every(([key, value]) => said.get(key) === value);
        }""",
        arg=parameters,
    )
    complete(page)


def drawn(page: Page, name: str, chart: str = CHART) -> list[dict[str, Any]]:
    """The traces of a chart with a name, top panel first: their values, as Plotly has them."""
    found: list[dict[str, Any]] = page.evaluate(
        """([chart, name]) => document.querySelector(chart).calcdata
          .filter((points) => points[0].trace.name === name)
          .map((points) => ({
            x: points.filter((one) => one.x !== undefined).map((one) => one.x),
            y: points.filter((one) => one.x !== undefined).map((one) => one.y),
            symbol: points[0].trace.marker?.symbol,
            dash: points[0].trace.line?.dash,
          }))""",
        [chart, name],
    )
    return found


def x_range(page: Page) -> list[float]:
    found: list[float] = page.evaluate("c => document.querySelector(c).layout.xaxis.range", CHART)
    return found


def panel_titles(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(f"{CHART} .annotation-text").all_text_contents()]


def drag(page: Page, begin: float, end: float) -> None:
    """Drags over the top panel, from one part (0–1) of its width to another."""
    box = page.locator(f"{CHART} .nsewdrag").first.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] * 0.8
    page.mouse.move(box["x"] + box["width"] * begin, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, height, steps=4)
    page.mouse.up()


@pytest.fixture(scope="module")
def host_pair(viewer_of: Callable[..., Viewer], tmp_path_factory: pytest.TempPathFactory) -> Viewer:
    """A pair without GPU rows."""
    return viewer_of(*host_only(tmp_path_factory.mktemp("host")))


@pytest.fixture(scope="module")
def long_run(viewer_of: Callable[..., Viewer], tmp_path_factory: pytest.TempPathFactory) -> Viewer:
    """One recording with more steps than a chart draws."""
    made = build(
        Load(execution="graph", steps=7000, layers=1, input_copies=0, sampling_kernels=0, marks="decode")
    )
    return viewer_of(written(tmp_path_factory.mktemp("long") / "long.parquet", made.table, Metadata()))


def test_both_arms_are_drawn_over_the_steps_and_differ_by_more_than_colour(
    open_page: OpenPage, graph_pair: Viewer
) -> None:
    page = steps_page(open_page, graph_pair, "?steps=all&y=log")

    assert panel_titles(page) == ["Period, ms", "Submissions per step", "Stall, ms", "GPU busy, ms"]
    for arm, path in (("on", ON), ("off", OFF)):
        process = main_process(step_series(path))
        assert process is not None
        (period, *_) = drawn(page, f"{arm}: a step")
        assert period["x"] == np.flatnonzero(process.steady).tolist()
        assert period["y"] == pytest.approx(process.values(PERIOD)[process.steady] / 1e3)
    assert {one["symbol"] for one in drawn(page, "on: a step")} == {"circle"}
    assert {one["symbol"] for one in drawn(page, "off: a step")} == {"circle-open"}
    assert {one["dash"] for one in drawn(page, "on: median")} == {"solid"}
    assert {one["dash"] for one in drawn(page, "off: median")} == {"dash"}


def test_the_table_has_the_medians_and_tails_of_both_arms(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair)

    text = page.locator("#steps-quantiles").inner_text()

    medians = {}
    for path in (ON, OFF):
        process = main_process(step_series(path))
        assert process is not None
        chosen = process.steady & (process.class_of == process.main_class)
        medians[path] = float(np.median(process.values(PERIOD)[chosen]))
        assert f"{medians[path] / 1e3:.2f} ms" in text
        assert f"{np.percentile(process.values(PERIOD)[chosen], 99) / 1e3:.2f} ms" in text
    assert f"{medians[ON] / medians[OFF] - 1:+.1%}".replace("%", " %") in text
    assert "on ÷ off − 1" in text
    assert "Steady steps only" in page.locator("#steps-distribution-notes").inner_text()


def test_histogram_and_ecdf_have_all_steady_steps(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair, "?metric=stall")

    for arm in ("on", "off"):
        (bars,) = drawn(page, arm, "#steps-histogram .js-plotly-plot")
        (curve,) = drawn(page, arm, "#steps-ecdf .js-plotly-plot")
        assert 99 <= sum(bars["y"]) <= 100.001
        assert curve["y"][-1] == pytest.approx(100)
    assert "Stall, µs" in page.locator("#steps-histogram .xtitle").all_text_contents()


def test_controls_write_the_address_and_follow_it_back(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair)

    page.get_by_text("Graph launches", exact=True).first.click()
    wait_for(page, metrics="period,submissions,graphs,stall,gpu")
    assert "Graph launches per step" in panel_titles(page)
    page.get_by_text("logarithmic", exact=True).click()
    wait_for(page, y="log")
    page.get_by_text("time", exact=True).click()
    wait_for(page, x="time")
    assert page.get_by_text("seconds since the first step").count() == 1
    page.get_by_label("also steps that do not count").uncheck(force=True)
    wait_for(page, left_out="no")

    for _ in range(4):
        page.go_back()
    wait_for(page, metrics=None, y=None, x=None, left_out=None)
    assert len(panel_titles(page)) == 4
    assert page.locator("#steps-y input:checked").input_value() == "zero"
    assert page.get_by_label("also steps that do not count").is_checked()


def test_an_address_can_be_shared(open_page: OpenPage, graph_pair: Viewer) -> None:
    search = "?metrics=stall&x=time&y=fit&steps=phase-prefill&x0=0.1&x1=0.4&metric=submissions"

    page = steps_page(open_page, graph_pair, search)

    assert panel_titles(page)[0].startswith("Stall")
    assert x_range(page) == [0.1, 0.4]
    assert page.locator("#steps-from").input_value() == "0.1"
    assert page.locator("#steps-metric").input_value() == "Submissions"
    assert page.locator("#steps-group").input_value().startswith("prefill")
    assert said(page) == {key: values[0] for key, values in parse_qs(search[1:]).items()}


@pytest.mark.parametrize(
    "search",
    [
        "?metrics=nothing,%3Cb%3E&x=sideways&y=up&steps=class-99&metric=%00&x0=nan&x1=1e999",
        "?x0=9&x1=3&run_on=77&run_off=-1&pid_on=abc&left_out=perhaps",
        "?x0=1e9&x1=2e9",
    ],
)
def test_an_address_that_makes_no_sense_shows_the_page(
    open_page: OpenPage, graph_pair: Viewer, search: str
) -> None:
    page = steps_page(open_page, graph_pair, search)

    assert len(panel_titles(page)) == 4
    assert page.locator("[role=alert]").count() == 0


def test_dragging_zooms_and_all_can_be_shown_again(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair)
    first, last = x_range(page)

    drag(page, 0.25, 0.5)
    page.wait_for_url("**x0=*")
    complete(page)

    begin, end = x_range(page)
    width = last - first
    assert [begin, end] == pytest.approx([first + width / 4, first + width / 2], abs=width / 50)
    (steps, *_) = drawn(page, "on: a step")
    assert begin <= min(steps["x"])
    assert max(steps["x"]) <= end
    page.get_by_role("button", name="Show all").click()
    wait_for(page, x0=None, x1=None)
    assert x_range(page) == [first, last]


def test_a_range_can_be_typed(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair)

    page.locator("#steps-from").fill("40")
    page.keyboard.press("Tab")
    page.locator("#steps-to").fill("60")
    page.keyboard.press("Enter")
    wait_for(page, x0="40", x1="60")

    assert x_range(page) == [40, 60]


def test_zooming_shows_steps_that_the_whole_run_had_no_room_for(
    open_page: OpenPage, long_run: Viewer
) -> None:
    page = steps_page(open_page, long_run, "?metrics=period")
    (whole, *_) = drawn(page, "a step")
    assert len(whole["x"]) <= ALL_POINTS
    assert "the lowest and highest of each stretch" in page.locator("#steps-notes").inner_text()

    show(page, long_run, "/steps?metrics=period&x0=3000&x1=3100")
    page.wait_for_selector(f"{CHART} .xy")

    (some, *_) = drawn(page, "a step")
    assert some["x"] == list(range(3000, 3101))
    assert "stretch" not in page.locator("#steps-notes").inner_text()


def test_a_click_on_a_point_opens_that_step_in_the_timeline(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair, "?metrics=period&x0=100&x1=110&left_out=no")
    place = page.evaluate(
        """chart => {
          const plot = document.querySelector(chart);
          const panel = plot.querySelector(".nsewdrag").getBoundingClientRect();
          const { xaxis, yaxis } = plot._fullLayout;
          const trace = plot.calcdata.find((points) => points[0].trace.name === "off: a step");
          const point = trace.find((one) => one.x === 105);
          return [panel.x + xaxis.c2p(point.x), panel.y + yaxis.c2p(point.y)];
        }""",
        CHART,
    )

    page.mouse.move(*place)
    page.wait_for_selector(f"{CHART} .hovertext")
    assert "off: step 105" in page.locator(f"{CHART} .hovertext").first.text_content()
    page.mouse.click(*place)

    page.wait_for_url("**/timeline*")
    assert said(page) | {"arm": "off", "step": "105"} == said(page)


def test_a_step_opens_by_keyboard(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair)
    number = page.get_by_label("Number of the step to open")

    number.fill("99999")
    page.keyboard.press("Enter")
    page.get_by_text("0 to 298").wait_for()
    number.fill("12")
    page.keyboard.press("Enter")

    page.wait_for_url("**/timeline*")
    assert said(page) | {"arm": "on", "step": "12"} == said(page)


def test_a_step_typed_faster_than_the_browser_draws_opens(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair)

    page.get_by_label("Number of the step to open").evaluate(
        """async input => {
          const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
          write.call(input, "12");
          input.dispatchEvent(new Event("input", { bubbles: true }));
          await new Promise(queueMicrotask);
          input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
        }"""
    )

    page.wait_for_url("**/timeline*")
    assert said(page) | {"arm": "on", "step": "12"} == said(page)


def test_the_slowest_steps_lead_to_the_timeline(open_page: OpenPage, graph_pair: Viewer) -> None:
    page = steps_page(open_page, graph_pair, "?steps=all")
    process = main_process(step_series(ON))
    assert process is not None
    slowest = int(np.argmax(process.period_ns))

    link = page.locator("#steps-slowest a").first
    assert link.inner_text() == f"on: {slowest}"
    link.click()

    page.wait_for_url(f"**/timeline?arm=on&step={slowest}*")


def test_without_gpu_rows_the_page_says_why(open_page: OpenPage, host_pair: Viewer) -> None:
    page = steps_page(open_page, host_pair)

    assert panel_titles(page)[0].startswith("Period")
    assert page.locator(".step-controls").get_by_text("GPU busy", exact=True).count() == 0
    assert said(page) == {}
    notes = page.locator("#steps-notes").inner_text()
    assert "on: GPU busy: cannot tell, because the recording holds no GPU rows" in notes
    assert "off: GPU busy: cannot tell" in notes


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_window(open_page: OpenPage, graph_pair: Viewer, scheme: str) -> None:
    page = steps_page(open_page, graph_pair, "?steps=all", width=390, height=844, scheme=scheme)

    assert too_wide(page) == []


# ---- without a browser


@pytest.fixture
def laid_out() -> Iterator[Callable[..., Any]]:
    """The page of recordings, computed: `laid_out([on], [off], "?…")`."""
    views: list[View] = []

    def layout(on: list[Path], off: list[Path], search: str = "") -> Any:
        views.append(view_of(on, off))
        state = Address.parse("/steps", search)
        for arm in views[-1].arms:
            for run in arm.runs:
                views[-1].of_run(step_series, run, wait=True)
        return page_of_steps.layout(views[-1], state)

    yield layout
    for view in views:
        view.close()


def test_a_recording_without_steps_says_why(tmp_path: Path, laid_out: Callable[..., Any]) -> None:
    short = written(tmp_path / "short.parquet", build(Load(steps=1)).table, Metadata())

    alone, beside = laid_out([short], []), laid_out([short], [OFF])

    assert "short.parquet: cannot tell the steps, because" in words(alone)
    assert "Steps over time" not in words(alone)
    assert "short.parquet: cannot tell the steps, because" in words(beside)
    assert "Steps over time" in words(beside)


def test_a_range_without_steps_is_no_empty_chart_without_a_word(laid_out: Callable[..., Any]) -> None:
    assert "None of the chosen steps lies in this range." in words(laid_out([ON], [OFF], "?x0=1e6&x1=2e6"))
    assert "None of the chosen steps" not in words(laid_out([ON], [OFF], "?x0=1&x1=20"))


def test_other_processes_and_runs_can_be_chosen(tmp_path: Path, laid_out: Callable[..., Any]) -> None:
    import pyarrow as pa  # noqa: PLC0415 - only here

    loads = [Load(marks="decode", steps=30), Load(marks="decode", steps=20, pid=PID + 50)]
    both = pa.concat_tables([build(one).table for one in loads])
    two = written(tmp_path / "two.parquet", both, Metadata())
    more = written(tmp_path / "more.parquet", build(Load(marks="decode", steps=45)).table, Metadata())

    first, second, other = (
        words(laid_out([two, more], [], search)) for search in ("", f"?pid_one={PID + 50}", "?run_one=1")
    )

    assert "29 steps from marks" in first
    assert "19 steps from marks" in second
    assert "44 steps from marks" in other


def test_links_keep_the_recording_and_the_process(tmp_path: Path, laid_out: Callable[..., Any]) -> None:
    import pyarrow as pa  # noqa: PLC0415 - only here

    loads = [Load(marks="decode", steps=30), Load(marks="decode", steps=20, pid=PID + 50)]
    both = pa.concat_tables([build(one).table for one in loads])
    two = written(tmp_path / "two.parquet", both, Metadata())

    page = laid_out([OFF, two], [], f"?run_one=1&pid_one={PID + 50}")

    links = [link.href for link in all_of(page, "Link")]
    assert links
    for link in links:
        parsed = parse_qs(urlsplit(link).query)
        assert (parsed["run_one"], parsed["pid"], parsed["arm"]) == (["1"], [str(PID + 50)], ["one"])


def test_steps_that_do_not_count_are_beyond_the_axis_and_not_hidden(
    tmp_path: Path, laid_out: Callable[..., Any]
) -> None:
    paused = build(replace(Load(marks="decode", steps=60), pause_after=20))
    path = written(tmp_path / "paused.parquet", paused.table, Metadata())

    (chart, *_) = all_of(laid_out([path], [], "?metrics=period"), "Graph")

    traces = {trace.name: trace for trace in chart.figure.data if len(trace.x)}
    beyond = traces["left out, beyond the axis"]
    assert len(beyond.x) == 2
    assert max(beyond.y) <= chart.figure.layout.yaxis.range[1]
    assert all("left out: pause" in text for text in beyond.hovertext)
    assert max(traces["a step"].y) < chart.figure.layout.yaxis.range[1]
