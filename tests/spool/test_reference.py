"""The conversion against a plain one: one record at a time, straight from the description of the records."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spool_builder import NAMES, Records, SpoolBuilder, write_recording

from cctrace.collectors.spool import convert
from cctrace.collectors.spool.layout import COPY_CODES, MEMORY_CODES, NO_DEVICE, RECORD, Flag, Kind, Operation
from cctrace.trace import SCHEMA, open_trace

T = 10**12
SUBMISSIONS = range(Operation.KERNEL, Operation.UNKNOWN + 1)
EVENTS = (Operation.EVENT_RECORD, Operation.STREAM_WAIT, Operation.EVENT_SYNC, Operation.QUERY)
SIZED = (
    Operation.PREFETCH,
    Operation.STREAM_ALLOC,
    Operation.HOST_ALLOC,
    Operation.HOST_REGISTER,
    Operation.DEVICE_ALLOC,
)
KINDS = {
    **dict.fromkeys(SUBMISSIONS, "submit"),
    **dict.fromkeys(range(Operation.STREAM_SYNC, Operation.QUERY + 1), "wait"),
    **dict.fromkeys(range(Operation.HOST_ALLOC, Operation.DEVICE_FREE + 1), "alloc"),
    **dict.fromkeys(range(Operation.CAPTURE_BEGIN, Operation.GRAPH_BUILD + 1), "capture"),
}


class Reference:
    """Rows of one process, record by record."""

    def __init__(self, texts: dict[int, str], pid: int) -> None:
        self.texts = texts
        self.pid = pid
        self.streams: dict[int, int] = {0: 0}
        self.graphs: dict[int, int] = {}
        self.events: dict[int, int] = {}

    def rows(self, records: Records) -> list[dict[str, Any]]:
        rows = []
        for lane, tid in enumerate(sorted({int(r["tid"]) for r in records})):
            mine = [r for r in records if r["tid"] == tid]
            steps = 0
            for r in sorted(mine, key=lambda r: int(r["start_ns"])):
                row = self.call(r) if r["kind"] == Kind.CALL else self.mark(r)
                if row["kind"] == "step":
                    row["step"], steps = steps, steps + 1
                rows.append({"pid": self.pid, "tid": tid, "lane": lane, **row})
        return rows

    def common(self, r: Any) -> dict[str, Any]:
        return {
            "name": self.texts.get(int(r["name"])),
            "start_ns": int(r["start_ns"]),
            "duration_ns": max(0, int(r["end_ns"]) - int(r["start_ns"])),
            "device": None if r["device"] == NO_DEVICE else int(r["device"]),
        }

    def mark(self, r: Any) -> dict[str, Any]:
        step = bool(r["flags"] & Flag.STEP_MARK)
        return {
            **self.common(r),
            "kind": "step" if step else "range",
            "source": "nvtx" if r["flags"] & Flag.NVTX else "hook",
            "step_class": self.texts[int(r["name"])] if step else None,
        }

    def call(self, r: Any) -> dict[str, Any]:
        op, flags, obj = int(r["operation"]), int(r["flags"]), int(r["object"])
        captured = bool(flags & Flag.CAPTURED)
        row = {
            **self.common(r),
            "kind": "capture" if captured else KINDS[op],
            "operation": Operation(op).name.lower().replace("_", "-"),
            "source": "interposer",
            "result": int(r["result"]),
        }
        on_stream = op in SUBMISSIONS or op in (
            *(Operation.STREAM_SYNC, Operation.CAPTURE_BEGIN, Operation.CAPTURE_END),
            *((Operation.QUERY,) if not obj else ()),
        )
        if on_stream:
            row["stream"] = self.number(self.streams, 0 if r["stream"] == 1 else int(r["stream"]))
        if op in EVENTS and obj:
            row["ref"] = self.number(self.events, obj)
        if obj and (op == Operation.GRAPH or (op == Operation.GRAPH_BUILD and "Exec" in str(row["name"]))):
            row["graph_id"] = self.number(self.graphs, obj)
        if op == Operation.KERNEL:
            row["kernel"] = self.texts.get(int(r["link"]))
        if (op in (Operation.COPY, Operation.MEMSET) and not captured) or (op in SIZED and r["bytes"]):
            row["bytes"] = int(r["bytes"])
        if op == Operation.COPY and not captured and r["copy_kind"]:
            row["copy_kind"] = COPY_CODES[int(r["copy_kind"])]
            row["src_memory"] = MEMORY_CODES[int(r["memory"]) & 15]
            row["dst_memory"] = MEMORY_CODES[int(r["memory"]) >> 4]
        if not captured and op in (Operation.COPY, Operation.MEMSET):
            row["blocking"] = bool(flags & Flag.SYNCHRONOUS)
        if not captured and op in range(Operation.STREAM_SYNC, Operation.QUERY + 1):
            row["blocking"] = op != Operation.QUERY
        return row

    @staticmethod
    def number(known: dict[int, int], key: int) -> int:
        return known.setdefault(key, len(known))


def random_records(rng: np.random.Generator, spool: SpoolBuilder, count: int) -> Records:
    """Records of a few threads with every operation; starts differ, so that the order is unique."""
    records = np.zeros(count, dtype=RECORD)
    is_mark = rng.random(count) < 0.2
    operations = np.array([int(o) for o in Operation if o], dtype=np.uint8)
    # Without cuGraphInstantiate: what it makes is another graph each time, which tests of their own look at.
    calls = [name for operation, name in NAMES.items() if operation != Operation.GRAPH_BUILD]
    names = [spool.text(name) for name in (*calls, "cuGraphExecUpdate_v2", "a label", "decode bs=4")]
    records["kind"] = np.where(is_mark, Kind.MARK, Kind.CALL)
    records["operation"] = np.where(is_mark, 0, rng.choice(operations, count))
    flags = rng.choice(np.array([0, 0, 0, Flag.CAPTURED, Flag.SYNCHRONOUS], dtype=np.uint8), count)
    records["flags"] = np.where(is_mark, rng.choice(np.array([0, 4, 8, 12], dtype=np.uint8), count), flags)
    captured = (records["flags"] & Flag.CAPTURED) != 0
    cannot = (records["operation"] > Operation.UNKNOWN) & captured
    records["flags"][cannot] = 0
    records["tid"] = rng.integers(7, 10, count)
    records["start_ns"] = T + rng.permutation(count) * 10
    records["end_ns"] = records["start_ns"] + rng.integers(0, 10**5, count).astype(np.uint64)
    records["stream"] = rng.choice(np.array([0, 1, 0x7F10, 0x7F20, 2 | 7 << 32], dtype=np.uint64), count)
    records["object"] = rng.choice(np.array([0, 0x90, 0xA0], dtype=np.uint64), count)
    records["bytes"] = rng.integers(0, 3, count) * 64
    records["link"] = rng.choice([0, spool.text("kernel one"), spool.text("kernel two")], count)
    records["name"] = rng.choice(names, count)
    records["device"] = rng.choice([0, 1, NO_DEVICE], count)
    records["memory"] = rng.integers(0, 6, count) | rng.integers(0, 6, count) << 4
    records["copy_kind"] = rng.integers(0, 7, count)
    records["result"] = rng.choice([0, 600, 700], count)
    records["link"][is_mark] = 0
    # Within each thread the collector writes calls when they return.
    return records[np.lexsort((records["end_ns"], rng.integers(0, 4, count)))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("chunk", [5, 64, 1 << 16])
def test_rows_are_those_of_the_plain_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, chunk: int
) -> None:
    monkeypatch.setattr("cctrace.collectors.spool.spoolfile.CHUNK_RECORDS", chunk)
    monkeypatch.setattr("cctrace.collectors.spool.merge.CHUNK_RECORDS", chunk)
    spool = SpoolBuilder(pid=7)
    records = random_records(np.random.default_rng(seed), spool, 400)
    spool.extend(records)
    spool.write(tmp_path / "spool")
    write_recording(tmp_path / "spool")
    convert(tmp_path / "spool", tmp_path / "t.parquet")
    found = open_trace(tmp_path / "t.parquet").table().to_pylist()
    texts = {number: text for text, number in spool._ids.items()}
    expected = Reference(texts, 7).rows(records)
    assert len(found) == len(expected)
    for got, want in zip(found, expected, strict=True):
        got.pop("role")
        assert got == {name: want.get(name) for name in SCHEMA.names if name != "role"}
