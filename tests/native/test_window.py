"""The control page: when recording begins, when it ends, and what a limit stops."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from cctrace.collectors.record.control import CONTROL_NAME, FIELDS, PAGE_BYTES, offset_of

HEADER_BYTES = 512
AN_HOUR_NS = 3_600_000_000_000
SLACK_NS = 400_000_000
"""The window is looked at every 10 ms; the rest is a busy machine."""
ENDLESS = """
start()
for i in range(2000):
    launch(); print(time.monotonic_ns()); time.sleep(0.001)
    if i == 0: sys.stdout.flush()
"""


def read_field(page: Path, name: str) -> int:
    """One field of the page."""
    code = dict(FIELDS)[name]
    (value,) = struct.unpack_from("<" + code, page.read_bytes(), offset_of(name))
    return int(value)


def test_recording_begins_and_ends_on_time(recorder: Any) -> None:
    recorder.write_control(start_at_ns=time.monotonic_ns() + AN_HOUR_NS)
    process = recorder.start_python(ENDLESS)
    assert process.stdout.readline()
    begin = time.monotonic_ns() + 300_000_000
    end = begin + 500_000_000
    recorder.change_control(stop_at_ns=end, start_at_ns=begin)
    recording = recorder.finish(process)
    assert recording.code == 0
    records = recording.spool.named("cuLaunchKernel")
    assert len(records) > 0
    assert begin - 1 <= int(records["start_ns"].min()) < begin + SLACK_NS
    assert end - SLACK_NS < int(records["start_ns"].max()) < end + SLACK_NS
    assert int(recording.out.split()[-1]) > end + SLACK_NS, "the program ran too short"


def test_told_to_stop_it_stops(recorder: Any) -> None:
    recorder.write_control()
    process = recorder.start_python(ENDLESS)
    assert process.stdout.readline()
    recorder.change_control(stopped=1)
    stopped = time.monotonic_ns()
    recording = recorder.finish(process)
    assert recording.code == 0
    last = int(recording.spool.named("cuLaunchKernel")["start_ns"].max())
    assert last < stopped + SLACK_NS
    assert int(recording.out.split()[-1]) > stopped + SLACK_NS


def test_the_byte_limit_bounds_the_spool(recorder: Any) -> None:
    page = recorder.write_control(bytes_limit=100_000)
    code = "start()\nfor i in range(12):\n    for _ in range(500): launch()\n    time.sleep(0.1)"
    recording = recorder.python(code)
    assert recording.code == 0
    assert read_field(page, "stopped") == 1
    size = recording.spool.path.stat().st_size
    # What the rings held when the limit was reached still comes.
    assert 100_000 <= size < 300_000
    # Only the header is written before the page is looked at.
    assert size - HEADER_BYTES <= read_field(page, "bytes_written") <= size


def test_the_step_limit_counts_the_hooks_marks(recorder: Any) -> None:
    page = recorder.write_control(steps_limit=5)
    code = """
library = ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]); start(); launch()
for i in range(12):
    library.cctrace_step_begin(b"decode"); launch(); library.cctrace_step_end(); time.sleep(0.1)
"""
    recording = recorder.python(code)
    assert read_field(page, "stopped") == 1
    assert 5 <= len(recording.spool.named("decode", 2)) <= 8


def test_the_limits_hold_for_all_processes_together(recorder: Any) -> None:
    page = recorder.write_control(bytes_limit=200_000)
    code = """
child = os.fork()
start()
for i in range(30):
    for _ in range(200): launch()
    time.sleep(0.02)
if child == 0: os._exit(0)
os.waitpid(child, 0)
"""
    recording = recorder.python(code)
    assert len(recording.spools) == 2
    size = sum(s.path.stat().st_size for s in recording.spools)
    assert size - 2 * HEADER_BYTES <= read_field(page, "bytes_written") <= size
    assert read_field(page, "stopped") == 1


@pytest.mark.parametrize("content", [b"", b"\0" * PAGE_BYTES, b"short"])
def test_a_page_that_is_not_ready_means_no_limits(recorder: Any, content: bytes) -> None:
    (recorder.folder / CONTROL_NAME).write_bytes(content)
    recording = recorder.python("start(); launch()")
    assert recording.code == 0
    assert len(recording.spool.named("cuLaunchKernel")) == 1


def test_gpu_rows_of_a_time_without_recording_are_not_kept(recorder: Any) -> None:
    recorder.write_control(start_at_ns=time.monotonic_ns() + AN_HOUR_NS)
    code = (
        "library = ctypes.CDLL(os.environ['CCTRACE_LIBRARY']); start(); launch()\n"
        + "library.cctrace_flush()\n" * 4
    )
    spool = recorder.python(code, CCTRACE_GPU="nodes").spool
    assert len(spool.named("cuLaunchKernel")) == 0
    # One flush may still bring rows from before the first look at the window.
    assert len(spool.named("eager_kernel", 32)) <= 1


AFTER_THE_END = """
start()
time.sleep(0.3)
before = time.monotonic_ns()
for _ in range(20):
    launch()
print(time.monotonic_ns() - before)
"""


def test_what_is_emulated_does_not_end_with_the_window(recorder: Any) -> None:
    recorder.write_control(stopped=1)
    recording = recorder.python(AFTER_THE_END, CCTRACE_EMULATE="kernel_us=2000")
    assert int(recording.out) >= 20 * 2_000_000
    assert len(recording.spool.named("cuLaunchKernel")) == 0
