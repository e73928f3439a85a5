"""A small trace of calls that an emulation is charged to, and of such that it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_builder import table_of

from cctrace.trace import Emulation, Metadata, TraceWriter


def row(kind: str, operation: str | None, at: int, **more: Any) -> dict[str, Any]:
    """A row of thread 7 that begins at `at` ns."""
    call = kind != "step"
    base = {
        "kind": kind,
        "operation": operation,
        "source": "interposer" if call else "hook",
        "start_ns": at,
        "duration_ns": 10,
        "pid": 7,
        "tid": 7,
        "lane": 0,
        "name": operation or "step",
        "result": 0 if call else None,
    }
    return {**base, **more}


def write_trace(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    values: Mapping[str, Any],
    injected: Mapping[str, Any] | None,
) -> None:
    rows = sorted(rows, key=lambda r: (r["lane"], r["start_ns"]))
    emulation = Emulation("b200-tdx", ("launch",), values, injected) if values else None
    with TraceWriter(path) as writer:
        writer.write(table_of([dict(r) for r in rows]))
        writer.finish(Metadata(emulation=emulation))


def copy(at: int, direction: str, src: str, dst: str, **more: Any) -> dict[str, Any]:
    base = {"bytes": 64, "copy_kind": direction, "src_memory": src, "dst_memory": dst, "blocking": False}
    return row("submit", "copy", at, **{**base, **more})


ROWS = [
    row("submit", "kernel", 5),
    row("submit", "event-record", 6),
    row("submit", "kernel", 7, result=700),  # failed: not charged
    row("capture", "kernel", 8),  # recorded into a graph: not charged
    copy(20, "h2d", "pinned", "device"),
    copy(30, "d2h", "device", "pinned", blocking=True),
    copy(40, "d2h", "device", "pageable"),
    copy(50, "d2d", "device", "device"),
    copy(60, "h2d", "managed", "device"),
    copy(70, "h2d", "pinned", "device", bytes=0),
    row("alloc", "host-alloc", 80, bytes=100),
    row("alloc", "host-free", 90, bytes=100),
]  # fmt: skip
