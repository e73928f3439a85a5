"""What a viewer opens, and analyses that are computed once."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from cctrace.analyzers.summary import summary_of
from cctrace.app.viewer import jobs
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.jobs import Jobs, Pending
from cctrace.app.viewer.timeline_index import Indexes
from cctrace.app.viewer.view import opened
from cctrace.errors import UnusableInputError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = SAMPLES / "launch-graph-emulated.parquet", SAMPLES / "launch-graph-off.parquet"


def test_a_pair_has_two_arms_and_its_labels() -> None:
    view = opened([ON], [OFF])
    assert view.is_pair
    assert [arm.name for arm in view.arms] == ["on", "off"]
    assert view.labels == ("emulated",)
    report = view.report(wait=True)
    assert report.on_step_us > report.off_step_us
    assert view.report() is report
    view.close()


def test_one_recording_has_nothing_to_compare_with() -> None:
    view = opened([ON])
    assert [arm.name for arm in view.arms] == ["one"]
    with pytest.raises(UnusableInputError, match="nothing to compare"):
        view.report()
    with pytest.raises(UnusableInputError, match="this viewer shows one"):
        view.arm("on")


def test_a_folder_leaves_out_what_cannot_be_used(tmp_path: Path) -> None:
    for name, source in (("b.parquet", ON), ("a.parquet", OFF)):
        shutil.copy(source, tmp_path / name)
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and no more")
    view = opened([tmp_path])
    arm = view.arm("one")
    assert [run.name for run in arm.runs] == ["a.parquet", "b.parquet"]
    assert len(arm.unusable) == 1
    assert "c.parquet" in arm.unusable[0]
    asked = Address.parse("/", "?run_one=1")
    assert view.run_of(arm, asked).name == "b.parquet"
    for beyond in ("2", "-1", "x", "1e9"):
        assert view.run_of(arm, Address("/", {"run_one": beyond})).name == "a.parquet"


def test_folders_without_recordings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError, match=r"no \*\.parquet"):
        opened([tmp_path])
    (tmp_path / "c.parquet").write_bytes(b"nothing")
    with pytest.raises(UnusableInputError, match=r"c\.parquet"):
        opened([tmp_path])


def test_a_file_that_changes_is_read_again_and_one_that_goes_is_missed(tmp_path: Path) -> None:
    file = tmp_path / "run.parquet"
    shutil.copy(ON, file)
    view = opened([file])
    run = view.arms[0].runs[0]
    first = view.of_run(summary_of, run, wait=True)
    assert view.of_run(summary_of, run) is first
    shutil.copy(OFF, file)
    os.utime(file, ns=(1, 1))
    assert view.of_run(summary_of, run, wait=True) is not first
    file.unlink()
    with pytest.raises(UnusableInputError, match="cannot be read any more"):
        view.of_run(summary_of, run)


def test_work_is_pending_until_it_is_done_and_done_once() -> None:
    begun, go = [], threading.Event()

    def work() -> str:
        begun.append(1)
        go.wait(30)
        return "result"

    working = Jobs(rows=1)
    with pytest.raises(Pending, match="Counting"):
        working.result("key", "Counting", work, wait=False)
    with pytest.raises(Pending):
        working.result("key", "Counting", work, wait=False)
    go.set()
    assert working.result("key", "Counting", work, wait=True) == "result"
    assert working.result("key", "Counting", work, wait=False) == "result"
    assert len(begun) == 1
    working.close()


def test_errors_of_the_work_are_the_callers() -> None:
    def fail() -> None:
        raise UnusableInputError("x.parquet: the file is damaged")

    def starve() -> None:
        raise MemoryError

    working = Jobs(rows=1)
    with pytest.raises(UnusableInputError, match="damaged"):
        working.result("one", "Reading", fail, wait=True)
    with pytest.raises(UnusableInputError, match="too little memory"):
        working.result("two", "Reading", starve, wait=True)
    working.close()


def test_only_so_many_results_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_RESULTS", 2)
    counted: list[int] = []
    working = Jobs(rows=1)
    for number in (1, 2, 3, 3, 1):
        working.result(number, "Counting", counted.append, number, wait=True)
    assert counted == [1, 2, 3, 1]
    working.close()


def test_large_recordings_are_analysed_in_a_process_that_may_die() -> None:
    working = Jobs(rows=jobs.MANY_ROWS)
    assert working.result("pid", "Asking", os.getpid, wait=True) != os.getpid()
    with pytest.raises(UnusableInputError, match="was ended"):
        working.result("die", "Dying", os._exit, 9, wait=True)
    # The next request starts another process.
    assert working.result("again", "Asking", os.getpid, wait=True) != os.getpid()
    working.close()


def test_very_large_recordings_are_analysed_one_by_one_by_processes_that_end() -> None:
    working = Jobs(rows=jobs.VERY_MANY_ROWS)
    working.settle()
    with pytest.raises(Pending):
        working.result("first", "Asking", os.getpid, wait=False)
    working.settle()
    first = working.result("first", "Asking", os.getpid, wait=False)
    second = working.result("second", "Asking", os.getpid, wait=True)
    assert first != second
    working.close()


@pytest.mark.parametrize(("rows", "made"), [(jobs.VERY_MANY_ROWS, 2), (jobs.MANY_ROWS, 0), (1, 0)])
def test_room_is_made_before_work_that_needs_much_memory(rows: int, made: int) -> None:
    calls: list[int] = []
    working = Jobs(rows=rows)
    working.make_room_by(lambda: calls.append(1))
    for number in (1, 2, 2):
        working.result(number, "Asking", os.getpid, wait=True)
    assert len(calls) == made
    working.close()


def test_indexes_are_let_go_and_built_again() -> None:
    view = opened([ON])
    indexes = Indexes(view)
    run = view.arms[0].runs[0]

    def index() -> object:
        while True:
            with contextlib.suppress(Pending):
                return indexes.of(run)
            time.sleep(0.01)

    first = index()
    assert index() is first
    indexes.let_all_go()
    assert index() is not first
    view.close()


def test_closing_ends_processes_that_work() -> None:
    working = Jobs(rows=jobs.MANY_ROWS)
    with pytest.raises(Pending):
        working.result("long", "Sleeping", time.sleep, 600, wait=False)
    deadline = time.monotonic() + 60
    while not working._processes and time.monotonic() < deadline:
        time.sleep(0.01)
    (process,) = working._processes
    working.close()
    with pytest.raises(UnusableInputError, match="was ended"):
        working.result("long", "Sleeping", time.sleep, 600, wait=True)
    assert process.exitcode == -signal.SIGKILL


def test_errors_cross_from_the_process() -> None:
    working = Jobs(rows=jobs.MANY_ROWS)
    with pytest.raises(UnusableInputError, match="no such file"):
        working.result("gone", "Reading", summary_of, Path("/nowhere.parquet"), wait=True)
    working.close()


def test_closing_does_not_wait_for_work() -> None:
    working = Jobs(rows=1)
    go = threading.Event()
    with pytest.raises(Pending):
        working.result("key", "Waiting", go.wait, 30, wait=False)
    begin = time.monotonic()
    working.close()
    go.set()
    assert time.monotonic() - begin < 20
