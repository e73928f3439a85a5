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
from viewer_pages import PATIENCE_MS, complete
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


def labels(content: Any) -> list[str]:
    return [words(one) for one in all_of(content, "Code")]


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


def test_only_differences_are_shown_if_asked_for(pair: View) -> None:
    everything, few = labels(shown(pair)), labels(shown(pair, "?only=differences"))

    assert "tpot_ms" in few
    assert not {"cpu_model", "attestation", "started_at", "start_ns"} & set(few)
    assert len(few) < len(everything) / 5


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("TPOT", "tpot_ms"),
        ("hypervisor", "virtual_machine"),
        ("580.159.04", "driver"),
        ("cuda version driver", "cuda"),
    ],
)
def test_fields_are_found_by_name_meaning_and_value(pair: View, text: str, label: str) -> None:
    found = labels(page.layout(pair, Address("/environment", {"filter": text})))

    assert label in found
    assert len(found) < 20


def test_a_filter_that_fits_nothing_says_so(pair: View) -> None:
    text = words(shown(pair, "?filter=no+such+thing"))

    assert "No field here fits the filter." in text
    assert "Recorded processes" in text


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


def test_typing_filters_and_keeps_the_focus_and_going_back_undoes_it(
    graph_pair: Viewer, open_page: Callable[..., Page]
) -> None:
    opened_page = open_page(graph_pair, "/environment")
    rows = opened_page.locator(".fields code")
    total = rows.count()

    opened_page.locator("#environment-filter").focus()
    opened_page.keyboard.type("driver", delay=30)
    opened_page.wait_for_url("**filter=driver*")
    complete(opened_page)

    expect(opened_page.locator("#environment-filter")).to_be_focused()
    assert 0 < rows.count() < total / 4
    opened_page.go_back()
    expect(opened_page.locator("#environment-filter")).to_have_value("", timeout=PATIENCE_MS)
    expect(rows).to_have_count(total, timeout=PATIENCE_MS)


def test_the_address_alone_says_what_is_shown(graph_pair: Viewer, open_page: Callable[..., Page]) -> None:
    opened_page = open_page(graph_pair, "/environment?only=differences&filter=tpot")

    assert opened_page.locator("#environment-filter").input_value() == "tpot"
    assert opened_page.locator("#environment-only").is_checked()
    assert all("tpot" in text for text in opened_page.locator(".fields code").all_inner_texts())


def test_the_whole_metadata_is_a_document(graph_pair: Viewer) -> None:
    status, text, headers = graph_pair.answer("/environment/metadata.json?arm=off&run_off=0")

    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(text)["acceptance"]["hardware"]["gpu_model"] == "NVIDIA H200"
    status, text, headers = graph_pair.answer("/environment/metadata.json?arm=<b>")
    assert (status, headers["Content-Type"].split(";")[0]) == (400, "text/plain")
    assert len(text.splitlines()) == 1
