"""The page of collectives: times, bandwidths and algorithms of ranks whose collectives are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from collective_traces import (
    DECODE_BYTES,
    FIRST_PID,
    LOGIT_BYTES,
    PREFILL_BYTES,
    RING,
    Tp,
    pair,
    rows_of,
    wire_us,
    written,
)
from playwright.sync_api import Page
from viewer_pages import too_wide
from viewer_process import Viewer
from viewer_traces import HOSTILE, marked

from cctrace.analyzers.sentences import bytes_text
from cctrace.trace import Emulation, Metadata, TraceWriter

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ENCRYPTED = 1.186
"""How much longer transfers of the on arm take."""

OpenPage = Callable[..., Page]
ViewerOf = Callable[..., Viewer]


@pytest.fixture(scope="session")
def tp_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pair(tmp_path_factory.mktemp("tp"), custom=True)


@pytest.fixture(scope="session")
def tp_pair(viewer_of: ViewerOf, tp_files: tuple[Path, Path]) -> Viewer:
    return viewer_of(*tp_files)


def table(page: Page, place: str) -> list[dict[str, str]]:
    """The rows of a table, by heading."""
    head = page.locator(f"{place} th").all_inner_texts()
    cells = [row.locator("td").all_inner_texts() for row in page.locator(f"{place} tbody tr").all()]
    return [dict(zip(head, row, strict=True)) for row in cells]


def row_of(page: Page, operation: str, size: int, place: str = "#collectives-main") -> dict[str, str]:
    wanted = (operation, bytes_text(size))
    return next(row for row in table(page, place) if (row["operation"], row["bytes"]) == wanted)


def number(text: str) -> float:
    found = re.match(r"[\d.]+", text)
    assert found is not None, text
    return float(found[0])


@pytest.mark.parametrize(
    ("operation", "size", "factor"),
    [
        ("all-reduce", DECODE_BYTES, 1.0),
        ("all-reduce", PREFILL_BYTES, 1.0),
        ("all-gather", LOGIT_BYTES, 0.5),
    ],
)
def test_times_and_bandwidths_of_the_transfer(
    tp_pair: Viewer, open_page: OpenPage, operation: str, size: int, factor: float
) -> None:
    row = row_of(open_page(tp_pair, "/collectives"), operation, size)

    for arm, slower in (("off", 1.0), ("on", ENCRYPTED)):
        us = wire_us(size, slower)
        assert number(row[f"{arm}: time"]) == pytest.approx(us, rel=0.03)
        assert "*" not in row[f"{arm}: time"]
        assert number(row[f"{arm}: bus bandwidth"]) == pytest.approx(factor * size / us / 1e3, rel=0.03)
    assert number(row["time on ÷ off"]) == pytest.approx(ENCRYPTED, abs=0.02)
    assert row["ranks"] == "2"


def test_a_kernel_outside_of_nccl_has_a_time_and_no_bandwidth(tp_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(tp_pair, "/collectives")
    (row,) = (row for row in table(page, "#collectives-main") if "†" in row["operation"])

    assert "cross_device_reduce_1stage" in row["operation"]
    assert (row["ranks"], row["bytes"], row["on: bus bandwidth"]) == ("–", "–", "–")
    assert number(row["time on ÷ off"]) == pytest.approx(ENCRYPTED, abs=0.1)
    assert "cannot tell a bandwidth, because the call is not recorded" in page.locator("#page").inner_text()


def test_charts_show_every_operation_of_both_arms(tp_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(tp_pair, "/collectives")
    for name in ("collectives-time", "collectives-bandwidth"):
        found = page.evaluate(
            """id => document.querySelector(`#${id} .js-plotly-plot`)._fullData.map(
              one => [one.name, one.marker.symbol, one.line.dash, Array.from(one.x)])""",
            name,
        )
        names = [one[0] for one in found]
        assert names == [
            f"{arm}: {operation}"
            for operation in ("all-reduce", "all-gather", "all-to-all")
            for arm in ("off", "on")
        ]
        assert [one[1].endswith("-open") for one in found] == [True, False] * 3
        assert [one[2] for one in found] == ["dash", "solid"] * 3
        assert found[0][3] == [DECODE_BYTES, PREFILL_BYTES]


def test_the_wait_for_the_latest_rank(tp_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(tp_pair, "/collectives")
    rows = table(page, "#collectives-ranks")

    assert {row["ranks"] for row in rows} == {"2"}
    assert {row["arm"] for row in rows} == {"off", "on"}
    for row in rows:
        assert 0 < number(row["wait, median"]) < 6
        assert re.fullmatch(r"process 51[01]0: \d+\.\d %", row["latest rank"])


def test_other_algorithms_are_no_encryption(tp_pair: Viewer, open_page: OpenPage) -> None:
    text = open_page(tp_pair, "/collectives").locator("#page").inner_text()

    assert "compare algorithms, not encryption" in text
    assert "ncclDevKernel_AllReduce_Sum_bf16_NVLS_SIMPLE (NVLS, simple)" in text
    assert "ncclDevKernel_AllReduce_Sum_bf16_RING_SIMPLE (ring, simple)" in text


def test_a_kernel_leads_to_its_rows_in_the_timeline(tp_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(tp_pair, "/collectives")

    page.locator("#collectives-detail").get_by_role("link", name="ring, LL", exact=True).first.click()

    counts = page.locator(".timeline-counts", has_text="found")
    counts.wait_for()
    assert page.get_by_label("Search names").input_value() == kernel_of(page)
    assert all(int(number.replace(",", "")) for number in re.findall(r"[\d,]+", counts.inner_text()))


def kernel_of(page: Page) -> str:
    (text,) = parse_qs(urlsplit(page.url).query)["q"]
    assert re.search("AllReduce.*RING_LL", text)
    return text


def test_equal_algorithms_are_said_to_be(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage
) -> None:
    folder = tmp_path_factory.mktemp("same")
    on = written(folder / "on.parquet", Tp(steps=20, seed=2, prefill_kernel=RING), "on")
    off = written(folder / "off.parquet", Tp(steps=20, prefill_kernel=RING))
    page = open_page(viewer_of(on, off), "/collectives")

    assert "Both arms run the same kernels (4)." in page.locator("#page").inner_text()


@pytest.mark.parametrize("gpu", ["stamps", "none"])
def test_without_kernel_times_there_are_counts(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage, gpu: str
) -> None:
    page = open_page(viewer_of(*pair(tmp_path_factory.mktemp(gpu), gpu=gpu, steps=30)), "/collectives")
    row = row_of(page, "all-reduce", DECODE_BYTES)

    assert row["off: a step"] == row["on: a step"] != "–"
    assert {row[f"{arm}: {what}"] for arm in ("off", "on") for what in ("time", "bus bandwidth")} == {"–"}
    text = page.locator("#page").inner_text()
    assert "off and on: cannot tell times, because" in text
    assert "GPU times of no rank are known here" in text
    assert row_of(page, "all-gather", LOGIT_BYTES, "#collectives-detail")["host call"] != "–"


def test_ranks_of_a_folder_are_joined(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage
) -> None:
    folder = tmp_path_factory.mktemp("ranks")
    for arm, wire in (("on", ENCRYPTED), ("off", 1.0)):
        (folder / arm).mkdir()
        for rank in range(2):
            tp = Tp(steps=30, wire=wire)
            written(folder / arm / f"rank{rank}.parquet", tp, arm, pid=FIRST_PID + 10 * rank)
    page = open_page(viewer_of(folder / "on", folder / "off"), "/collectives")
    row = row_of(page, "all-reduce", DECODE_BYTES)

    assert number(row["off: time"]) == pytest.approx(wire_us(DECODE_BYTES), rel=0.03)
    assert "*" not in row["off: time"]
    assert "on: 2 recordings of ranks joined." in page.locator("#page").inner_text()


def test_one_rank_alone_says_that_its_times_hold_waiting(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage
) -> None:
    path = written(tmp_path_factory.mktemp("one") / "rank.parquet", Tp(steps=30), pid=FIRST_PID)
    page = open_page(viewer_of(path), "/collectives")

    assert row_of(page, "all-reduce", DECODE_BYTES)["time"].endswith("*")
    text = page.locator("#page").inner_text()
    assert "* on one rank, the wait for the latest one included." in text
    assert "Cannot tell" in text or "cannot tell, because GPU times of one rank only" in text
    assert "Algorithms" not in text


def test_a_pair_without_collectives_says_why(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/collectives")

    assert page.locator("#page h2").all_inner_texts() == ["No collectives to show"]
    assert page.locator("#page").inner_text().count("one GPU") == 2


def test_one_arm_without_collectives(
    viewer_of: ViewerOf, tp_files: tuple[Path, Path], open_page: OpenPage
) -> None:
    off = SAMPLES / "server-graph-overlap-off.parquet"
    page = open_page(viewer_of(tp_files[0], off), "/collectives")
    text = page.locator("#page").inner_text()

    assert row_of(page, "all-reduce", DECODE_BYTES)["off: time"] == "–"
    assert "off: shows no collective" in text
    assert "no kernel of a collective is known of: off" in text


def test_an_emulated_transfer_is_not_in_the_times(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage
) -> None:
    path = tmp_path_factory.mktemp("emulated") / "on.parquet"
    with TraceWriter(path) as writer:
        writer.write(rows_of(Tp(steps=20)))
        writer.finish(Metadata(emulation=Emulation("b200-tdx", ("nvlink",), {}, None), labels=("emulated",)))
    text = open_page(viewer_of(path), "/collectives").locator("#page .warning").all_inner_texts()

    assert any("times do not hold" in one for one in text)


def test_texts_of_a_recording_are_texts(
    viewer_of: ViewerOf, tmp_path_factory: pytest.TempPathFactory, open_page: OpenPage
) -> None:
    path = tmp_path_factory.mktemp("hostile") / "tp.parquet"
    with TraceWriter(path) as writer:
        writer.write(marked(rows_of(Tp(steps=20, custom=True)), HOSTILE))
        writer.finish(Metadata())
    page = open_page(viewer_of(path), "/collectives")

    assert page.locator("#collectives-main").count() == 1
    assert page.evaluate("window.pwned") is None
    assert page.locator("#page .pwned, #page img").count() == 0
    assert "\u202e" not in page.locator("body").inner_text()


def test_the_page_fits_a_narrow_window(tp_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(tp_pair, "/collectives", width=390, height=844, scheme="dark")

    assert too_wide(page) == []
    assert page.locator("#page [role=alert]").count() == 0
