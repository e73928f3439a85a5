"""How a viewer ends: at once, whatever it computes, and with all of its processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from viewer_process import Viewer, command, start

from cctrace.app.viewer.jobs import MANY_ROWS, Jobs

PATIENCE_S = 60
PENDING = 202


def wait_until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.02)


def children_of(process: int) -> list[int]:
    """The processes that it started, and those that they did."""
    found = [process]
    for parent in found:
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, listed.read_text().split())
    return found[1:]


def is_gone(process: int) -> bool:
    """Whether it has ended, though perhaps nobody asked how."""
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def computing(big_pair: tuple[Path, Path], tmp_path: Path) -> Viewer:
    """A viewer whose processes have begun with recordings that take them a while."""
    viewer = start(tmp_path / "log", command(*big_pair))
    arms = ("on", "off")
    for arm in arms:
        wait_until(lambda arm=arm: viewer.get(f"/api/timeline/lanes?arm={arm}")[0] != PENDING)
    for arm in arms:
        assert viewer.get(f"/api/timeline/step?arm={arm}&step=0")[0] == PENDING
    # One more tells Python which resources its processes hold.
    wait_until(lambda: len(children_of(viewer.process.pid)) > len(arms))
    return viewer


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_viewer_that_computes_ends_with_all_of_its_processes(computing: Viewer, by: signal.Signals) -> None:
    started = children_of(computing.process.pid)

    computing.process.send_signal(by)

    assert computing.process.wait(PATIENCE_S) == 0
    wait_until(lambda: all(map(is_gone, started)))
    assert "Traceback" not in computing.printed


def test_processes_of_a_viewer_that_was_killed_end_too(computing: Viewer) -> None:
    started = children_of(computing.process.pid)

    computing.process.kill()
    computing.process.wait(PATIENCE_S)

    wait_until(lambda: all(map(is_gone, started)))


def test_a_process_outlives_the_thread_that_needed_it_first() -> None:
    working = Jobs(rows=MANY_ROWS)
    first = Thread(target=working.result, args=("first", "Asking", os.getpid), kwargs={"wait": True})
    first.start()
    first.join()

    answers = {working.result(number, "Asking", os.getpid, wait=True) for number in range(8)}

    assert answers
    assert os.getpid() not in answers
    working.close()
