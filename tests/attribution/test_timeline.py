"""The chosen steps of a recording as operations."""

from pathlib import Path

import numpy as np
from simulator import OFF, Load, Recorder, Run, simulate

from cctrace.analyzers.arms import Arm, arm_of
from cctrace.analyzers.attribution.rows import host_rows, windows_of
from cctrace.analyzers.attribution.timeline import SUBMITTING, Timeline, timeline_of
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.loading import load
from cctrace.trace import open_trace

WORKER = Load(
    kernels=6,
    kernel_us=20.0,
    schedule_us=60.0,
    process_us=40.0,
    readback="worker",
    prefill_every=30,
    prefill_kernels=12,
    prefill_kernel_us=500.0,
)


def recorded(path: Path) -> Arm:
    run = Run(WORKER, OFF, steps=120, recorder=Recorder(hand_overs=False))
    simulate(run).trace().write(path)
    return arm_of(load(open_trace(path)))


def timeline(arm: Arm, chosen: IntArray) -> Timeline:
    windows = windows_of(arm.steps, chosen)
    rows = host_rows(open_trace(Path(arm.recording.path)), arm.process.pid, windows)
    return timeline_of(arm, rows, chosen, windows[0][0])


def test_steps_that_were_not_read_are_no_host_time_of_a_worker(tmp_path: Path) -> None:
    arm = recorded(tmp_path / "off.parquet")
    phases = np.array([one.phase for one in arm.steps.classes])[arm.steps.class_of]
    prefill = int(np.flatnonzero(phases == "prefill")[1])
    decode_us = float(np.median(arm.steps.period_ns[phases == "decode"])) / 1e3
    chosen = prefill + np.array([*range(-1, 8), *range(20, 28)])
    # A step that waits for the prefill must not make the hole behind it look short.
    assert arm.steps.period_ns[chosen].max() / 1e3 > 10 * decode_us

    found = timeline(arm, chosen)

    second = (found.thread != SUBMITTING) & (found.step >= prefill + 20)
    assert second.any()
    assert found.gap[second].max() < 2 * decode_us
