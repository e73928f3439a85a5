"""Whatever rows a file holds, the analysis answers, or refuses in one line."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from trace_builder import table_of

from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.diff import Diff, compare
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.marks import marks_from
from cctrace.analyzers.published import published_schemas
from cctrace.analyzers.results import result_schema
from cctrace.analyzers.step_list import list_steps
from cctrace.analyzers.summary import summarize
from cctrace.errors import UnusableInputError
from cctrace.trace import Metadata
from cctrace.trace.schema import COPY_KINDS, KINDS, MEMORY_KINDS, OPERATIONS, SOURCES

SCHEMAS = {**published_schemas(), "calls": result_schema(Diff, "calls")}
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([*KINDS, "submit", "submit", "wait", "step"]),
        "name": maybe(st.sampled_from(["cuLaunchKernel", "decode", "prefill", ""])),
        "operation": maybe(
            st.sampled_from([*OPERATIONS, "kernel", "graph", "copy", "event-sync", "nonsense"])
        ),
        "source": st.sampled_from(list(SOURCES)),
        "start_ns": st.integers(0, 5000),
        "duration_ns": st.sampled_from([0, 1, 7, 2**40]),
        "pid": st.sampled_from([1, 2]),
        "tid": maybe(st.sampled_from([1, 2])),
        "lane": st.just(0),
        "device": maybe(st.integers(0, 1)),
        "stream": maybe(st.integers(0, 70)),
        "graph_id": maybe(st.integers(0, 3)),
        "kernel": maybe(st.sampled_from(["k", "l"])),
        "bytes": maybe(st.sampled_from([0, 1, 64, 2**62])),
        "copy_kind": maybe(st.sampled_from(COPY_KINDS)),
        "src_memory": maybe(st.sampled_from(MEMORY_KINDS)),
        "dst_memory": maybe(st.sampled_from(MEMORY_KINDS)),
        "blocking": maybe(st.booleans()),
        "step_class": maybe(st.sampled_from(["decode bs=1", "x"])),
    }
)


def recording(rows: list[dict[str, Any]], repeat: int) -> Recording:
    # Repeated, the rows are a loop, so that steps are found in some of the examples.
    many = [{**row, "start_ns": row["start_ns"] + 6000 * turn} for turn in range(repeat) for row in rows]
    table = table_of(many)
    return Recording("x", Metadata(), calls_from(table), marks_from(table), gpu_rows_from(table))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROW, max_size=25), st.sampled_from([1, 8, 20]))
def test_any_rows_are_answered(rows: list[dict[str, Any]], repeat: int) -> None:
    given_rows = recording(rows, repeat)

    answers = {"summary": summarize(given_rows).to_json(), "steps": list_steps(given_rows, 5).to_json()}
    with contextlib.suppress(UnusableInputError):  # nothing to compare
        answers["calls"] = compare(given_rows, given_rows).to_json()

    for name, answer in answers.items():
        VALIDATORS[name].validate(json.loads(json.dumps(answer, allow_nan=False)))


@pytest.mark.parametrize("repeat", [1, 12])
def test_a_table_with_required_columns_only_is_answered(repeat: int) -> None:
    row = {"kind": "submit", "name": "cuLaunchKernel", "operation": "kernel", "pid": 1, "tid": 1, "lane": 0}
    sync = {**row, "kind": "wait", "name": "cuStreamSynchronize", "operation": "stream-sync"}
    rows = [
        {**one, "start_ns": 100 * turn + 10 * place, "duration_ns": 5}
        for turn in range(repeat)
        for place, one in enumerate((row, row, sync))
    ]
    table = table_of(rows).select(
        ["kind", "name", "operation", "start_ns", "duration_ns", "pid", "tid", "lane"]
    )

    found = summarize(
        Recording("x", Metadata(), calls_from(table), marks_from(table), gpu_rows_from(table))
    ).processes[0]

    assert (found.steps is None) == (repeat == 1)
    assert found.steps is None or found.steps.submissions.work_per_step == 2
