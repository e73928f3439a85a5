"""Recordings of tensor-parallel ranks whose collectives are known: what, how large, how long on the wire.

Each decode step replays a graph with all-reduces, gathers the logits, and sends experts' tokens to all ranks
in a group; each tenth step prefills, with large all-reduces launched one by one. All ranks end a collective
together; the transfer begins when the latest one has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from trace_builder import table_of

from cctrace.trace import Acceptance, Collector, Lane, Metadata, Recording, TraceWriter
from cctrace.trace.acceptance import Hardware, Parallelism, Security

START_NS: Final = 1_000_000_000_000
FIRST_PID: Final = 5100
STEP_US: Final = 1500.0
GRAPH_ID: Final = 3
DECODE_BYTES, LOGIT_BYTES, TOKEN_BYTES, PREFILL_BYTES = 131_072, 4_194_304, 524_288, 33_554_432

RING_LL: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
RING: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)"
NVLS: Final = "ncclDevKernel_AllReduce_Sum_bf16_NVLS_SIMPLE(ncclDevKernelArgsStorage<4096ul>)"
GATHER: Final = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECEIVE: Final = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
CUSTOM: Final = "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataE"


@dataclass(frozen=True)
class Tp:
    """A server on several GPUs.

    Attributes:
        ranks: processes, each with its GPU.
        steps: steps.
        layers: all-reduces of a step.
        gpu: GPU rows: of each kernel, of each graph, or none.
        calls: whether NCCL's calls are rows.
        captures: whether the capture of the graph is part of the recording.
        custom: whether each step also runs an all-reduce outside of NCCL.
        wire: time of a transfer ÷ that with NVLink not encrypted.
        late_us: how much later than the first rank the last one begins, at most.
        prefill_kernel: what the large all-reduces run.
        launch_us: own cost of a launch.
        seed: of the noise.
    """

    ranks: int = 2
    steps: int = 60
    layers: int = 12
    gpu: Literal["nodes", "stamps", "none"] = "nodes"
    calls: bool = True
    captures: bool = True
    custom: bool = False
    wire: float = 1.0
    late_us: float = 6.0
    prefill_kernel: str = NVLS
    launch_us: float = 4.0
    seed: int = 1


def wire_us(size: int, factor: float = 1.0) -> float:
    """Time of a transfer without noise: 6 µs and 150 GB/s."""
    return (6.0 + size / 150e3) * factor


@dataclass
class _Rank:
    tp: Tp
    number: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    sequence: int = 0

    @property
    def pid(self) -> int:
        return FIRST_PID + 10 * self.number

    def host(self, kind: str, begin: float, us: float, **more: Any) -> None:
        common = {"source": "interposer", "pid": self.pid, "tid": self.pid, "lane": 2 * self.number}
        self.rows.append({"kind": kind, **common, **_span(begin, us), "result": 0, **more})

    def gpu(
        self, kind: str, span: tuple[float, float], name: str | None, correlation: int, **more: Any
    ) -> None:
        source = "stamps" if self.tp.gpu == "stamps" else "cupti"
        common = {"source": source, "pid": self.pid, "lane": 2 * self.number + 1, "device": self.number}
        where = {"name": name, "correlation": correlation, "stream": 1}
        self.rows.append({"kind": kind, **common, **_span(span[0], span[1] - span[0]), **where, **more})

    def call(self, name: str, begin: float, us: float, size: int, *, captured: bool = False) -> None:
        """A call of NCCL."""
        if not self.tp.calls:
            return
        end = ', "captured": true}' if captured else "}"
        text = f'{{"ranks": {self.tp.ranks}, "sequence": {self.sequence}, "datatype": "bfloat16"{end}'
        self.sequence += 1
        self.host("collective", begin, us, name=name, bytes=size, stream=1, ref=0, attributes=text)

    def launch(self, begin: float, symbol: str) -> int:
        """A kernel's launch; its correlation."""
        self.correlation += 1
        seen = self.tp.gpu == "nodes"
        self.host(
            "submit",
            begin,
            self.tp.launch_us,
            name="cuLaunchKernelEx",
            operation="kernel",
            stream=1,
            kernel=symbol,
            correlation=self.correlation if seen else None,
        )
        return self.correlation

    def capture(self, begin: float) -> None:
        """The graph: one all-reduce a layer."""
        self.host("capture", begin, 3, name="cuStreamBeginCapture_v2", operation="capture-begin", stream=1)
        for layer in range(self.tp.layers):
            at = begin + 10 + 20 * layer
            self.call("ncclAllReduce", at, 9, DECODE_BYTES, captured=True)
            self.host(
                "capture", at + 2, 4, name="cuLaunchKernelEx", operation="kernel", stream=1, kernel=RING_LL
            )
        end = begin + 20 + 20 * self.tp.layers
        self.host("capture", end, 3, name="cuStreamEndCapture", operation="capture-end", stream=1)
        self.host(
            "capture",
            end + 10,
            90,
            name="cuGraphInstantiateWithFlags",
            operation="graph-build",
            graph_id=GRAPH_ID,
        )


def _span(begin: float, us: float) -> dict[str, int]:
    start, end = START_NS + round(begin * 1e3), START_NS + round((begin + us) * 1e3)
    return {"start_ns": start, "duration_ns": max(1, end - start)}


class _Server:
    def __init__(self, tp: Tp) -> None:
        self.tp = tp
        self.random = np.random.default_rng(tp.seed)
        self.ranks = [_Rank(tp, number) for number in range(tp.ranks)]
        self.free = [0.0] * tp.ranks

    def run(self) -> list[dict[str, Any]]:
        if self.tp.captures:
            for rank in self.ranks:
                rank.capture(0.0)
        for step in range(self.tp.steps):
            self._step(step, 10_000 + STEP_US * step)
        return [row for rank in self.ranks for row in rank.rows]

    def _step(self, step: int, begin: float) -> None:
        prefill = step % 10 == 9
        label = "prefill" if prefill else "decode bs=16"
        for rank in self.ranks:
            mark = {"name": label, "step": step, "step_class": label, "result": None, "source": "hook"}
            rank.host("step", begin, STEP_US, **mark)
        self.free = [begin] * self.tp.ranks
        if prefill:
            for layer in range(self.tp.layers):
                at = begin + 20 + 40 * layer
                self._one(at, "ncclAllReduce", PREFILL_BYTES, self.tp.prefill_kernel)
        else:
            self._replay(begin + 20)
            self._one(begin + 120, "ncclAllGather", LOGIT_BYTES, GATHER)
        self._group(begin + 640)
        if self.tp.custom:
            spans = self._transfers(begin + 700, 8192)
            self._launched(begin + 700, CUSTOM, spans)
        for rank in self.ranks:
            rank.host(
                "submit",
                begin + 800,
                5,
                name="cuMemcpyDtoHAsync_v2",
                operation="copy",
                stream=1,
                bytes=64,
                copy_kind="d2h",
                src_memory="device",
                dst_memory="pinned",
                blocking=False,
            )

    def _one(self, begin: float, name: str, size: int, symbol: str) -> None:
        spans = self._transfers(begin, size)
        for rank in self.ranks:
            rank.call(name, begin, self.tp.launch_us + 6, size)
        self._launched(begin + 3, symbol, spans)

    def _group(self, begin: float) -> None:
        """An all-to-all as a group of sends and receives; the end of the group launches."""
        spans = self._transfers(begin, TOKEN_BYTES)
        for rank in self.ranks:
            for peer in range(self.tp.ranks):
                rank.call("ncclSend", begin + 2 * peer, 0.4, TOKEN_BYTES // self.tp.ranks)
                rank.call("ncclRecv", begin + 2 * peer + 1, 0.4, TOKEN_BYTES // self.tp.ranks)
        self._launched(begin + 2 * self.tp.ranks + 4, SEND_RECEIVE, spans)

    def _launched(self, begin: float, symbol: str, spans: list[tuple[float, float]]) -> None:
        for rank, span in zip(self.ranks, spans, strict=True):
            correlation = rank.launch(begin, symbol)
            if self.tp.gpu == "nodes":
                rank.gpu("kernel", span, symbol, correlation)

    def _replay(self, begin: float) -> None:
        correlations = []
        for rank in self.ranks:
            rank.correlation += 1
            correlations.append(rank.correlation)
            known = rank.correlation if self.tp.gpu != "none" else None
            rank.host(
                "submit",
                begin,
                self.tp.launch_us + 3,
                name="cuGraphLaunch",
                operation="graph",
                stream=1,
                graph_id=GRAPH_ID,
                correlation=known,
            )
        replays = [self._transfers(begin + 10, DECODE_BYTES) for _ in range(self.tp.layers)]
        for number, (rank, correlation) in enumerate(zip(self.ranks, correlations, strict=True)):
            spans = [spans[number] for spans in replays]
            if self.tp.gpu == "nodes":
                for node, span in enumerate(spans):
                    rank.gpu("kernel", span, RING_LL, correlation, node_id=node)
            elif self.tp.gpu == "stamps":
                rank.gpu("graph", (spans[0][0], spans[-1][1]), None, correlation, graph_id=GRAPH_ID)

    def _transfers(self, submitted: float, size: int) -> list[tuple[float, float]]:
        """(begin, end) on each rank: kernels of 15 µs lie before each collective."""
        begins = [
            max(free + 15, submitted + 8) + float(self.random.uniform(0, self.tp.late_us))
            for free in self.free
        ]
        end = max(begins) + wire_us(size, self.tp.wire) * float(self.random.normal(1, 0.02))
        self.free = [end] * self.tp.ranks
        return [(begin, end) for begin in begins]


def rows_of(tp: Tp) -> pa.Table:
    """The rows of all ranks."""
    rows = _Server(tp).run()
    # What begins together: the step before the call, the call before its launch.
    order = {"step": 0, "collective": 1}
    return table_of(sorted(rows, key=lambda row: (row["lane"], row["start_ns"], order.get(row["kind"], 2))))


def written(path: Path, tp: Tp, cc_mode: str = "off", *, pid: int | None = None, **changes: Any) -> Path:
    """The recording of all ranks, or of one of them (by pid)."""
    table = rows_of(tp)
    if pid is not None:
        table = table.filter(pc.equal(table["pid"], pid))
    metadata = Metadata(
        recording=Recording(
            command=("python", "serve.py", "--tp", str(tp.ranks)),
            host="node7",
            start_ns=START_NS,
            stop_ns=START_NS + 10**10,
        ),
        acceptance=Acceptance(
            hardware=Hardware(gpu_model="NVIDIA B200", gpus=tp.ranks),
            security=Security(cc_mode=cc_mode, nvlink_encryption="on" if cc_mode == "on" else "off"),
            parallelism=Parallelism(tp=tp.ranks),
        ),
        collector=Collector(gpu_mode=tp.gpu, timing="distorted" if tp.gpu == "nodes" else "undisturbed"),
        lanes=tuple(_lanes(tp)),
        labels=("distorted",) if tp.gpu == "nodes" else (),
    )
    for name, value in changes.items():
        metadata = metadata.with_value(name, value)
    with TraceWriter(path, force=True) as writer:
        writer.write(table)
        writer.finish(metadata)
    return path


def _lanes(tp: Tp) -> Iterator[Lane]:
    for number in range(tp.ranks):
        pid = FIRST_PID + 10 * number
        yield Lane(lane=2 * number, pid=pid, kind="thread", tid=pid, role="scheduler", name=f"thread {pid}")
        yield Lane(lane=2 * number + 1, pid=pid, kind="stream", device=number, stream=1, name="stream 1")


def pair(folder: Path, **values: Any) -> tuple[Path, Path]:
    """(on, off): encrypted NVLink takes 1.186 times as long, and NVLS is not to be had."""
    off = Tp(**values)
    on = Tp(**{**values, "wire": 1.186, "prefill_kernel": RING, "launch_us": 16.0, "seed": 2})
    return written(folder / "tp-on.parquet", on, "on"), written(folder / "tp-off.parquet", off)
