"""The page of the environment: both arms side by side, what differs, the recorder, and hostile texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from components import all_of, words
from playwright.sync_api import Page, expect
from trace_builder import Load, build
from viewer_pages import PATIENCE_MS
from viewer_process import Viewer
from viewer_traces import HOSTILE, written

from cctrace.app.viewer.address import Address
from cctrace.app.viewer.pages import environment as page
from cctrace.app.viewer.view import View, opened
from cctrace.trace import Metadata, open_trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"vllm-8b-full-{arm}.parquet" for arm in ("emulated", "off"))
CHARGED = SAMPLES / "groundtruth" / "server-graph-overlap-launch.parquet"

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def pair() -> Iterator[View]:
    view = opened([ON], [OFF])
    yield view
    view.close()


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A small recording whose metadata was changed: `changed("on", change)`."""
    table = build(Load(steps=2)).table

    def write(name: str, change: Change) -> Path:
        document = Metadata().to_document()
        change(document)
        return written(tmp_path / f"{name}.parquet", table, Metadata.from_document(document))

    return write


def shown(view: View, address: str = "") -> Any:
    return page.layout(view, Address.parse("/environment", address))


def row(content: Any, label: str) -> str:
    """The row of a field, in words."""
    rows = [words(one) for one in all_of(content, "Tr")]
    (found,) = [text for text in rows if text.split()[0] == label]
    return found


def listed(page: Page) -> list[str]:
    """Names of the fields that are shown."""
    return page.locator(".fields tr[data-field]:visible > th > code").all_inner_texts()


def test_a_field_has_its_meaning_unit_and_a_value_for_each_arm(pair: View) -> None:
    content = shown(pair)

    assert row(content, "tpot_ms").startswith(
        "tpot_ms time per output token, median [ms] 5.07486 ms 7.85922 ms ≠ differs"
    )
    assert row(content, "memory_bytes").startswith("memory_bytes main memory [bytes] 252 GiB 252 GiB = same")
    assert row(content, "attestation").endswith("not known not known ? not known")
    assert row(content, "openssl").endswith("? not known, and it matters")
    (heads, *_) = all_of(content, "Thead")
    assert [words(one) for one in all_of(heads, "Th")] == ["field", "off", "on", "difference"]


def test_differences_are_marked_by_sign_and_word_and_explained(changed: Callable[..., Path]) -> None:
    def off(document: dict[str, Any]) -> None:
        document["acceptance"]["load"]["concurrency"] = 16
        document["acceptance"]["software"]["driver"] = "580.1"
        document["acceptance"]["security"]["cc_mode"] = "off"

    def on(document: dict[str, Any]) -> None:
        document["acceptance"]["load"]["concurrency"] = 32
        document["acceptance"]["security"]["cc_mode"] = "on"

    content = shown(opened([changed("on", on)], [changed("off", off)]))

    assert row(content, "concurrency").endswith("16 32 ✕ forbids shares a step does other work")
    assert "▲ warns" in row(content, "driver")
    assert "580.1 not known" in row(content, "driver")
    assert row(content, "cc_mode").endswith("off on ≠ differs as meant the comparison is about it")


def test_values_of_repeats_say_which_runs_they_are_of(changed: Callable[..., Path], tmp_path: Path) -> None:
    def with_driver(version: str) -> Change:
        def change(document: dict[str, Any]) -> None:
            document["acceptance"]["software"]["driver"] = version

        return change

    for number, version in enumerate(("1.0", "2.0", "1.0")):
        changed(f"run{number}", with_driver(version))

    text = row(shown(opened([tmp_path])), "driver")

    assert "1.0 runs 1, 3 2.0 run 2" in text
    assert "▲ warns" in text


def test_losses_cost_clocks_and_what_was_charged_are_said(changed: Callable[..., Path]) -> None:
    def change(document: dict[str, Any]) -> None:
        document["collector"]["processes"] = [
            {"pid": 7, "name": "engine", "records": 1000, "torn_bytes": 77, "lost": {"full ring": 12}}
            | {"unmatched": {"copies": 3}, "tax_ns": {"call": 125.3}, "state": {"stamps.captures": 5}}
        ]
        document["clock"]["gpu"] = [{"pid": 7, "device": 0, "readings": 5, "kept": 4, "drift_ppm": 2.5}]
        document["emulation"] = {
            "profile": "b200-tdx",
            "causes": ["launch"],
            "values": {"kernel_us": 12.25},
            "injected": {"launch": {"count": 4, "sum_ns": 48_000}},
        }
        document["labels"] = ["emulated"]

    text = words(shown(opened([changed("one", change)])))

    assert "7 engine 1,000 12 (full ring) 3 (copies) 77 B 125 ns a call stamps.captures: 5" in text
    assert "7 0 4 of 5 2.5 ppm (source not known) not known 0 ns" in text
    assert "Costs of b200-tdx were charged: launch." in text
    assert "kernel_us 12.25" in text
    assert "launch 4 calls, 0.048 ms, 12.000 µs each on average" in text
    assert "This recording is emulated." in text
    assert "Not checked: nothing says whether the GPUs were fresh and idle." in text


def test_what_an_emulator_really_charged_is_shown_of_a_shipped_trace() -> None:
    injected = open_trace(CHARGED).metadata.emulation
    assert injected is not None
    assert injected.injected is not None

    text = words(shown(opened([CHARGED])))

    assert f"{injected.injected['launch']['count']:,} calls" in text
    assert "difference" not in [words(one) for one in all_of(shown(opened([CHARGED])), "Th")]


def test_huge_and_deep_values_are_cut_and_open(changed: Callable[..., Path]) -> None:
    def change(document: dict[str, Any]) -> None:
        document["acceptance"]["hardware"]["later"] = {"deep": [{"deeper": ["<b>x</b>", None]}]}
        document["environment_variables"] = {"LONG": "abc" * 5000}
        document["invented"] = {f"key{number}": number for number in range(2000)}

    content = shown(opened([changed("one", change)]))

    assert '{"deep": [{"deeper": ["<b>x</b>", null]}]}' in row(content, "later")
    (long,) = [one for one in all_of(content, "Details") if words(one).startswith("abcabc")]
    assert len(words(long.children[0])) < 200
    assert len(words(long.children[1])) > 3000
    assert "more fields: the whole document has them" in words(content)


def test_hostile_texts_stay_texts_without_control_characters(changed: Callable[..., Path]) -> None:
    def change(document: dict[str, Any]) -> None:
        document["acceptance"]["security"]["attestation"] = HOSTILE
        document["environment_variables"] = {HOSTILE: HOSTILE}
        document["collector"]["notes"] = [HOSTILE]
        document["collector"]["processes"] = [{"pid": 1, "name": HOSTILE, "state": {HOSTILE: HOSTILE}}]

    text = words(shown(opened([changed("one", change)])))

    assert "<script>window.pwned=1</script>" in text
    assert not {"\u202e", "\x00", "\x1b"} & set(text)


def test_the_chosen_recording_of_a_folder_is_described(tmp_path: Path) -> None:
    for number, source in enumerate((ON, OFF)):
        (tmp_path / f"{number}.parquet").write_bytes(source.read_bytes())
    view = opened([tmp_path])

    assert "Nothing was emulated." in words(shown(view, "?run_one=1"))
    assert "Costs of b200-tdx were charged" in words(shown(view, "?run_one=0"))
    view.close()


@pytest.mark.parametrize(
    ("asked", "found", "hidden"),
    [
        ("only=differences", {"tpot_ms", "ttft_ms"}, {"cpu_model", "attestation", "started_at", "start_ns"}),
        ("filter=TPOT", {"tpot_ms"}, {"driver"}),
        ("filter=hypervisor", {"virtual_machine"}, {"driver"}),
        ("filter=580.159.04", {"driver", "gpu_details.0.gsp_firmware"}, {"cuda"}),
        ("filter=software+version+driver", {"cuda"}, {"driver"}),
        ("filter=tpot&only=differences", {"tpot_ms", "mean_tpot_ms"}, {"ttft_ms"}),
    ],
)
def test_the_address_alone_says_which_fields_are_shown(
    graph_pair: Viewer, open_page: Callable[..., Page], asked: str, found: set[str], hidden: set[str]
) -> None:
    shown_page = open_page(graph_pair, f"/environment?{asked}")
    few = "() => document.querySelectorAll('tr[data-field]:not([hidden])').length < 40"
    shown_page.wait_for_function(few)
    expect(shown_page.locator("#environment-nothing")).to_be_hidden()

    names = set(listed(shown_page))

    assert found <= names
    assert not hidden & names
    state = Address.parse("/", asked)
    assert shown_page.locator("#environment-filter").input_value() == state.get("filter")
    assert shown_page.locator("#environment-only").is_checked() == (state.get("only") == "differences")
    areas = shown_page.locator("nav[aria-label=Areas] a:visible").count()
    assert areas == shown_page.locator(".fields:visible").count()


def test_a_filter_that_fits_nothing_says_so(graph_pair: Viewer, open_page: Callable[..., Page]) -> None:
    shown_page = open_page(graph_pair, "/environment?filter=no+such+thing")

    expect(shown_page.locator("#environment-nothing")).to_be_visible()
    assert listed(shown_page) == []
    assert shown_page.get_by_text("Recorded processes").count() == 2


def test_typing_filters_and_keeps_the_focus_and_going_back_undoes_it(
    graph_pair: Viewer, open_page: Callable[..., Page]
) -> None:
    shown_page = open_page(graph_pair, "/environment")
    total = len(listed(shown_page))

    shown_page.locator("#environment-filter").focus()
    shown_page.keyboard.insert_text("driver")  # letter by letter, a slow machine makes several addresses
    shown_page.wait_for_url("**filter=driver*")
    rows = shown_page.locator(".fields tr[data-field]:visible > th > code")
    expect(rows.first).to_have_text("driver", timeout=PATIENCE_MS)

    expect(shown_page.locator("#environment-filter")).to_be_focused()
    assert 0 < rows.count() < total / 4
    shown_page.go_back()
    expect(shown_page.locator("#environment-filter")).to_have_value("", timeout=PATIENCE_MS)
    expect(rows).to_have_count(total, timeout=PATIENCE_MS)


def test_the_whole_metadata_is_a_document(graph_pair: Viewer) -> None:
    status, text, headers = graph_pair.answer("/environment/metadata.json?arm=off&run_off=0")

    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(text)["acceptance"]["hardware"]["gpu_model"] == "NVIDIA H200"
    status, text, headers = graph_pair.answer("/environment/metadata.json?arm=<b>")
    assert (status, headers["Content-Type"].split(";")[0]) == (400, "text/plain")
    assert len(text.splitlines()) == 1
