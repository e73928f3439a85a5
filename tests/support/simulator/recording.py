"""A run as a trace: rows of the project's schema, its metadata, and the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.trace import SCHEMA, Acceptance, Collector, Lane, Metadata, Process, TraceWriter
from cctrace.trace.acceptance import Security
from cctrace.trace.schema import METADATA_KEY
from simulator.recorder import Recorder
from simulator.rows import GPU, HAND_OVER, JOB_WAIT, ROLES, Form, Row

START_NS: Final = 1_000_000_000_000
FIRST_PID: Final = 4200
_LANES_PER_RANK: Final = 8
"""Threads have the first numbers, streams the next ones."""
_NUMBERS: Final = {
    "correlation": "correlation",
    "graph": "graph_id",
    "node": "node_id",
    "size": "bytes",
    "ref": "ref",
    "step": "step",
    "stream": "stream",
}
_GRAPH: Final = Form("graph", source="stamps")


@dataclass(frozen=True, eq=False)
class SimulatedTrace:
    """A trace in memory."""

    table: pa.Table
    metadata: Metadata

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the trace with the project's writer."""
        with TraceWriter(path) as writer:
            writer.write(self.table)
            writer.finish(self.metadata)
        return Path(path)

    def write_in_any_order(self, path: str | os.PathLike[str], seed: int) -> Path:
        """Writes the rows in random order, as a file of another maker may hold them."""
        order = np.random.default_rng(seed).permutation(self.table.num_rows)
        document = {METADATA_KEY: self.metadata.to_json().encode()}
        shuffled = self.table.take(order).replace_schema_metadata(document)
        pa.parquet.write_table(shuffled, path)
        return Path(path)

    def with_table(self, table: pa.Table) -> SimulatedTrace:
        """The same recording with other rows."""
        return replace(self, table=table)


def begun_after(begin: float, rows: Sequence[Row]) -> list[Row]:
    """What a recording holds that starts at a moment: later calls, their GPU work, later marks."""
    host = [row for row in rows if row.thread != GPU and row.begin >= begin]
    handed_over = {(row.rank, row.correlation) for row in host if row.correlation >= 0}
    return host + [row for row in rows if row.thread == GPU and (row.rank, row.correlation) in handed_over]


def trace_of(rows: Sequence[Row], recorder: Recorder, *, cc_mode: str) -> SimulatedTrace:
    """What a recorder keeps of a run."""
    table = _table(_seen(rows, recorder))
    return SimulatedTrace(table, _metadata(table, recorder, cc_mode))


def _seen(rows: Sequence[Row], recorder: Recorder) -> list[Row]:
    """The rows that a recorder sees at its level."""
    seen = [row for row in rows if row.thread != GPU]
    if not recorder.hand_overs:
        seen = [row for row in seen if row.form not in (HAND_OVER, JOB_WAIT)]
    if not recorder.marks:
        seen = [row for row in seen if row.form.kind != "step"]
    gpu = [row for row in rows if row.thread == GPU]
    if recorder.gpu == "nodes":
        return seen + gpu
    replays = _replays(gpu) if recorder.gpu == "stamps" else []
    joined = {(row.rank, row.correlation) for row in replays}
    return [
        row if (row.rank, row.correlation) in joined else row._replace(correlation=-1) for row in seen
    ] + replays


def _replays(gpu: Sequence[Row]) -> list[Row]:
    """One row for each replay of a graph, from its first to its last node."""
    replays: dict[tuple[int, int], Row] = {}
    for row in gpu:
        if row.graph >= 0:
            key = (row.rank, row.correlation)
            known = replays.get(key, row)
            begin, end = min(known.begin, row.begin), max(known.end, row.end)
            replays[key] = known._replace(form=_GRAPH, begin=begin, end=end, node=-1, size=-1)
    return list(replays.values())


def _table(rows: list[Row]) -> pa.Table:
    """Rows as a table of the schema, sorted by lane and time."""
    forms = list(dict.fromkeys(row.form for row in rows))
    number = {form: index for index, form in enumerate(forms)}
    columns = {
        name: np.array([row[index] for row in rows], np.float64)
        for index, name in enumerate(Row._fields)
        if name != "form"
    }
    form = np.array([number[row.form] for row in rows])
    start_ns = START_NS + np.round(columns["begin"] * 1e3).astype(np.int64)
    end_ns = START_NS + np.round(columns["end"] * 1e3).astype(np.int64)
    rank, thread = columns["rank"].astype(np.int64), columns["thread"].astype(np.int64)
    on_gpu = thread == GPU
    lane = rank * _LANES_PER_RANK + np.where(on_gpu, len(ROLES) + columns["stream"].astype(np.int64), thread)
    pid = FIRST_PID + 10 * rank
    values: dict[str, Any] = {
        "start_ns": start_ns,
        "duration_ns": end_ns - start_ns,
        "pid": pid,
        "tid": pa.array(pid + thread, mask=on_gpu),
        "lane": lane,
        "role": pa.array(np.array([*ROLES, None], object)[thread]),
        "device": rank,
        "result": pa.array(np.zeros(len(rows), np.int16), mask=~np.array([f.is_call for f in forms])[form]),
    }
    for own, name in _NUMBERS.items():
        whole = columns[own].astype(np.int64)
        values[name] = pa.array(whole, mask=whole < 0)
    for name in ("kind", "name", "operation", "source", "kernel", "copy_kind", "src_memory", "dst_memory"):
        values[name] = _of_forms([getattr(one, name) for one in forms], form)
    for name in ("blocking", "step_class"):
        values[name] = _of_forms([getattr(one, name) for one in forms], form)
    order = np.lexsort((end_ns, start_ns, lane))
    return _conform(values, len(rows)).take(order)


def _of_forms(words: list[Any], form: npt.NDArray[np.int64]) -> pa.Array:
    kind = pa.bool_() if any(isinstance(word, bool) for word in words) else pa.string()
    return pa.array(words, kind).take(pa.array(form))


def _conform(values: dict[str, Any], count: int) -> pa.Table:
    arrays = []
    for field in SCHEMA:
        array = pa.array(values[field.name]) if field.name in values else pa.nulls(count, field.type)
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(array.type):
            array = array.cast(pa.string()).dictionary_encode()
        arrays.append(array.cast(field.type))
    return pa.table(arrays, schema=SCHEMA)


def _metadata(table: pa.Table, recorder: Recorder, cc_mode: str) -> Metadata:
    processes = tuple(_process(table, int(pid.as_py()), recorder) for pid in pc.unique(table["pid"]))
    return Metadata(
        created_by="simulator",
        acceptance=Acceptance(security=Security(cc_mode=cc_mode)),
        collector=Collector(
            gpu_mode=recorder.gpu,
            timing="distorted" if recorder.distorted else "undisturbed",
            processes=processes,
        ),
        lanes=_lanes(table),
        labels=("distorted",) if recorder.distorted else (),
    )


def _process(table: pa.Table, pid: int, recorder: Recorder) -> Process:
    own = table.filter(pc.equal(table["pid"], pid))
    start = own["start_ns"].to_numpy()
    return Process(
        pid=pid,
        name="simulated server",
        image_start_ns=START_NS - 1_000_000,
        first_record_ns=int(start.min()),
        last_record_ns=int((start + own["duration_ns"].to_numpy()).max()),
        records=own.num_rows,
        tax_ns={"call": recorder.tax_us * 1e3},
    )


def _lanes(table: pa.Table) -> tuple[Lane, ...]:
    keys = table.select(["lane", "pid", "tid", "role", "device", "stream"])
    keys = keys.set_column(3, "role", keys["role"].cast(pa.string()))
    found = {}
    for row in keys.group_by("lane", use_threads=False).aggregate(
        [(name, "first") for name in ("pid", "tid", "role", "device", "stream")] + [("pid", "count")]
    ).to_pylist():  # fmt: skip
        thread = row["tid_first"] is not None
        found[row["lane"]] = Lane(
            lane=row["lane"],
            pid=row["pid_first"],
            kind="thread" if thread else "stream",
            tid=row["tid_first"],
            role=row["role_first"],
            device=None if thread else row["device_first"],
            stream=None if thread else row["stream_first"],
            name=f"thread {row['tid_first']}" if thread else f"stream {row['stream_first']}",
            rows=row["pid_count"],
        )
    return tuple(found[lane] for lane in sorted(found))
