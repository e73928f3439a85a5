"""Rules about what happens before the steps: loading weights, and tuning that trusts event times."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.calls import CAPTURE, Calls
from cctrace.analyzers.findings.places import seen_outside
from cctrace.analyzers.findings.result import INFORMATION, RISK
from cctrace.analyzers.findings.rule import CannotTell, Remedy, Rule, Seen
from cctrace.analyzers.findings.savings import cannot_tell
from cctrace.analyzers.findings.view import Observation
from cctrace.analyzers.sentences import bytes_text, plural, seconds_text
from cctrace.analyzers.startup import start_up_of
from cctrace.analyzers.steps import NoSteps

MIN_TIMED_RUNS: Final = 20
"""Bracketed launches from which on they are timing: a tuner repeats each candidate, and has several."""
MAX_TIMED_LAUNCHES: Final = 4
"""Launches between two events of a timing: one kernel, or an operation of few. Engines that record an event
before and after a forward have hundreds between them."""
MIN_START_UP_BYTES: Final = 256 << 20
"""Start-up copies from this size on are weights: the smallest models that are served have more."""


def _autotuner(seen: Observation) -> Seen | CannotTell | None:
    calls = seen.outside_steps
    if not calls.is_work.any():
        return CannotTell("the recording holds nothing but steady steps: tuning is over when it begins")
    count, tid = _timed_runs(calls)
    if count < MIN_TIMED_RUNS:
        return None
    text = (
        f"outside of the steps {plural(count, 'time')} an event is recorded, at most {MAX_TIMED_LAUNCHES} "
        "kernels are launched and another event is recorded: that looks like a tuner that times candidates "
        "by CUDA events"
    )
    found = seen_outside(text, count, "event-record", seen.thread_name(tid))
    saving = cannot_tell(
        "a wrong choice costs what the chosen kernel is slower; compare the kernels of both arms"
    )
    return Seen([found], saving, measured=seen.has_cc)


def _timed_runs(calls: Calls) -> tuple[int, int]:
    """How often threads launch few kernels between two event records, and the thread that does so most."""
    counts: dict[int, int] = {}
    ordered = calls.pick((calls.kind != CAPTURE) & ~calls.is_operation("query"))
    launch = ordered.is_operation("kernel", "memset")
    launches = np.concatenate(([0], np.cumsum(launch)))
    for _, tid, rows in ordered.threads:
        records = rows.start + np.flatnonzero(ordered.is_operation("event-record")[rows])
        between = records[1:] - records[:-1] - 1
        only_launches = (
            launches[records[1:]] - launches[records[:-1] + 1] == between if len(records) > 1 else between
        )
        same_stream = ordered.stream[records[1:]] == ordered.stream[records[:-1]]
        timed = (between >= 1) & (between <= MAX_TIMED_LAUNCHES) & only_launches & same_stream
        counts[tid] = counts.get(tid, 0) + int(timed.sum())
    most = max(counts, key=lambda tid: counts[tid], default=0)
    return sum(counts.values()), most


def _start_up(seen: Observation) -> Seen | None:
    if seen.process is None:
        return None
    steps = seen.steps or NoSteps(seen.process.pid, seen.no_steps_because or "")
    start = start_up_of(seen.process.calls, steps, seen.process.image_start_ns)
    if seen.steps is None or start.h2d_bytes < MIN_START_UP_BYTES:
        return None
    text = (
        f"{bytes_text(start.h2d_bytes)} move to the GPU before the first step, in "
        f"{plural(start.h2d_copies, 'copy')}; {seconds_text(start.h2d_in_call_s)} in the calls"
    )
    saving = cannot_tell("it is paid once, and no step contains it")
    return Seen([seen_outside(text, start.h2d_copies, "copy h2d")], saving, measured=seen.pays("pcie"))


AUTOTUNER_EVENTS: Final = Rule(
    name="autotuner-events",
    looks_for="kernels that are timed by CUDA events outside of the steps, as autotuners do",
    title="An autotuner times kernels by CUDA events",
    cause=None,
    kind=RISK,
    remedy=Remedy(
        "Time by %globaltimer on the GPU, or tune without CC and ship the choices: event times are unstable "
        "under CC, even negative, so that another kernel may be chosen in each run",
        ("TensorRT LLM PR #11657 (TLLM_PROFILING_TIMER)", "FlashInfer PR #3870"),
    ),
    of_recording=_autotuner,
)
START_UP_COPIES: Final = Rule(
    name="start-up-copies",
    looks_for="weights that cross PCIe before the first step",
    title="Weights cross PCIe at start-up",
    cause="pcie",
    kind=INFORMATION,
    remedy=Remedy(
        "Count start-up apart from the steps; load from several contexts if it must be shorter",
        ("published: model load 34 times slower with CC on",),
    ),
    of_recording=_start_up,
)
