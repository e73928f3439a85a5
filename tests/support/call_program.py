"""Steps written call by call: a list of calls with their times, repeated, as a trace.

For tests that need one certain call in a step; the times are what is written, nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_builder import table_of

from cctrace.trace import Acceptance, Collector, Emulation, Lane, Metadata, TraceWriter
from cctrace.trace.acceptance import Security

START_NS = 1_000_000_000_000
PID, SCHEDULER, COPY_WORKER = 500, 500, 501
COMPUTE, ASIDE = 1, 2
HOST_MEMORY = {"h2d": "src_memory", "d2h": "dst_memory"}


@dataclass(frozen=True)
class Call:
    """One call: how long it takes, how long the host computes before it, and its columns."""

    us: float
    columns: dict[str, Any] = field(default_factory=dict)
    gap_us: float = 1.0
    tid: int = SCHEDULER


def kernel(symbol: str = "layer", us: float = 5.0, stream: int = COMPUTE, **values: Any) -> Call:
    columns = _submit("cuLaunchKernel", "kernel", stream=stream, kernel=symbol)
    return Call(us, columns, **values)


def graph(number: int = 1, us: float = 10.0, **values: Any) -> Call:
    return Call(us, _submit("cuGraphLaunch", "graph", stream=COMPUTE, graph_id=number), **values)


def copy(
    direction: str,
    size: int,
    us: float = 5.0,
    *,
    memory: str = "pinned",
    stream: int = COMPUTE,
    blocking: bool = False,
    **values: Any,
) -> Call:
    sides = {"src_memory": "device", "dst_memory": "device", HOST_MEMORY[direction]: memory}
    name = "cuMemcpyHtoDAsync_v2" if direction == "h2d" else "cuMemcpyDtoHAsync_v2"
    columns = _submit(
        name, "copy", stream=stream, bytes=size, copy_kind=direction, blocking=blocking, **sides
    )
    return Call(us, columns, **values)


def record(event: int, stream: int = COMPUTE, **values: Any) -> Call:
    return Call(1.0, _submit("cuEventRecord", "event-record", stream=stream, ref=event), **values)


def sync(event: int | None, us: float = 2.0, **values: Any) -> Call:
    columns = {"kind": "wait", "name": "cuEventSynchronize", "operation": "event-sync", "ref": event}
    return Call(us, {**columns, "blocking": True}, **values)


def query(us: float = 2.0, **values: Any) -> Call:
    return Call(us, {"kind": "wait", "name": "cuEventQuery", "operation": "query", "ref": 9}, **values)


def memory_call(operation: str, us: float = 20.0, size: int = 4096, **values: Any) -> Call:
    return Call(us, {"kind": "alloc", "name": operation, "operation": operation, "bytes": size}, **values)


def _submit(name: str, operation: str, **columns: Any) -> dict[str, Any]:
    return {"kind": "submit", "name": name, "operation": operation, **columns}


@dataclass(frozen=True)
class Program:
    """What a recorded process does: calls before the steps, then the same step again and again.

    Attributes:
        step: the calls of a step; `odd` replaces those of every `odd_every`-th one.
        host_us: host code at the end of each step.
    """

    step: Sequence[Call]
    steps: int = 40
    host_us: float = 100.0
    before: Sequence[Call] = ()
    odd: Sequence[Call] = ()
    odd_every: int = 0
    label: str = "decode bs=16"

    def rows(self) -> list[dict[str, Any]]:
        now, rows = 0.0, []
        now = _lay(self.before, now, rows) + 1000.0
        for number in range(self.steps + 1):
            begin = now
            odd = self.odd_every and number and number % self.odd_every == 0
            now = _lay(self.odd if odd else self.step, now, rows) + self.host_us
            mark = {"kind": "step", "name": self.label, "source": "hook", "step": number}
            rows.append({**_at(begin, now), **mark, "step_class": self.label, "tid": SCHEDULER, "lane": 0})
        return sorted(rows, key=lambda row: (row["lane"], row["start_ns"]))


def _lay(calls: Iterable[Call], now: float, rows: list[dict[str, Any]]) -> float:
    for call in calls:
        now += call.gap_us
        whose = {"source": "interposer", "result": 0, "tid": call.tid, "lane": call.tid - PID}
        rows.append({**_at(now, now + call.us), **whose, **call.columns})
        # Calls of another thread run beside the scheduler's.
        now += call.us if call.tid == SCHEDULER else 0.0
    return now


def _at(begin: float, end: float) -> dict[str, Any]:
    start = START_NS + round(begin * 1e3)
    length = round((end - begin) * 1e3)
    return {"start_ns": start, "duration_ns": length, "pid": PID}


def metadata(cc: str | None = "off", *, emulated: Sequence[str] = (), **values: Any) -> Metadata:
    """Metadata of a recording: its CC state, and the causes that were emulated."""
    roles = {SCHEDULER: "scheduler", COPY_WORKER: "copy-worker"}
    lanes = tuple(
        Lane(lane=tid - PID, pid=PID, kind="thread", tid=tid, role=role) for tid, role in roles.items()
    )
    return Metadata(
        acceptance=values.pop("acceptance", None) or Acceptance(security=Security(cc_mode=cc)),
        emulation=Emulation(profile="b200-tdx", causes=tuple(emulated)) if emulated else None,
        collector=values.pop("collector", None) or Collector(gpu_mode="none", timing="undisturbed"),
        lanes=lanes,
        **values,
    )


def write(path: Path, program: Program, about: Metadata | None = None) -> Path:
    """Writes the trace."""
    with TraceWriter(path) as writer:
        writer.write(table_of(program.rows()))
        writer.finish(about or metadata())
    return path
