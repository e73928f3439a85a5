"""The CUPTI recording against a stand-in CUPTI: its rows, and every way in which it may be refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cctrace.collectors.spool.layout import Flag, Kind, Operation

GPU_KINDS = (Kind.KERNEL, Kind.GRAPH, Kind.COPY, Kind.MEMSET, Kind.SYNC, Kind.OVERHEAD, Kind.HOST_CALL)
PROGRAM = "start(); launch(); launch()\n"
DEVICE, PINNED, PAGEABLE = 3, 2, 1
H2D, D2H, P2P = 1, 2, 5


@pytest.fixture(params=["mapped", "named", "searched"])
def found(request: pytest.FixtureRequest, recorder: Any) -> tuple[str, dict[str, str]]:
    """A way for the collector to find libcupti: code to run first, and the environment."""
    searched = str(recorder.built.folder)
    nowhere = recorder.folder / "no-cupti"
    nowhere.mkdir()
    (nowhere / "libcuda.so.1").symlink_to(recorder.built.folder / "libcuda.so.1")
    load = f"library = ctypes.CDLL({str(recorder.built.libcupti)!r})\n"
    ways = {
        "mapped": (load, {"LD_LIBRARY_PATH": str(nowhere)}),
        "named": ("", {"LD_LIBRARY_PATH": str(nowhere), "CCTRACE_LIBCUPTI": str(recorder.built.libcupti)}),
        "searched": ("", {"LD_LIBRARY_PATH": searched}),
    }
    return ways[request.param]


def test_libcupti_is_found(recorder: Any, found: tuple[str, dict[str, str]]) -> None:
    code, env = found
    recording = recorder.python(code + PROGRAM, CCTRACE_GPU="nodes", **env)
    assert recording.code == 0
    assert recording.err == ""
    assert recording.spool.states()["gpu.state"] == ("recording nodes", 0)
    assert "libcupti.so.13" in recording.spool.states()["gpu.libcupti"][0]
    assert recording.spool.states()["gpu.libcupti"][1] == 130001


def first(spool: Any, kind: Kind, name: str | None = None) -> np.void:
    """The first record of a kind, or of a kind and name."""
    records = spool.of(kind) if name is None else spool.named(name, kind)
    return records[0]


def test_nodes_mode_records_every_kind(recorder: Any) -> None:
    spool = recorder.python(PROGRAM, CCTRACE_GPU="nodes").spool
    eager = first(spool, Kind.KERNEL, "eager_kernel")
    assert (eager["tid"], eager["link"], eager["stream"], eager["device"]) == (0, 11, 7, 0)
    assert eager["end_ns"] - eager["start_ns"] == 9000
    long_name = "kernel_in_a_graph_with_a_long_name_that_needs_more_than_one_block_of_64_bytes_in_the_spool"
    node = first(spool, Kind.KERNEL, long_name)
    assert (node["tid"], node["object"], node["link"]) == (5, 77, 12)
    assert len(spool.of(Kind.GRAPH)) == 0

    to_device, to_host, peer = spool.of(Kind.COPY)[:3]
    assert (to_device["bytes"], to_device["copy_kind"], to_device["memory"]) == (
        4096,
        H2D,
        PINNED | DEVICE << 4,
    )
    assert to_device["flags"] & Flag.ASYNC
    assert (to_host["bytes"], to_host["copy_kind"], to_host["memory"]) == (64, D2H, DEVICE | PAGEABLE << 4)
    assert not to_host["flags"] & Flag.ASYNC
    assert (peer["bytes"], peer["copy_kind"]) == (1 << 20, P2P)
    assert first(spool, Kind.MEMSET)["bytes"] == 512
    sync = first(spool, Kind.SYNC)
    assert (sync["operation"], sync["stream"], sync["link"]) == (Operation.STREAM_SYNC, 8, 17)
    overhead = first(spool, Kind.OVERHEAD)
    assert (spool.name(overhead), overhead["tid"]) == ("command buffer full", 4321)


def test_graphs_mode_records_graphs_and_eager_kernels(recorder: Any) -> None:
    spool = recorder.python(PROGRAM, CCTRACE_GPU="graphs").spool
    graph = first(spool, Kind.GRAPH)
    assert (graph["tid"], graph["link"], graph["stream"]) == (5, 12, 7)
    assert graph["end_ns"] - graph["start_ns"] == 40000
    assert set(spool.names(Kind.KERNEL)) == {"eager_kernel"}
    assert spool.states()["gpu.state"] == ("recording graphs", 0)


def test_only_calls_that_make_gpu_rows_are_kept(recorder: Any) -> None:
    spool = recorder.python(PROGRAM, CCTRACE_GPU="nodes").spool
    assert set(spool.names(Kind.HOST_CALL)) == {"cudaLaunchKernel_v7000", "cuMemcpyHtoDAsync_v2"}
    call = first(spool, Kind.HOST_CALL, "cudaLaunchKernel_v7000")
    assert (call["link"], call["tid"]) == (11, 4321)


def test_gpu_rows_and_host_rows_share_a_clock(recorder: Any) -> None:
    spool = recorder.python(PROGRAM, CCTRACE_GPU="nodes").spool
    begin, end = spool.records[0]["start_ns"], spool.of(Kind.CLOCK)["start_ns"].max()
    for kind in GPU_KINDS:
        records = spool.of(kind)
        assert ((records["start_ns"] >= begin) & (records["start_ns"] <= end + 10_000_000)).all()


def test_losses_are_counted_and_not_recorded(recorder: Any) -> None:
    spool = recorder.python(PROGRAM, CCTRACE_GPU="nodes").spool
    losses = spool.losses()
    assert losses["CUPTI: no GPU time"] >= 1
    assert losses["CUPTI: unfinished at the end"] == 1
    assert losses["CUPTI: dropped"] == 3
    assert not {"kernel_without_time", "unfinished_kernel"} & set(spool.names(Kind.KERNEL))


def test_a_kind_that_the_library_lacks_is_noted(recorder: Any) -> None:
    recording = recorder.python(PROGRAM, CCTRACE_GPU="nodes")
    text, code = recording.spool.states()["gpu.without.rotation"]
    assert "INVALID_KIND" in text
    assert code == 21
    assert recording.err == ""


def test_records_of_another_clock_are_refused(recorder: Any) -> None:
    spool = recorder.python(PROGRAM, CCTRACE_GPU="nodes", MOCK_CUPTI="foreign").spool
    assert all(len(spool.of(kind)) == 0 for kind in GPU_KINDS)
    assert spool.losses()["CUPTI: time of another clock"] > 0


@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("cc41", 41, "confidential computing (error 41)"),
        ("kernel41", 41, "confidential computing (error 41)"),
        ("busy39", 39, "another CUPTI tool is attached (CUPTI for othertool) (error 39)"),
    ],
)
def test_a_refusal_leaves_the_host_rows(recorder: Any, mode: str, code: int, words: str) -> None:
    recording = recorder.python(PROGRAM + "print('program is fine')", CCTRACE_GPU="nodes", MOCK_CUPTI=mode)
    assert recording.code == 0
    assert recording.out == "program is fine\n"
    assert len(recording.err.splitlines()) == 1
    assert words in recording.err
    text, number = recording.spool.states()["gpu.state"]
    assert text.startswith("refused: ")
    assert words in text
    assert number == code
    assert len(recording.spool.named("cuLaunchKernel")) == 2
    assert all(len(recording.spool.of(kind)) == 0 for kind in GPU_KINDS)


def test_without_a_library_the_host_rows_are_left(recorder: Any) -> None:
    nowhere = recorder.folder / "no-cupti"
    nowhere.mkdir()
    (nowhere / "libcuda.so.1").symlink_to(recorder.built.folder / "libcuda.so.1")
    # An empty file ends the loader's search: this machine may have a toolkit.
    for name in ("libcupti.so.13", "libcupti.so.12"):
        (nowhere / name).touch()
    recording = recorder.python(PROGRAM, CCTRACE_GPU="graphs", LD_LIBRARY_PATH=str(nowhere))
    assert recording.code == 0
    assert "no libcupti found" in recording.err
    assert len(recording.err.splitlines()) == 1
    assert recording.spool.states()["gpu.state"][0].startswith("refused: no libcupti found")
    assert len(recording.spool.named("cuLaunchKernel")) == 2


def test_a_library_that_is_no_cupti_is_refused(recorder: Any) -> None:
    nowhere = recorder.folder / "wrong"
    nowhere.mkdir()
    for name in ("libcuda.so.1", "libcupti.so.13"):
        (nowhere / name).symlink_to(recorder.built.folder / "libcuda.so.1")
    recording = recorder.python(PROGRAM, CCTRACE_GPU="nodes", LD_LIBRARY_PATH=str(nowhere))
    assert recording.code == 0
    assert "has no cuptiGetVersion" in recording.spool.states()["gpu.state"][0]


def test_a_fatal_error_later_is_a_state(recorder: Any) -> None:
    recording = recorder.python(PROGRAM, CCTRACE_GPU="nodes", MOCK_CUPTI="fatal")
    assert recording.code == 0
    assert "GPU rows end here" in recording.err
    text, number = recording.spool.states()["gpu.state"]
    assert text.startswith("stopped: ")
    assert number == 41


@pytest.mark.parametrize("mode", ["none", "stamps"])
def test_cupti_is_not_touched_in_other_modes(recorder: Any, mode: str) -> None:
    env = {"CCTRACE_GPU": mode, "CUDA_INJECTION64_PATH": str(recorder.built.library)}
    spool = recorder.python(PROGRAM, **env).spool
    assert "gpu.state" not in spool.states()
    assert len(spool.named("cuLaunchKernel")) == 2


def test_it_works_by_injection_alone(recorder: Any) -> None:
    recording = recorder.python(PROGRAM, CCTRACE_GPU="nodes", LD_PRELOAD="")
    assert recording.code == 0
    assert recording.err == ""
    assert "eager_kernel" in recording.spool.names(Kind.KERNEL)


def test_records_reach_the_disk_while_the_program_runs(recorder: Any) -> None:
    recording = recorder.python(
        PROGRAM + "ctypes.CDLL(os.environ['CCTRACE_LIBRARY']).cctrace_flush(); os.kill(os.getpid(), 9)",
        CCTRACE_GPU="nodes",
    )
    assert recording.code == -9
    assert "eager_kernel" in recording.spool.names(Kind.KERNEL)


def test_a_forked_child_of_a_recorded_process_is_left_alone(recorder: Any) -> None:
    recording = recorder.python(
        PROGRAM
        + """
child = os.fork()
if child == 0: sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        CCTRACE_GPU="nodes",
    )
    assert recording.code == 0
    assert recording.out == "3\n"
    assert recording.spool.losses()["CUPTI: unfinished at the end"] == 1
