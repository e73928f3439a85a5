"""How ranks end, and the process that watches over them, whatever ends first. Here they have no torch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from server.stops import STOPS, on_stop

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
PROGRAM = """
import os, signal, subprocess, sys, time
from server.ranks import LOST, Leader, RankLostError, messages, place, watch
from server.stops import on_stop

def children(pid):
    return open(f"/proc/{{pid}}/task/{{pid}}/children").read().split()

def lead():
{lead}

def follow():
{follow}

def before():
{before}

here = place()
if here is None:
    before()
    sys.exit(watch(2))
sys.exit(lead() if here.rank == 0 else follow())
"""
FOLLOWS = """
try:
    for _ in messages(here.pipes[0]):
        pass
except RankLostError:
    return LOST
"""
"""A rank as it should be."""
ENDS_WHEN_TOLD = """
told = []
on_stop(told.append)
leader = Leader(here.pipes)
print("ready", flush=True)
while not told:
    time.sleep(0.01)
time.sleep(0.3)  # the signal of the watching process comes, too
leader.end()
"""
WAITS_FOR_THE_OTHERS_END = """
while len(children(here.watcher)) > 1:
    time.sleep(0.01)
time.sleep(0.5)  # so that the other one's end is seen first
"""


@contextlib.contextmanager
def started(
    folder: Path, *, lead: str = ENDS_WHEN_TOLD, follow: str = FOLLOWS, before: str = "pass"
) -> Iterator[subprocess.Popen[str]]:
    """A program of two ranks that do what is given, with all that belongs to it gone at the end."""
    given = {"lead": lead, "follow": follow, "before": before}
    bodies = {name: textwrap.indent(body, "    ") for name, body in given.items()}
    program = folder / "program.py"
    program.write_text(PROGRAM.format(**bodies))
    process = subprocess.Popen(
        [sys.executable, str(program)], env={**os.environ, "PYTHONPATH": str(SAMPLES)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ending(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [False, True])
def test_stop_is_one_stop_for_rank_0_and_none_for_the_others(
    tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    with started(tmp_path) as process:
        until_ready(process)
        (os.killpg if to_group else os.kill)(process.pid, number)
        assert ending(process) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [False, True])
def test_stop_while_rank_0_does_not_handle_it_yet_is_a_stop(
    tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    with started(tmp_path, lead='print("ready", flush=True); time.sleep(60)') as process:
        until_ready(process)
        (os.killpg if to_group else os.kill)(process.pid, number)
        assert ending(process) == (128 + number, "")


def test_stop_before_there_is_a_rank_is_not_lost(tmp_path: Path) -> None:
    signalled = """
        popen = subprocess.Popen
        def first(*args, **more):
            subprocess.Popen = popen
            signal.raise_signal(signal.SIGTERM)
            return popen(*args, **more)
        subprocess.Popen = first
    """
    with started(tmp_path, lead="time.sleep(60)", before=textwrap.dedent(signalled)) as process:
        assert ending(process) == (128 + signal.SIGTERM, "")


def test_only_the_first_stop_counts() -> None:
    before = {number: signal.getsignal(number) for number in STOPS}
    came: list[int] = []
    on_stop(came.append)
    try:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert came == [signal.SIGTERM]


def test_rank_that_failed_is_named_and_not_the_one_that_lost_it(tmp_path: Path) -> None:
    lead = "os.close(here.pipes[0])" + WAITS_FOR_THE_OTHERS_END + "os.kill(os.getpid(), signal.SIGKILL)"
    with started(tmp_path, lead=lead) as process:
        message = "serve: rank 0 ended with signal 9, so all were ended\n"
        assert ending(process) == (128 + signal.SIGKILL, message)


def test_rank_0_that_lost_another_one_is_not_named(tmp_path: Path) -> None:
    follow = "os.close(here.pipes[0])" + WAITS_FOR_THE_OTHERS_END + "return 7"
    lead = """
        leader = Leader(here.pipes)
        try:
            while True:
                leader.tell("a step")
        except RankLostError:
            return LOST
    """
    with started(tmp_path, lead=textwrap.dedent(lead), follow=follow) as process:
        assert ending(process) == (7, "serve: rank 1 ended with exit code 7, so all were ended\n")


def test_rank_that_was_left_without_a_word_is_named_when_nobody_has_failed(tmp_path: Path) -> None:
    with started(tmp_path, lead="return 0") as process:
        assert ending(process) == (3, "serve: rank 1 ended with exit code 3, so all were ended\n")


def test_failure_while_stopping_stays_a_failure(tmp_path: Path) -> None:
    fails = "for _ in messages(here.pipes[0]):\n    pass\nreturn 9"
    with started(tmp_path, follow=fails) as process:
        until_ready(process)
        process.terminate()
        assert ending(process) == (9, "serve: rank 1 ended with exit code 9, so all were ended\n")
