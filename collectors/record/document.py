"""The metadata that the recorder contributes: `recording.json` at the start and at the end."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Final

from cctrace import __version__
from cctrace.collectors.environment.acceptance import fill_acceptance
from cctrace.collectors.environment.packages import Packages
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.collectors.environment.variables import stored_variables
from cctrace.collectors.record.results import fill_results
from cctrace.collectors.record.secrets import redact_command, redact_text
from cctrace.collectors.record.settings import RecordSettings
from cctrace.collectors.record.supervisor import Ending
from cctrace.collectors.record.variables import CUPTI_MODES
from cctrace.trace.metadata import Clock, Collector, Emulation, Metadata, Recording
from cctrace.trace.state_check import StateCheck

ENVIRONMENT_KEY: Final = "environment"
"""Key of the metadata under which the state of the machine at start and end is kept."""

DEVTOOLS: Final = "devtools"
"""A mode of confidential computing, and the label of traces that were recorded in it."""


def clock_pair() -> tuple[int, int]:
    """Returns CLOCK_MONOTONIC and CLOCK_REALTIME of one moment in ns, the tightest of a few readings."""
    best: tuple[int, int, int] | None = None
    for _ in range(5):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, real)
    assert best is not None  # noqa: S101 - the loop ran
    return best[1], best[2]


def start_document(
    settings: RecordSettings, snapshot: Snapshot, packages: Packages, variables: Mapping[str, str]
) -> Metadata:
    """Returns what is known before the command starts.

    Args:
        settings: what was asked for.
        snapshot: the machine.
        packages: what the program will import.
        variables: the environment that the program would have without being recorded.
    """
    pair = clock_pair()
    emulation = settings.emulation
    return replace(
        settings.known,
        created_by=f"cctrace {__version__}",
        recording=_recording(settings, *pair),
        acceptance=fill_acceptance(settings.known.acceptance, snapshot, packages),
        environment_variables={
            name: redact_text(value) for name, value in stored_variables(variables).items()
        },
        collector=Collector(
            version=__version__,
            gpu_mode=settings.gpu_mode,
            # Whether CUPTI, if it was asked for, works in the program is known when that has run.
            timing=None if settings.gpu_mode in CUPTI_MODES else "undisturbed",
        ),
        clock=Clock(pairs=(pair,)),
        emulation=None if emulation is None else _emulation(emulation.to_json()),
        labels=_labels(emulated=emulation is not None, cc_mode=snapshot.confidential.cc_mode),
        extra={**settings.known.extra, ENVIRONMENT_KEY: {"start": _state(snapshot)}},
    )


def checked_document(started: Metadata, check: StateCheck) -> Metadata:
    """Returns `started` with the state of the GPUs. The recording begins after the check, not before."""
    pair = clock_pair()
    return replace(
        started,
        state_check=check,
        recording=replace(started.recording, started_at=_local_time(pair[1]), start_ns=pair[0]),
        clock=replace(started.clock, pairs=(pair,)),
    )


def _local_time(realtime_ns: int) -> str:
    started = datetime.fromtimestamp(realtime_ns / 1e9, timezone.utc).astimezone()
    return started.isoformat(timespec="milliseconds")


def _recording(settings: RecordSettings, monotonic_ns: int, realtime_ns: int) -> Recording:
    window = settings.window
    return Recording(
        command=tuple(redact_command(settings.command)),
        started_at=_local_time(realtime_ns),
        start_ns=monotonic_ns,
        window={
            "delay_s": window.delay_s,
            "duration_s": window.duration_s,
            "steps": window.steps,
            "max_bytes": window.max_bytes,
        },
        step_pattern=";".join(settings.step_patterns) or None,
        host=platform.node() or None,
    )


def _labels(*, emulated: bool, cc_mode: str | None) -> tuple[str, ...]:
    wanted = (("emulated", emulated), (DEVTOOLS, cc_mode == DEVTOOLS))
    return tuple(label for label, holds in wanted if holds)


def end_document(
    started: Metadata,
    ending: Ending,
    snapshot: Snapshot,
    *,
    window_ended_by: str | None,
    counters: Mapping[str, Any],
    notes: tuple[str, ...],
    results: Mapping[str, Any] | None,
) -> Metadata:
    """Returns `started` with what is known when the command has ended."""
    monotonic, realtime = clock_pair()
    environment = dict(started.extra[ENVIRONMENT_KEY])
    environment.update(end=_state(snapshot), counters=dict(counters))
    # An NVML that had not answered at the start may have done so since; what is known already stays.
    acceptance = fill_acceptance(started.acceptance, snapshot, Packages())
    late = snapshot.confidential.cc_mode == DEVTOOLS and DEVTOOLS not in started.labels
    return replace(
        started,
        recording=replace(
            started.recording,
            stop_ns=monotonic,
            exit_code=ending.exit_code,
            exit_signal=ending.exit_signal,
            window={**(started.recording.window or {}), "ended_by": window_ended_by},
        ),
        acceptance=acceptance if results is None else fill_results(acceptance, results),
        collector=replace(started.collector, notes=(*started.collector.notes, *notes)),
        clock=replace(started.clock, pairs=(*started.clock.pairs, (monotonic, realtime))),
        labels=(*started.labels, DEVTOOLS) if late else started.labels,
        extra={**started.extra, ENVIRONMENT_KEY: environment},
    )


def _state(snapshot: Snapshot) -> dict[str, Any]:
    machine = snapshot.machine
    load = os.getloadavg()[0]
    return {
        **snapshot.state(),
        "container": machine.container,
        "tee_evidence": machine.tee_evidence,
        "load_average_1min": round(load, 2),
    }


def _emulation(document: dict[str, Any]) -> Emulation:
    return Emulation(profile=document["profile"], causes=tuple(document["causes"]), values=document["values"])
