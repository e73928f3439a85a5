import re
import struct
from pathlib import Path

import pytest

from cctrace.collectors.record.control import (
    CONTROL_BYTES,
    CONTROL_MAGIC,
    FIELDS,
    ControlPage,
    Window,
    offset_of,
)

RECORD_H = Path(__file__).parents[2] / "collectors/native/record.h"


def _declared_fields() -> list[tuple[str, str]]:
    body = re.search(r"struct Control \{(.*?)\n\};", RECORD_H.read_text(), re.DOTALL)
    assert body, "struct Control is not in record.h"
    codes = {"uint32_t": "I", "uint64_t": "Q"}
    return [
        (name, codes[kind]) for kind, name in re.findall(r"^\s*(uint\d+_t) (\w+);", body[1], re.MULTILINE)
    ]


def test_layout_is_that_of_record_h() -> None:
    declared = _declared_fields()
    assert declared == list(FIELDS)
    # "@" aligns as the compiler does: were there padding, the two would differ.
    natural = [
        struct.calcsize("@" + "".join(code for _, code in declared[:i]) + "0" + code)
        for i, (_, code) in enumerate(declared)
    ]
    assert [offset_of(name) for name, _ in FIELDS] == natural
    declared_size = re.search(r"sizeof\(Control\) == (\d+)", RECORD_H.read_text())
    assert declared_size
    assert int(declared_size[1]) == CONTROL_BYTES
    magic = re.search(r"kControlMagic = (0x\w+)", RECORD_H.read_text())
    assert magic
    assert int(magic[1], 16) == CONTROL_MAGIC


@pytest.fixture
def page(tmp_path: Path) -> ControlPage:
    return ControlPage(tmp_path / "control")


def test_an_unarmed_page_has_no_magic(page: ControlPage, tmp_path: Path) -> None:
    assert page.get("magic") == 0
    assert (tmp_path / "control").stat().st_size == 4096
    assert (tmp_path / "control").stat().st_mode & 0o777 == 0o600


def test_window_counts_from_the_start_of_the_command(page: ControlPage, tmp_path: Path) -> None:
    page.arm(Window(delay_s=2.0, duration_s=0.5, steps=7, max_bytes=1000), now_ns=10_000_000_000)
    raw = (tmp_path / "control").read_bytes()
    assert struct.unpack_from("<IIQQQQQQ", raw) == (
        CONTROL_MAGIC,
        0,
        12_000_000_000,
        12_500_000_000,
        7,
        0,
        1000,
        0,
    )


@pytest.mark.parametrize(
    ("window", "field", "value", "now_ns", "expected"),
    [
        (Window(), "steps_seen", 10**9, 10**18, None),
        (Window(duration_s=1.0), "steps_seen", 0, 1_000_000_005, "duration"),
        (Window(duration_s=1.0), "steps_seen", 0, 900_000_000, None),
        (Window(steps=3), "steps_seen", 3, 5, "steps"),
        (Window(steps=3), "steps_seen", 2, 5, None),
        (Window(max_bytes=640), "bytes_written", 640, 5, "max-bytes"),
        (Window(max_bytes=640), "bytes_written", 639, 5, None),
        (Window(), "stopped", 1, 5, "stopped"),
    ],
)
def test_what_ended_the_window(
    page: ControlPage,
    tmp_path: Path,
    *,
    window: Window,
    field: str,
    value: int,
    now_ns: int,
    expected: str | None,
) -> None:
    page.arm(window, now_ns=5)
    with (tmp_path / "control").open("r+b") as file:  # as a recorded process would
        file.seek(offset_of(field))
        file.write(value.to_bytes(4 if field == "stopped" else 8, "little"))
    assert page.ended_by(now_ns) == expected


def test_stop_is_seen_by_a_recorded_process(page: ControlPage, tmp_path: Path) -> None:
    page.arm(Window(), now_ns=0)
    page.stop()
    assert (tmp_path / "control").read_bytes()[4:8] == b"\1\0\0\0"


@pytest.mark.parametrize(
    ("window", "limited"), [(Window(delay_s=1), False), (Window(steps=1), True), (Window(duration_s=1), True)]
)
def test_a_delay_alone_is_no_limit(window: Window, limited: bool) -> None:
    assert window.limited is limited
