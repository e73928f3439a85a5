"""Programs of a few operations, to be replayed and computed by hand. Times are µs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.attribution.costs import COLUMNS, NEVER, OFF, Costs
from cctrace.analyzers.attribution.gpu_program import DeviceProgram
from cctrace.analyzers.attribution.program import HostProgram, Program
from cctrace.analyzers.attribution.result import PLAYERS
from cctrace.analyzers.attribution.timeline import BOUNDARY, NONE
from cctrace.analyzers.categories import CATEGORY

Cost = float | dict[str, float]
"""A constant, or {"off": value in the off arm, player: what it adds}."""


@dataclass(frozen=True)
class HostOp:
    """One operation of a host thread; `needs` is the position of what it refers to."""

    what: str | int
    own: Cost = 0.0
    gap: Cost = 0.0
    post: Cost | None = None
    thread: int = 0
    stream: int = NONE
    needs: int = NONE
    step: int = 0
    only: str = ""


@dataclass(frozen=True)
class DeviceOp:
    """One operation on the GPU, submitted by the host operation at `owner`."""

    owner: int
    duration: Cost
    stream: int = 1
    delay: Cost = 0.0
    meeting: int = NONE
    on_owner: int | None = None


def end_of_step(gap: Cost = 0.0, step: int = 0) -> HostOp:
    """The end of a step."""
    return HostOp(BOUNDARY, gap=gap, step=step)


def mixes(*names: Sequence[str]) -> np.ndarray:
    """Mixes of the named players."""
    return np.array([[float(player in chosen) for player in PLAYERS] for chosen in names])


def program(host: Sequence[HostOp], device: Sequence[DeviceOp] = ()) -> Program:
    """A program of one passage. Device operations come in the order of their streams."""
    rows = np.arange(len(host))
    steps = max(op.step for op in host) + 1
    device = sorted(device, key=lambda op: op.stream)
    missing = {"off": [op.only == "on" for op in host], "on": [op.only == "off" for op in host]}
    needs = np.array([op.needs for op in host])
    return Program(
        host=HostProgram(
            passage=np.zeros(len(host), np.int64),
            step=np.array([op.step for op in host]),
            thread=np.array([op.thread for op in host]),
            category=np.array([CATEGORY[op.what] if isinstance(op.what, str) else op.what for op in host]),
            stream=np.array([op.stream for op in host]),
            off=np.where(missing["off"], NONE, rows),
            on=np.where(missing["on"], NONE, rows),
            off_dependency=needs,
            on_dependency=needs,
            gap=_costs([op.gap for op in host]),
            own=_costs([op.own for op in host]),
            post=_costs([NEVER if op.post is None else op.post for op in host]),
        ),
        device=DeviceProgram(
            passage=np.zeros(len(device), np.int64),
            stream=np.array([op.stream for op in device], np.int64),
            off_owner=np.array([op.owner for op in device], np.int64),
            on_owner=np.array([op.owner if op.on_owner is None else op.on_owner for op in device], np.int64),
            meeting=np.array([op.meeting for op in device], np.int64),
            delay=_costs([op.delay for op in device]),
            duration=_costs([op.duration for op in device]),
            pause=_costs([0.0 for _ in device]),
        ),
        counts=np.ones(steps, np.bool_),
        off_period=np.zeros(steps),
        on_period=np.zeros(steps),
        alone=(sum(missing["on"]), sum(missing["off"])),
    )


def _costs(values: Sequence[Cost]) -> Costs:
    costs = np.zeros((len(values), len(COLUMNS)))
    for row, value in enumerate(values):
        parts = value if isinstance(value, dict) else {"off": value}
        for name, part in parts.items():
            costs[row, OFF if name == "off" else COLUMNS.index(name)] = part
    return costs
