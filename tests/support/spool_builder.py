"""Spools as the native collector writes them: single records, and whole decode loops at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.layout import (
    MAGIC,
    NO_DEVICE,
    RECORD,
    RECORD_BYTES,
    VERSION,
    Flag,
    Kind,
    Operation,
)

Records = npt.NDArray[np.void]

DRAIN_NS = 10_000_000
"""The collector empties its rings every 10 ms: within that time, records of threads come thread by thread."""

NAMES = {
    Operation.KERNEL: "cuLaunchKernel",
    Operation.GRAPH: "cuGraphLaunch",
    Operation.COPY: "cuMemcpyHtoDAsync_v2",
    Operation.MEMSET: "cuMemsetD8Async",
    Operation.EVENT_RECORD: "cuEventRecord",
    Operation.STREAM_WAIT: "cuStreamWaitEvent",
    Operation.STREAM_SYNC: "cuStreamSynchronize",
    Operation.EVENT_SYNC: "cuEventSynchronize",
    Operation.CONTEXT_SYNC: "cuCtxSynchronize",
    Operation.QUERY: "cuEventQuery",
    Operation.HOST_ALLOC: "cuMemHostAlloc",
    Operation.DEVICE_ALLOC: "cuMemAlloc_v2",
    Operation.CAPTURE_BEGIN: "cuStreamBeginCapture_v2",
    Operation.CAPTURE_END: "cuStreamEndCapture",
    Operation.GRAPH_BUILD: "cuGraphInstantiateWithFlags",
}


class SpoolBuilder:
    """One spool file. Records are written in the order in which they are added."""

    def __init__(
        self, pid: int = 1000, *, parent: int = 1, start_ns: int = 10**12, version: int = VERSION
    ) -> None:
        self.pid = pid
        self.start_ns = start_ns
        self._parts: list[bytes] = []
        self._ids: dict[str, int] = {}
        self.records = 0
        self.add(
            Kind.HEADER,
            start_ns=start_ns,
            end_ns=start_ns + 10**18,
            tid=pid,
            object=parent,
            link=MAGIC,
            bytes=version,
            stream=start_ns - 10**6,
            device=0,
        )

    def add(self, kind: int, **fields: int) -> None:
        """One record; `device` is none unless given."""
        record = np.zeros(1, dtype=RECORD)
        record["kind"] = kind
        record["device"] = NO_DEVICE
        for name, value in fields.items():
            record[name] = value
        self.extend(record)

    def extend(self, records: Records) -> None:
        """Many records, as they are."""
        self._parts.append(records.tobytes())
        self.records += len(records)

    def raw(self, data: bytes) -> None:
        """Bytes, as they are."""
        self._parts.append(data)

    def text(self, text: str | None) -> int:
        """Id of a text, written at its first use."""
        if text is None:
            return 0
        if text not in self._ids:
            self._ids[text] = len(self._ids) + 1
            data = text.encode()[:4096]
            self.add(Kind.STRING, name=self._ids[text], bytes=len(data))
            self.raw(data + b"\0" * (-len(data) % RECORD_BYTES))
        return self._ids[text]

    def call(
        self,
        operation: Operation,
        start_ns: int,
        duration_ns: int = 3000,
        *,
        tid: int | None = None,
        name: str | None = None,
        symbol: str | None = None,
        device: int = 0,
        src: int = 0,
        dst: int = 0,
        **fields: int,
    ) -> None:
        """A host call."""
        self.add(
            Kind.CALL,
            operation=operation,
            start_ns=start_ns,
            end_ns=start_ns + duration_ns,
            tid=self.pid if tid is None else tid,
            name=self.text(name or NAMES.get(operation, f"cu{operation.name.title()}")),
            link=self.text(symbol),
            device=device,
            memory=src | dst << 4,
            **fields,
        )

    def mark(
        self,
        label: str,
        start_ns: int,
        end_ns: int,
        *,
        tid: int | None = None,
        step: bool = False,
        nvtx: bool = True,
    ) -> None:
        """A range of host time, NVTX's or the hook's."""
        flags = (Flag.STEP_MARK if step else 0) | (Flag.NVTX if nvtx else 0)
        self.add(
            Kind.MARK,
            flags=flags,
            tid=self.pid if tid is None else tid,
            start_ns=start_ns,
            end_ns=end_ns,
            name=self.text(label),
        )

    def named(self, kind: Kind, name: str, *, text: str | None = None, number: int = 0) -> None:
        """A loss, a state or a tax."""
        self.add(kind, name=self.text(name), link=self.text(text), object=number, start_ns=self.start_ns)

    def stamp(
        self, tag: int, gpu_ns: int, index: int, *, end: bool, eager: bool = False, device: int = 0
    ) -> None:
        """One stamp."""
        flags = (Flag.STAMP_END if end else 0) | (Flag.EAGER_STAMP if eager else 0)
        self.add(Kind.STAMP, flags=flags, object=tag, start_ns=gpu_ns, bytes=index, device=device)

    def data(self) -> bytes:
        """The file's content."""
        return b"".join(self._parts)

    def write(self, folder: Path) -> Path:
        """Writes the file into a spool folder."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.pid}-{self.start_ns}.spool"
        path.write_bytes(self.data())
        return path


def write_recording(folder: Path, document: Mapping[str, Any] | None = None) -> None:
    """Writes `recording.json`."""
    folder.mkdir(exist_ok=True)
    (folder / "recording.json").write_text(json.dumps({"format_version": 1, **(document or {})}))


def write_counters(folder: Path, samples: Sequence[tuple[int, int, Mapping[str, float]]]) -> None:
    """Writes `counters.jsonl` from (time in ns, device, values)."""
    lines = [json.dumps({"monotonic_ns": t, "device": d, "values": dict(v)}) for t, d, v in samples]
    (folder / "counters.jsonl").write_text("\n".join(lines) + "\n")


def decode_loop(
    spool: SpoolBuilder,
    *,
    steps: int,
    kernels: int = 40,
    graphs: int = 1,
    threads: int = 1,
    seed: int = 0,
    step_marks: bool = True,
    kernel_names: int = 120,
) -> int:
    """Adds a decode loop like vLLM's: copies, kernels, graph launches, events and a synchronization a step.

    With more threads, each runs a loop of its own, and their records alternate as the collector's rings are
    drained. Returns the number of rows that a trace of it has.
    """
    rng = np.random.default_rng(seed)
    names = {operation: spool.text(NAMES[operation]) for operation in NAMES}
    d2h = spool.text("cuMemcpyDtoHAsync_v2")
    symbols = np.array(
        [spool.text(f"void vllm::some_kernel<{i}, half>(params)") for i in range(kernel_names)]
    )
    operations = np.array(
        [Operation.COPY] * 7
        + [Operation.KERNEL] * kernels
        + [Operation.GRAPH] * graphs
        + [Operation.EVENT_RECORD, Operation.STREAM_WAIT, Operation.COPY, Operation.EVENT_RECORD]
        + [Operation.EVENT_SYNC],
        dtype=np.uint8,
    )
    label = spool.text("decode bs=16")
    loops = []
    for thread in range(threads):
        count = steps * len(operations)
        records = np.zeros(count, dtype=RECORD)
        op = np.tile(operations, steps)
        place = np.tile(np.arange(len(operations)), steps)
        gaps = rng.gamma(2, 1500, count).astype(np.uint64)
        durations = rng.gamma(4, 900, count).astype(np.uint64) + np.uint64(600)
        durations[op == Operation.EVENT_SYNC] += np.uint64(50_000)
        ends = np.uint64(spool.start_ns + 1000 * thread) + np.cumsum(gaps + durations)
        records["kind"] = Kind.CALL
        records["operation"] = op
        records["tid"] = spool.pid + thread
        records["start_ns"], records["end_ns"] = ends - durations, ends
        table = np.zeros(256, dtype=np.uint32)
        for operation, name in names.items():
            table[operation] = name
        records["name"] = table[op]
        is_kernel, is_copy = op == Operation.KERNEL, op == Operation.COPY
        records["link"][is_kernel] = symbols[(place[is_kernel] * 7) % kernel_names]
        records["object"][is_kernel] = 0x7F0000000000 + place[is_kernel] * 64
        graph = op == Operation.GRAPH
        records["object"][graph] = 0x7F1000000000 + place[graph] * 4096
        events = np.isin(op, [Operation.EVENT_RECORD, Operation.STREAM_WAIT, Operation.EVENT_SYNC])
        records["object"][events] = 0x7F2000000000 + (place[events] % 2) * 256
        records["stream"] = 0x7F3000000000
        back = is_copy & (place > len(operations) // 2)
        records["stream"][back] = 0x7F3000001000
        records["stream"][op == Operation.EVENT_SYNC] = 0
        records["bytes"][is_copy] = 64 + 4 * (place[is_copy] % 8)
        records["copy_kind"][is_copy], records["memory"][is_copy] = 1, 2 | 3 << 4
        records["copy_kind"][back], records["memory"][back], records["name"][back] = 2, 3 | 2 << 4, d2h
        records["flags"][op == Operation.EVENT_SYNC] = Flag.SYNCHRONOUS
        records["flags"][graph] = 0
        if step_marks:
            marks = np.zeros(steps, dtype=RECORD)
            marks["kind"], marks["flags"] = Kind.MARK, Flag.STEP_MARK
            marks["tid"], marks["name"], marks["device"] = spool.pid + thread, label, NO_DEVICE
            by_step = records.reshape(steps, -1)
            marks["start_ns"] = by_step["start_ns"][:, 0] - np.uint64(1)
            marks["end_ns"] = by_step["end_ns"][:, -1] + np.uint64(1)
            records = np.concatenate((by_step, marks[:, None]), axis=1).reshape(-1)
        loops.append(records)
    everything = np.concatenate(loops)
    drained = everything["end_ns"] // np.uint64(DRAIN_NS)
    order = (
        np.lexsort((np.arange(len(everything)), everything["tid"], drained)) if threads > 1 else slice(None)
    )
    spool.extend(everything[order])
    return len(everything)
