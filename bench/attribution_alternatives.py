"""Two simpler ways to split a difference, beside the replay: sums of durations, and the critical path.

Both look at each trace alone, add up µs per step by category, and subtract. They read hand-over rows, where a
trace has them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

PLAYERS: Final = ("launch", "pcie", "overlap", "nvlink", "host", "gpu")
WARM_UP_STEPS: Final = 2
_GPU_KINDS: Final = ("kernel", "graph", "copy", "memset")
_TOUCHES_US: Final = 0.5
"""Two ends closer than this are one moment."""


@dataclass(eq=False)
class _Op:
    """A row: host call, hand-over, wait for one, or GPU work. Times are µs."""

    kind: str
    operation: str
    begin: float
    end: float
    pid: int
    lane: int
    stream: int
    correlation: int
    ref: int
    place: int = 0
    collective: int = -1
    submitted_by: _Op | None = None
    waits_for: list[_Op] = field(default_factory=list)

    @property
    def on_gpu(self) -> bool:
        return self.kind in _GPU_KINDS


@dataclass
class _Trace:
    """Operations by lane, joined with what they wait for, and the window of the steps that count."""

    lanes: dict[int, list[_Op]]
    main: int
    begin: float
    end: float
    steps: int
    collectives: dict[tuple[int, int], list[_Op]]


def sums_of_durations(off: pa.Table, on: pa.Table) -> dict[str, float]:
    """Time in calls and kernels of the first rank, by category, on − off, µs per step."""
    first, second = (_sums(_trace(table)) for table in (off, on))
    return {player: second[player] - first[player] for player in PLAYERS}


def critical_path(off: pa.Table, on: pa.Table) -> dict[str, float]:
    """Time on the critical path by category, on − off, µs per step.

    One path cannot tell a host or a GPU that got slower from one that moved onto the path because overlap was
    lost: what both gain is called overlap.
    """
    first, second = (_path(_trace(table)) for table in (off, on))
    delta = {player: second[player] - first[player] for player in PLAYERS}
    return {**delta, "overlap": delta["host"] + delta["gpu"], "host": 0.0, "gpu": 0.0}


def _sums(trace: _Trace) -> dict[str, float]:
    total = dict.fromkeys(PLAYERS, 0.0)
    first_pid = trace.lanes[trace.main][0].pid
    for ops in trace.lanes.values():
        before: _Op | None = None
        for op in ops:
            if op.pid == first_pid and trace.begin <= op.begin < trace.end:
                total[_category(op)] += op.end - op.begin
                if before is not None and not op.on_gpu:
                    total["host"] += max(0.0, op.begin - before.end)
            before = op
    return {player: us / trace.steps for player, us in total.items()}


def _category(op: _Op) -> str:
    if op.collective >= 0:
        return "nvlink"
    if op.operation == "copy" or op.kind in ("copy", "alloc"):
        return "pcie"
    if op.on_gpu:
        return "gpu"
    return {"wait": "overlap", "submit": "launch"}.get(op.kind, "host")


def _path(trace: _Trace) -> dict[str, float]:
    """Walks back from the last step mark, always to what the present moment waited for."""
    total: dict[str, float] = defaultdict(float)
    time, at = trace.end, _before(trace.lanes[trace.main], trace.end)
    while at is not None and time > trace.begin:
        if at.on_gpu:
            time, at = _back_on_gpu(trace, at, time, total)
        else:
            time, at = _back_on_host(trace, at, time, total)
    return {player: total[player] / trace.steps for player in PLAYERS}


def _back_on_host(trace: _Trace, op: _Op, time: float, total: dict[str, float]) -> tuple[float, _Op | None]:
    """From `time`, at or after the end of a host operation, to what let it end."""
    total["host"] += time - op.end
    cause = max(op.waits_for, key=lambda one: one.end, default=None)
    own = _own(op)
    if cause is not None and cause.end > op.begin:
        total[own] += op.end - cause.end
        return cause.end, cause
    total[own] += op.end - op.begin
    return op.begin, _previous(trace, op)


def _back_on_gpu(trace: _Trace, op: _Op, time: float, total: dict[str, float]) -> tuple[float, _Op | None]:
    """From the end of GPU work to what let it begin; of a collective, on the rank that came last."""
    if op.collective >= 0:
        op = max(trace.collectives[op.collective, 0], key=lambda one: one.begin)
    total[_category(op)] += time - op.begin
    before = _previous(trace, op)
    holders = [one for one in (before, *op.waits_for) if one is not None]
    latest = max(holders, key=lambda one: one.end, default=None)
    submit = op.submitted_by
    if submit is not None and (latest is None or _handed_over(submit, op) > latest.end - _TOUCHES_US):
        handed_over = _handed_over(submit, op)
        total["launch"] += op.begin - handed_over
        total[_own(submit)] += handed_over - submit.begin
        return submit.begin, _previous(trace, submit)
    if latest is None:
        return op.begin, None
    total["gpu"] += op.begin - latest.end
    return latest.end, latest


def _own(op: _Op) -> str:
    """Category of a host operation's time that is no waiting."""
    if op.operation == "copy" or op.kind == "alloc":
        return "pcie"
    return "host" if op.kind == "range" else "launch"


def _handed_over(submit: _Op, work: _Op) -> float:
    """When a submission was made: its end, or soon after its begin if it waits for its work."""
    return submit.begin if work in submit.waits_for else min(submit.end, work.begin)


def _previous(trace: _Trace, op: _Op) -> _Op | None:
    return trace.lanes[op.lane][op.place - 1] if op.place else None


def _before(ops: list[_Op], time: float) -> _Op | None:
    number = int(np.searchsorted([op.end for op in ops], time, side="right"))
    return ops[number - 1] if number else None


# ---- reading


def _trace(table: pa.Table) -> _Trace:
    rows = table.to_pandas()
    marks = rows[rows.kind == "step"].sort_values(["pid", "start_ns"])
    marks = marks[marks.pid == marks.pid.iloc[0]]
    starts = marks.start_ns.to_numpy() / 1e3
    lanes = _lanes(rows[(rows.kind != "step")])
    collectives = _collectives(lanes)
    _join(lanes)
    begin, end = float(starts[WARM_UP_STEPS]), float(starts[-1])
    steps = len(starts) - 1 - WARM_UP_STEPS
    return _Trace(lanes, int(marks.lane.iloc[0]), begin, end, steps, collectives)


def _lanes(rows: pd.DataFrame) -> dict[int, list[_Op]]:
    numbers = rows[["pid", "lane", "stream", "correlation", "ref"]].fillna(-1).astype("int64")
    texts = rows[["kind", "operation", "name"]].astype(object)
    texts = texts.where(texts.notna(), "")
    begins = rows.start_ns.to_numpy() / 1e3
    ends = begins + rows.duration_ns.to_numpy() / 1e3
    lanes: dict[int, list[_Op]] = defaultdict(list)
    counted: dict[int, int] = defaultdict(int)
    for text, number, begin, end in zip(
        texts.itertuples(index=False), numbers.itertuples(index=False), begins, ends, strict=True
    ):
        operation = text.name if text.kind == "range" else text.operation
        op = _Op(text.kind, operation, begin, end, *number)
        op.place = len(lanes[op.lane])
        if text.name.startswith("ncclDevKernel"):
            op.collective = counted[op.lane]
            counted[op.lane] += 1
        lanes[op.lane].append(op)
    return lanes


def _collectives(lanes: dict[int, list[_Op]]) -> dict[tuple[int, int], list[_Op]]:
    """The n-th collectives of all ranks are one."""
    found: dict[tuple[int, int], list[_Op]] = defaultdict(list)
    for ops in lanes.values():
        for op in ops:
            if op.collective >= 0:
                found[op.collective, 0].append(op)
    return found


def _join(lanes: dict[int, list[_Op]]) -> None:
    """Joins submissions with their GPU work, and each wait with what it waited for."""
    host = sorted((op for ops in lanes.values() for op in ops if not op.on_gpu), key=lambda op: op.end)
    _join_threads(host)
    work: dict[tuple[int, int], list[_Op]] = defaultdict(list)
    for ops in lanes.values():
        for op in ops:
            if op.on_gpu and op.correlation >= 0:
                work[op.pid, op.correlation].append(op)
    last: dict[tuple[int, int], _Op] = {}
    events: dict[tuple[int, int], _Op | None] = {}
    barriers: dict[tuple[int, int], list[_Op]] = defaultdict(list)
    for op in host:
        stream, event = (op.pid, op.stream), (op.pid, op.ref)
        gpu = work.get((op.pid, op.correlation), []) if op.correlation >= 0 else []
        for one in gpu:
            one.submitted_by = op
        if gpu:
            gpu[0].waits_for += barriers.pop(stream, [])
            last[stream] = gpu[-1]
            if op.operation == "copy" and op.end >= gpu[-1].end:
                op.waits_for.append(gpu[-1])
        held_back = events.get(event)
        if op.operation == "event-record":
            events[event] = last.get(stream)
        elif op.operation == "stream-wait" and held_back is not None:
            barriers[stream].append(held_back)
        elif op.operation == "event-sync" and held_back is not None:
            op.waits_for.append(held_back)


def _join_threads(host: list[_Op]) -> None:
    """Joins each wait for a job with the other thread's hand-over of it."""
    marks: dict[tuple[int, int], list[_Op]] = defaultdict(list)
    for op in host:
        if op.operation == "hand-over":
            marks[op.pid, op.ref].append(op)
    for op in host:
        if op.operation == "job-wait":
            op.waits_for += [mark for mark in marks[op.pid, op.ref] if mark.lane != op.lane]
