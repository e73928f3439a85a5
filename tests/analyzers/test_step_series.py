import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from trace_builder import PID, Built, Load, build

from cctrace.analyzers.arms import arm_of, pair_classes, same_work
from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording, load
from cctrace.analyzers.marks import marks_from
from cctrace.analyzers.steady import EXCLUSIONS, STEADY
from cctrace.analyzers.step_list import list_steps
from cctrace.analyzers.step_series import METRICS, ProcessSeries, main_process, series_of, step_series
from cctrace.errors import UnusableInputError
from cctrace.trace import Collector, Metadata, open_trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
EXACT = Load(marks="decode", noise=0.0, steps=40)
METRIC = {one.key: one for one in METRICS}
WriteTrace = Callable[..., Path]


def recording(*parts: Built, metadata: Metadata | None = None) -> Recording:
    table = pa.concat_tables([built.table for built in parts])
    return Recording(
        "x.parquet", metadata or Metadata(), calls_from(table), marks_from(table), gpu_rows_from(table)
    )


def series(built: Built) -> ProcessSeries:
    found = main_process(series_of(recording(built)))
    assert found is not None
    return found


def test_each_step_has_what_the_program_put_into_it() -> None:
    built = build(replace(EXACT, execution="piecewise", prefill_every=10, extra_share=0.3))

    found = series(built)

    assert found.start_ns.tolist() == built.step_ns[:-1].tolist()
    assert found.period_ns.tolist() == np.diff(built.step_ns).tolist()
    assert found.values(METRIC["submissions"]).tolist() == built.work[:-1].tolist()
    decode = built.decode[:-1]
    assert found.values(METRIC["graphs"]).tolist() == np.where(decode, 12, 0).tolist()
    phases = [found.classes[number].phase for number in found.class_of.tolist()]
    assert phases == np.where(decode, "decode", "prefill").tolist()
    assert found.classes[found.main_class].phase == "decode"


@pytest.mark.parametrize("name", ["server-eager-worker-off", "vllm-8b-full-emulated", "launch-eager-off"])
def test_columns_say_the_same_as_the_list_of_steps(name: str) -> None:
    recorded = load(open_trace(SAMPLES / f"{name}.parquet"))

    found = main_process(series_of(recorded))
    listed = list_steps(recorded, None).processes[0]

    assert found is not None
    assert (found.pid, len(found)) == (listed.pid, listed.total_steps)
    assert found.values(METRIC["period"]).tolist() == [row.period_us for row in listed.steps]
    assert found.values(METRIC["submissions"]).tolist() == [row.work_submissions for row in listed.steps]
    assert found.values(METRIC["stall"]).tolist() == [row.waiting_us for row in listed.steps]
    assert found.values(METRIC["calls"]).tolist() == [row.in_calls_us for row in listed.steps]
    assert found.class_of.tolist() == [row.step_class for row in listed.steps]
    assert (found.exclusion == STEADY).tolist() == [row.counts for row in listed.steps]
    assert [one.name for one in found.classes] == [one.name for one in listed.classes]


def test_how_many_steps_are_listed_does_not_change_what_they_hold() -> None:
    recorded = load(open_trace(SAMPLES / "server-eager-sync-emulated.parquet"))

    few, every = (list_steps(recorded, limit).processes[0].steps for limit in (5, None))

    assert few == every[:5]


def test_stall_is_the_time_in_waits_of_the_submitting_thread() -> None:
    built = build(replace(EXACT, execution="graph", readback="sync"))
    waits = built.table.filter(pc.equal(built.table["kind"], "wait"))
    start, length = (waits[name].to_numpy() for name in ("start_ns", "duration_ns"))

    found = series(built)

    expected = [
        int(length[(start >= begin) & (start < end)].sum()) for begin, end in pairwise(built.step_ns.tolist())
    ]
    assert found.waiting_ns.tolist() == expected
    assert (found.inside_ns >= found.waiting_ns).all()
    assert (found.inside_ns <= found.period_ns).all()


def test_gpu_time_is_the_union_of_the_gpu_rows() -> None:
    built = build(replace(EXACT, execution="graph", readback="overlap", gpu_rows="nodes", steps=12))
    kinds = pc.is_in(built.table["kind"], pa.array(["kernel", "graph", "copy", "memset"]))
    rows = built.table.filter(kinds)
    begin = rows["start_ns"].to_numpy()
    end = begin + rows["duration_ns"].to_numpy()

    found = series(built)

    for step, (first, last) in enumerate(pairwise(built.step_ns.tolist())):
        ticks = np.arange(first, last, 100)
        covered = ((ticks[:, None] >= begin) & (ticks[:, None] < end)).any(axis=1)
        assert found.gpu_ns[step] == pytest.approx(covered.sum() * 100, abs=1500)


def test_gpu_time_of_steps_without_a_stamped_graph_is_not_known() -> None:
    built = build(replace(EXACT, execution="graph", gpu_rows="stamps", prefill_every=10, readback="sync"))

    found = series(built)

    # The GPU works in a prefill as well, but stamps see graphs only.
    assert np.isnan(found.gpu_ns[~built.decode[:-1]]).all()
    assert np.isfinite(found.gpu_ns[built.decode[:-1]]).all()
    assert found.gpu_unknown_because is None
    assert found.gpu_caveat is not None
    assert "outside of graphs" in found.gpu_caveat


def test_without_gpu_rows_there_is_a_reason_instead_of_zeros() -> None:
    found = series(build(EXACT))

    assert np.isnan(found.gpu_ns).all()
    assert found.gpu_unknown_because is not None
    assert "no GPU rows" in found.gpu_unknown_because


def test_steps_that_do_not_count_are_marked() -> None:
    found = series(build(Load(marks="decode", steps=60, pause_after=20)))

    words = [EXCLUSIONS[code] for code in found.exclusion.tolist() if code != STEADY]
    assert words == ["pause", "pause"]


def test_the_process_with_most_steady_time_comes_first() -> None:
    few = build(replace(EXACT, steps=20))
    many = build(replace(EXACT, steps=40, pid=PID + 50))

    found = series_of(recording(few, many))

    assert [(one.pid, len(one)) for one in found.processes] == [(PID + 50, 39), (PID, 19)]
    chosen = main_process(found, PID)
    assert chosen is not None
    assert chosen.pid == PID
    assert main_process(found, 1) is found.processes[0]
    assert found.processes[0].pid == arm_of(recording(few, many)).process.pid


def test_why_there_are_no_steps() -> None:
    nothing = replace(build(EXACT), table=build(EXACT).table.slice(0, 0))
    one_step = build(Load(steps=1))

    empty, short = series_of(recording(nothing)), series_of(recording(one_step))

    assert empty.processes == ()
    assert empty.no_steps_because is not None
    assert empty.no_steps_because.startswith("the recording holds no host call")
    assert short.no_steps_because == short.processes[0].no_steps_because
    assert len(short.processes[0]) == 0
    assert main_process(short) is None


def test_classes_are_paired_as_a_comparison_pairs_them() -> None:
    recorded = [load(open_trace(SAMPLES / f"vllm-8b-full-{arm}.parquet")) for arm in ("off", "emulated")]
    off, on = (arm_of(one) for one in recorded)
    expected = {
        (off.steps.classes[pair.off].name, on.steps.classes[pair.on].name) for pair in pair_classes(off, on)
    }

    off_series, on_series = (main_process(series_of(one)) for one in recorded)

    assert off_series is not None
    assert on_series is not None
    found = {
        (off_series.classes[first].name, on_series.classes[second].name)
        for first, second, _ in same_work(off_series.traits, on_series.traits)
    }
    assert expected
    assert expected <= found


def test_it_is_read_from_a_file_and_travels_between_processes(write_trace: WriteTrace) -> None:
    labels = Metadata(labels=("emulated",), collector=Collector(gpu_mode="none"))
    path = write_trace("run", build(EXACT).table, labels)

    found = pickle.loads(pickle.dumps(step_series))(path)
    copy = pickle.loads(pickle.dumps(found))

    assert copy.provenance.warnings == ("emulated",)
    assert copy.processes[0].period_ns.tolist() == found.processes[0].period_ns.tolist()


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"no trace")

    with pytest.raises(UnusableInputError):
        step_series(path)
