from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_builder import Costs, Load, Tolls, build, table_of

from cctrace.analyzers.copies import CopyBucket
from cctrace.app.summary_view import size_range
from cctrace.trace import Acceptance, Collector, Metadata, Process
from cctrace.trace.acceptance import Load as LoadFields
from cctrace.trace.acceptance import Security

RunCli = Callable[..., CompletedProcess[str]]
WriteTrace = Callable[..., Path]
DATA = Path(__file__).parent / "data"


def vllm(name: str) -> pa.Table:
    """A recorded call sequence as rows of a trace."""
    table = pq.read_table(DATA / f"{name}.parquet")
    rows = [{"source": "interposer", "lane": 0, **row} for row in table.slice(0, 9000).to_pylist()]
    return table_of(rows)


def words(done: CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    return " ".join(done.stdout.split())


def test_summary_of_vllm_tells_start_up_from_steps(write_trace: WriteTrace, run_cli: RunCli) -> None:
    process = Process(pid=3593, name="VLLM::EngineCore", image_start_ns=0, records=9, lost={"full ring": 3})
    metadata = Metadata(collector=Collector(gpu_mode="stamps", processes=(process,)))
    table = vllm("vllm_start_up")

    text = words(run_cli("summary", write_trace("vllm", table, metadata)))

    assert "34 submissions, 1 graph launch" in text
    assert "Process 3593 VLLM::EngineCore" in text
    assert "each begins with copy d2h" in text
    assert "graph captures" in text
    assert "3 records were lost" in text
    assert "though it was made with --gpu stamps" in text


def test_diff_of_different_work_says_so_first(write_trace: WriteTrace, run_cli: RunCli) -> None:
    on, off = write_trace("on", vllm("vllm_piecewise")), write_trace("off", vllm("vllm_full_graph"))

    text = words(run_cli("diff", on, off))

    assert "! the arms' steps hold different work: 34 submissions, 1 graph" in text
    assert "only the off arm makes this call" not in text
    assert "Kernels and calls that differ in number per step" in text
    assert "more; --json lists them." in text
    assert "submissions 34 144 +110" in text


def test_diff_with_a_distorted_arm_gives_no_tolls(write_trace: WriteTrace, run_cli: RunCli) -> None:
    load = Load(execution="graph", gpu_rows="nodes")
    distorted = Metadata(collector=Collector(gpu_mode="nodes", timing="distorted"), labels=("distorted",))
    on = write_trace("on", build(replace(load, gpu_rows="none")).table)
    off = write_trace("off", build(load).table, distorted)

    text = words(run_cli("diff", on, off))

    assert "Not comparable: CUPTI distorted the host times of the off arm" in text
    assert "cannot attribute it, because CUPTI distorted the host times" in text
    assert "Tolls and waiting: cannot tell, because CUPTI distorted the host times of" in text
    assert "This comparison is distorted." in text
    assert "only the off arm has GPU rows" in text
    assert "raw toll per step own off" not in text


def test_diff_lists_classes_fields_and_other_threads(write_trace: WriteTrace, run_cli: RunCli) -> None:
    load = Load(
        execution="graph", readback="worker", marks="decode bs=16", prefill_every=8, steps=60, host_us=900.0
    )
    variables = {f"VLLM_SETTING_{number}": "1" for number in range(20)}
    on_acceptance = Acceptance(security=Security(cc_mode="on"), load=LoadFields(concurrency=32))
    on = write_trace(
        "on",
        build(replace(load, tolls=Tolls(copy=20.0), costs=Costs(gpu_kernel=8.0))).table,
        acceptance=on_acceptance,
    )
    off = write_trace(
        "off",
        build(load).table,
        acceptance=Acceptance(security=Security(cc_mode="off")),
        environment_variables=variables,
    )

    text = words(run_cli("diff", on, off))

    assert "per step together decode prefill" in text
    assert "! load.concurrency is not known in the off arm" in text
    assert "(on: 32)" in text
    assert "! 13 more such differences; --json lists all" in text
    assert "As meant: security.cc_mode off → on." in text
    assert "* on another thread: not part of the step's time line." in text


def test_steps_that_cannot_be_told_are_explained(write_trace: WriteTrace, run_cli: RunCli) -> None:
    table = build(Load(steps=2)).table
    path = write_trace("short", table.filter(pa.compute.equal(table["kind"].cast(pa.string()), "submit")))

    for command in ("summary", "steps"):
        assert words(run_cli(command, path)).startswith("Cannot tell the steps, because ")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 1, "0 B"),
        (1, 2, "1 B"),
        (64, 128, "64–127 B"),
        (1024, 2048, "1.0 KiB–2.0 KiB"),
        (1 << 29, 1 << 30, "512 MiB–1.0 GiB"),
    ],
)
def test_size_ranges_read_well(low: int, high: int, text: str) -> None:
    bucket = CopyBucket("h2d", "pinned", low, high, 1.0, 1.0, 1.0, 0)

    assert size_range(bucket) == text
