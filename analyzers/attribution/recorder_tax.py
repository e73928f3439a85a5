"""What the recorder itself adds to calls, taken off both arms.

Each recording measures at its start what recording one call costs. The interposer's tenth of a microsecond,
most of it outside of the recorded time, is left alone. Another recorder can take microseconds within each
call, more in one arm than in the other, which would be put down to a toll.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from cctrace.analyzers.arms import Arm
from cctrace.analyzers.attribution.program import Program
from cctrace.analyzers.attribution.replay import replay
from cctrace.analyzers.attribution.result import PLAYERS
from cctrace.analyzers.attribution.timeline import Timeline
from cctrace.analyzers.categories import CATEGORIES
from cctrace.analyzers.columns import FloatArray

MATERIAL_US: Final = 0.5
"""A smaller tax per call is within the scatter of own costs and stays where it is."""


def tax_us(arm: Arm) -> float:
    """What recording one call costs in an arm, µs; 0 where it is not known or not worth taking off."""
    taxes = [
        process.tax_ns.get("call", 0.0) / 1e3
        for process in arm.recording.metadata.collector.processes
        if process.pid == arm.process.pid
    ]
    tax = max(taxes, default=0.0)
    return tax if tax >= MATERIAL_US else 0.0


def without_tax(timeline: Timeline, tax: float) -> tuple[Timeline, FloatArray]:
    """(the timeline with calls that are shorter by the tax, what was taken off each operation).

    Calls end when they ended: what waited for the GPU until then is not touched.
    """
    calls = timeline.category < len(CATEGORIES)
    taken = np.where(calls, np.minimum(tax, timeline.length), 0.0)
    if not tax:
        return timeline, taken
    return replace(timeline, start=timeline.start + taken), taken


def recorder_effect(program: Program, off_taken: FloatArray, on_taken: FloatArray) -> tuple[float, float]:
    """How much longer the recorder made a mean step of the off and of the on arm, µs.

    Args:
        program: the merged program, without tax.
        off_taken: what was taken off each operation of the off arm.
        on_taken: the same of the on arm.
    """
    if not off_taken.any() and not on_taken.any():
        return 0.0, 0.0
    host, device = program.host, program.device
    own = np.zeros((len(host), 2))
    own[:, 0], own[:, 1] = np.append(off_taken, 0.0)[host.off], np.append(on_taken, 0.0)[host.on]
    nothing = np.zeros((len(host), 2))
    widened = replace(
        program,
        host=replace(
            host,
            own=np.concatenate((host.own, own), axis=1),
            gap=np.concatenate((host.gap, nothing), axis=1),
            post=np.concatenate((host.post, nothing), axis=1),
        ),
        device=replace(
            device,
            **{
                name: np.concatenate((getattr(device, name), np.zeros((len(device), 2))), axis=1)
                for name in ("delay", "duration", "pause")
            },
        ),
    )
    # Each arm without and with its own tax.
    on = np.repeat([[0.0], [0.0], [1.0], [1.0]], len(PLAYERS), axis=1)
    taxed = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    periods = replay(widened, on, np.concatenate((on, taxed), axis=1))[:, program.counts].mean(axis=1)
    return float(periods[1] - periods[0]), float(periods[3] - periods[2])
