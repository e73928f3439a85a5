"""What a recording says: the costs that were injected, and the calls that they were charged to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.trace import open_trace

TOLLS: Final = {
    "kernel": "kernel_us",
    "graph": "graph_us",
    "copy": "copy_us",
    "memset": "memset_us",
    "event-record": "event_us",
    "stream-wait": "event_us",
}
"""Operation → the value that is charged for it."""
PCIE_TABLES: Final = ("h2d_us", "d2h_us", "h2d_pageable_us", "d2h_pageable_us")
_COLUMNS: Final = ("kind", "operation", "start_ns", "duration_ns", "pid", "tid", "bytes", "copy_kind",
                   "src_memory", "dst_memory", "blocking", "step_class", "result")  # fmt: skip


def observe(path: Path) -> dict[str, Any]:
    """What a trace knows about the emulation in it.

    Returns:
        `values`: what was to be charged, as in the metadata;
        `injected`: the truth, cause → `count`, `sum_ns`;
        `counts`: cause → rows of calls that it applies to, for the causes that rows can tell;
        `tolls_us`: operation → launch toll; `submissions`: operation → rows;
        `per_step`: operation → rows of the scheduler's thread in the median step of the commonest class;
        `steps`: how many of that class there are.

    Raises:
        UnusableInputError: the file is no trace.
    """
    trace = open_trace(path)
    emulation = trace.metadata.to_document().get("emulation") or {}
    values: Mapping[str, Any] = emulation.get("values") or {}
    table = trace.table(_COLUMNS, kinds=("submit", "alloc", "step"))
    submissions = _words(table.filter(_is(table, "kind", "submit")), "operation")
    return {
        "values": dict(values),
        "injected": dict(emulation.get("injected") or {}),
        "counts": counts(table, values),
        "tolls_us": {operation: float(values.get(key, 0.0)) for operation, key in TOLLS.items()},
        "submissions": dict(submissions),
        **per_step(table),
    }


def counts(table: pa.Table, values: Mapping[str, Any]) -> dict[str, int]:
    """For each cause that has costs in `values`, the successful calls that they apply to.

    Launch: submissions of the kinds that cost something. Pcie: copies between host and device, except of
    managed memory, and page-locked allocations. Overlap: those of the copies that are asynchronous and touch
    pinned memory. The replays of a graph do not show its transfers between GPUs: nvlink has no count.
    """
    calls = table.filter(pc.equal(pc.fill_null(table["result"], 0), 0))
    submit = calls.filter(_is(calls, "kind", "submit"))
    found: dict[str, int] = {}
    charged = [operation for operation, key in TOLLS.items() if costs(values.get(key))]
    if charged:
        found["launch"] = _true(_is(submit, "operation", *charged))
    copies = _over_pcie(submit)
    if any(costs(values.get(key)) for key in PCIE_TABLES):
        found["pcie"] = copies.num_rows
        if costs(values.get("host_alloc_us")):
            found["pcie"] += _true(_is(calls, "operation", "host-alloc", "host-register"))
    if costs(values.get("overlap")):
        asynchronous = pc.invert(pc.fill_null(copies["blocking"], False))
        found["overlap"] = _true(pc.and_(_touches(copies, "pinned"), asynchronous))
    return found


def costs(value: float | str | None) -> bool:
    """Whether a charge is more than 0: a number, or a table like `64:4.5/1048576:140`."""
    if isinstance(value, str):
        return any(float(node.partition(":")[2]) > 0 for node in value.split("/"))
    return bool(value)


def _over_pcie(submit: pa.Table) -> pa.Table:
    copies = submit.filter(pc.and_(_is(submit, "operation", "copy"), _is(submit, "copy_kind", "h2d", "d2h")))
    moves = pc.greater(pc.fill_null(copies["bytes"], 0), 0)
    return copies.filter(pc.and_(moves, pc.invert(_touches(copies, "managed"))))


def _touches(copies: pa.Table, memory: str) -> pa.ChunkedArray:
    return pc.or_(_is(copies, "src_memory", memory), _is(copies, "dst_memory", memory))


def per_step(table: pa.Table) -> dict[str, Any]:
    """Submissions of the scheduler's thread per step, by operation; see `observe`."""
    steps = table.filter(_is(table, "kind", "step"))
    if not steps.num_rows:
        return {"per_step": {}, "steps": 0}
    common = _words(steps, "step_class").most_common(1)[0][0]
    steps = steps.filter(_is(steps, "step_class", common))
    tid, pid = steps["tid"][0], steps["pid"][0]
    begin = steps["start_ns"].to_numpy()
    end = begin + steps["duration_ns"].to_numpy()
    own = pc.and_(pc.equal(table["tid"], tid), pc.equal(table["pid"], pid))
    calls = table.filter(pc.and_(_is(table, "kind", "submit"), pc.fill_null(own, False)))
    found = {}
    for operation in _words(calls, "operation"):
        starts = np.sort(calls.filter(_is(calls, "operation", operation))["start_ns"].to_numpy())
        found[operation] = float(np.median(np.searchsorted(starts, end) - np.searchsorted(starts, begin)))
    return {"per_step": found, "steps": len(begin)}


def _is(table: pa.Table, column: str, *words: str) -> pa.ChunkedArray:
    """True where the column is one of the words; false where it is null."""
    return pc.is_in(table[column].cast(pa.string()), pa.array(words))


def _words(table: pa.Table, column: str) -> Counter[str]:
    """How often each word occurs."""
    found = table[column].value_counts()
    return Counter({str(item["values"]): item["counts"].as_py() for item in found if item["values"].is_valid})


def _true(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)
