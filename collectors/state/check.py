"""Runs the state check in a process of its own, and outlives whatever happens to it there."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cctrace.collectors.environment.isolated import how_it_ended
from cctrace.collectors.state.findings import findings_of
from cctrace.collectors.state.kernels import WORK_VERSION
from cctrace.trace.documents import DocumentError, from_document
from cctrace.trace.state_check import GpuState, StateCheck

LIMIT_S: Final = 5.0
"""So long a command may wait for the check. It takes 1 to 2 s, all GPUs at once; one that somebody else keeps
busy takes longer, and a program that is to be measured must not wait for that."""
PATIENT_LIMIT_S: Final = 30.0
"""The same where a user has asked for the check. A driver that is not kept loaded takes seconds a GPU."""
_END_LIMIT_S: Final = 2.0
"""A process that was killed is gone in milliseconds, unless the driver does not let it go."""
_POLL_S: Final = 0.05
_MAX_ANSWER_BYTES: Final = 1 << 20
"""One GPU takes about 2 KB, twice."""

NO_GPU: Final = "there is no GPU here"
_DEVICE_FILES: Final = ("/dev/nvidiactl", "/dev/dxg")
"""Of NVIDIA's driver, on Linux and under Windows; without one of them no program reaches a GPU."""

_DROPPED: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUDA_LAUNCH_BLOCKING")
"""Variables that would let another tool into the helper, or change what a launch costs."""
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from {package}.probe import main; main()"
"""The helper finds modules where this process does, and nowhere else: not in the working folder."""


def check_state(limit_s: float | None = None, poll: Callable[[], None] = lambda: None) -> StateCheck:
    """Checks the GPUs that `CUDA_VISIBLE_DEVICES` leaves to programs that this process starts.

    Never fails: what could not be checked is said in `missing`. When it returns, the helper process and its
    device memory are gone.

    Args:
        limit_s: give up after so many seconds; None: `LIMIT_S`.
        poll: called while waiting; may raise.
    """
    limit_s = LIMIT_S if limit_s is None else limit_s
    begin = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    program = _PROGRAM.format(path=sys.path, package=__package__)
    try:
        # A session of its own: what Ctrl-C means is this process's business.
        helper = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program, str(limit_s + _END_LIMIT_S)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return StateCheck(version=WORK_VERSION, missing=f"its helper process cannot be started ({error})")
    answer, is_over = b"", False
    try:
        answer, is_over = _read(helper, begin + limit_s, poll)
    finally:
        how = _end(helper, kill=not is_over)
    check, done = _understood(answer)
    if not done and not check.missing:
        why = how if is_over else f"its helper process was not done within {limit_s:g} s"
        check = replace(check, missing=why)
    check = replace(check, duration_s=round(time.monotonic() - begin, 3))
    return replace(check, findings=findings_of(check))


def _read(helper: subprocess.Popen[bytes], deadline: float, poll: Callable[[], None]) -> tuple[bytes, bool]:
    """Returns what the helper wrote until its end or the deadline, and whether that was its end."""
    assert helper.stdout is not None  # noqa: S101 - it is a pipe
    descriptor = helper.stdout.fileno()
    read = b""
    while len(read) < _MAX_ANSWER_BYTES:
        poll()
        left = deadline - time.monotonic()
        if left <= 0:
            return read, False
        if select.select([descriptor], [], [], min(left, _POLL_S))[0]:
            piece = os.read(descriptor, 65536)
            if not piece:
                return read, True
            read += piece
    return read, True


def _end(helper: subprocess.Popen[bytes], *, kill: bool) -> str:
    """Waits for the end of the helper, by force if it does not come. Returns how it ended."""
    assert helper.stdout is not None  # noqa: S101 - it is a pipe
    helper.stdout.close()
    for force in (True,) if kill else (False, True):
        if force:
            helper.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"its helper process {how_it_ended(helper.wait(_END_LIMIT_S))}"
    return "its helper process does not end"


def _understood(answer: bytes) -> tuple[StateCheck, bool]:
    """Returns what the lines of the helper say, and whether they are complete."""
    gpus: dict[int, GpuState] = {}
    missing, done = None, False
    try:
        for line in answer.splitlines():
            document = json.loads(line)
            if "gpu" in document:
                gpu = from_document(GpuState, document["gpu"])
                gpus[gpu.index] = gpu
            missing = str(document["missing"]) if "missing" in document else missing
            done = done or document.get("done") is True
    except (ValueError, TypeError, AttributeError, DocumentError):
        missing = "its helper process has answered what cannot be understood"
    if done and not gpus:
        missing = missing or NO_GPU
    ordered = tuple(gpus[index] for index in sorted(gpus))
    return StateCheck(version=WORK_VERSION, missing=missing, gpus=ordered), done


def has_device_file() -> bool:
    """Returns whether there may be a GPU, without asking a driver."""
    return any(os.path.exists(path) for path in _DEVICE_FILES)


def without_gpu() -> StateCheck:
    """Returns the check of a machine that has no GPU: there was nothing to start."""
    return StateCheck(version=WORK_VERSION, missing=NO_GPU)
