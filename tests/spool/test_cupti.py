from converted import Convert
from spool_builder import SpoolBuilder

from cctrace.collectors.spool.layout import Kind, Operation

T = 10**12
S1, S2 = 0x7F10, 0x7F20
"""Stream handles as the interposer sees them; CUPTI numbers streams itself."""
CUPTI_S1, CUPTI_S2, CUPTI_SIDE = 13, 14, 99


class Profiled(SpoolBuilder):
    """A process with CUPTI: every submission has a host call of CUPTI's around it and a row on the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.correlation = 100

    def submit(
        self, operation: Operation, at: int, *, handle: int, stream: int, runtime: bool = True, **fields: int
    ) -> int:
        self.correlation += 1
        begin, end = (at - 500, at + 4000) if runtime else (at + 100, at + 2900)
        self.add(
            Kind.HOST_CALL,
            tid=self.pid,
            start_ns=begin,
            end_ns=end,
            link=self.correlation,
            name=self.text("cudaSomething" if runtime else "cuSomething"),
        )
        self.call(operation, at, 3000, stream=handle, **fields)
        if operation in (Operation.KERNEL, Operation.COPY, Operation.MEMSET):
            kind = {Operation.KERNEL: Kind.KERNEL, Operation.COPY: Kind.COPY, Operation.MEMSET: Kind.MEMSET}[
                operation
            ]
            self.gpu(kind, at + 10_000, 2000, stream, name=self.text("kern") if kind == Kind.KERNEL else 0)
        return self.correlation

    def gpu(
        self, kind: Kind, start: int, duration: int, stream: int, *, link: int | None = None, **fields: int
    ) -> None:
        self.add(
            kind,
            start_ns=start,
            end_ns=start + duration,
            stream=stream,
            device=0,
            link=self.correlation if link is None else link,
            **fields,
        )


def test_gpu_rows_are_joined_with_the_interposers_calls(to_trace: Convert) -> None:
    spool = Profiled()
    for i in range(20):
        at = T + i * 100_000
        spool.submit(Operation.KERNEL, at, handle=S1, stream=CUPTI_S1, runtime=i % 2 == 0)
        spool.submit(Operation.COPY, at + 20_000, handle=S2, stream=CUPTI_S2, bytes=64, copy_kind=2)
        spool.call(Operation.EVENT_SYNC, at + 60_000, object=5)
    converted = to_trace(spool, recording={"collector": {"gpu_mode": "nodes"}})
    calls = converted.kind("submit")
    gpu = converted.kind("kernel", "copy")
    assert calls.correlation.notna().all()
    joined = gpu.merge(calls, on="correlation", suffixes=("", "_host"))
    assert len(joined) == 40
    assert (joined.start_ns - joined.start_ns_host == 10_000).all()
    assert (joined.stream == joined.stream_host).all()
    assert joined.kind.tolist() == joined.operation_host.tolist()
    assert set(gpu.source) == {"cupti"}
    assert set(converted.kind("kernel").name) == {"kern"}
    assert converted.kind("wait").correlation.isna().all()
    assert converted.metadata.labels == ("distorted",)
    assert converted.metadata.collector.timing == "distorted"


def test_a_runtime_call_with_several_driver_calls_has_one_submission(to_trace: Convert) -> None:
    """cudaMemcpy asks, copies and synchronizes."""
    spool = Profiled()
    spool.add(Kind.HOST_CALL, tid=spool.pid, start_ns=T, end_ns=T + 50_000, link=7)
    spool.call(Operation.QUERY, T + 100, 50, stream=S1)
    spool.call(Operation.COPY, T + 1000, 4000, stream=S1, copy_kind=2, bytes=8)
    spool.call(Operation.COPY, T + 9000, 4000, stream=S1, copy_kind=2, bytes=8)
    spool.call(Operation.STREAM_SYNC, T + 20_000, 9000, stream=S1)
    spool.gpu(Kind.COPY, T + 6000, 1000, CUPTI_S1, link=7, bytes=8, copy_kind=2)
    frame = to_trace(spool).frame
    assert frame[frame.source == "interposer"].correlation.fillna(-1).tolist() == [-1, 7, -1, -1]


def test_a_call_without_a_gpu_row_has_no_correlation(to_trace: Convert) -> None:
    spool = Profiled()
    spool.submit(Operation.KERNEL, T, handle=S1, stream=CUPTI_S1)
    spool.submit(Operation.EVENT_RECORD, T + 10_000, handle=S1, stream=CUPTI_S1)
    assert to_trace(spool).kind("submit").correlation.fillna(-1).tolist() == [101, -1]


def test_graph_nodes_belong_to_the_launch_and_its_graph(to_trace: Convert) -> None:
    spool = Profiled()
    spool.submit(Operation.KERNEL, T, handle=S1, stream=CUPTI_S1)
    link = spool.submit(Operation.GRAPH, T + 20_000, handle=S1, stream=CUPTI_S1, object=0x90)
    for node in range(5):
        stream = CUPTI_SIDE if node == 3 else CUPTI_S1
        spool.gpu(Kind.KERNEL, T + 40_000 + node * 3000, 2000, stream, link=link, tid=33, object=1000 + node)
    converted = to_trace(spool)
    nodes = converted.kind("kernel").dropna(subset="node_id")
    launch = converted.kind("submit").iloc[1]
    assert sorted(nodes.node_id) == [1000, 1001, 1002, 1003, 1004]
    assert set(nodes.correlation) == {launch.correlation}
    assert set(nodes.graph_id) == {launch.graph_id} == {0}
    side = nodes[nodes.node_id == 1003]
    assert nodes[nodes.node_id != 1003].stream.unique().tolist() == [launch.stream]
    assert side.stream.tolist() != [launch.stream]  # a branch of the graph on a stream of its own
    assert side.lane.tolist() != nodes.lane.unique()[:1].tolist() or len(nodes.lane.unique()) == 2


def test_unjoined_streams_and_graphs_get_numbers_of_their_own(to_trace: Convert) -> None:
    spool = Profiled()
    spool.call(Operation.KERNEL, T, stream=S1)
    spool.gpu(Kind.GRAPH, T + 9000, 5000, CUPTI_S1, link=55, tid=8)
    spool.call(Operation.EVENT_SYNC, T + 20_000, object=5)
    converted = to_trace(spool)
    graph = converted.kind("graph").iloc[0]
    assert (graph.stream, graph.graph_id, graph.correlation) == (2, 0, 55)


def test_rows_beside_the_window_of_the_calls_are_left_out_and_counted(to_trace: Convert) -> None:
    spool = Profiled()
    spool.gpu(Kind.KERNEL, T - 50_000, 2000, CUPTI_S1, link=1)
    for i in range(5):
        spool.submit(Operation.KERNEL, T + i * 20_000, handle=S1, stream=CUPTI_S1)
    last = spool.correlation
    spool.gpu(Kind.KERNEL, T + 500_000, 2000, CUPTI_S1, link=last)  # of a call inside: late, but its own
    spool.gpu(Kind.KERNEL, T + 510_000, 2000, CUPTI_S1, link=last + 1)
    converted = to_trace(spool)
    assert converted.kind("kernel").correlation.isin(converted.kind("submit").correlation).all()
    assert len(converted.kind("kernel")) == 6
    (process,) = converted.metadata.collector.processes
    assert process.unmatched == {"CUPTI rows beside the window": 2}


def test_rows_of_a_stream_are_sorted_however_cupti_delivers_them(to_trace: Convert) -> None:
    spool = Profiled()
    for begin in (500, 0, 900, 300):
        for i in range(50):
            spool.gpu(Kind.KERNEL, T + (begin + i) * 1000, 500, CUPTI_S1, link=begin + i + 1)
    frame = to_trace(spool).frame
    assert len(frame) == 200
    assert frame.start_ns.is_monotonic_increasing
    assert frame.lane.nunique() == 1


def test_other_cupti_rows(to_trace: Convert) -> None:
    spool = Profiled()
    spool.submit(Operation.KERNEL, T, handle=S1, stream=CUPTI_S1)
    spool.add(
        Kind.SYNC, operation=Operation.STREAM_SYNC, start_ns=T + 5, end_ns=T + 9, stream=CUPTI_S1, link=9
    )
    spool.add(
        Kind.SYNC, operation=Operation.CONTEXT_SYNC, start_ns=T + 6, end_ns=T + 9, stream=0xFFFFFFFF, link=9
    )
    spool.add(
        Kind.OVERHEAD, start_ns=T + 7, end_ns=T + 20, tid=spool.pid, name=spool.text("command buffer full")
    )
    spool.add(Kind.OVERHEAD, start_ns=T + 8, end_ns=T + 20, name=spool.text("CUPTI buffer flush"))
    spool.add(
        Kind.ROTATION, start_ns=T + 9, end_ns=T + 9, device=0, name=spool.text("channel blocked"), object=3
    )
    converted = to_trace(spool)
    syncs = converted.kind("sync")
    assert syncs.operation.tolist() == ["stream-sync", "context-sync"]
    assert syncs.stream.fillna(-1).tolist() == [1, -1]
    overheads = converted.kind("overhead")
    assert set(overheads.name) == {"command buffer full", "CUPTI buffer flush"}
    crypto = converted.kind("crypto")
    assert crypto.name.tolist() == ["channel blocked"]
    assert crypto.device.tolist() == [0]
    assert crypto.correlation.isna().all()
