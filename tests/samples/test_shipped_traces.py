"""The traces that ship with the repository: all there, small, readable, labelled, and worth their numbers."""

import functools
import re
from pathlib import Path

import pytest

from cctrace.analyzers.diff import Diff, compare
from cctrace.analyzers.loading import Recording, load
from cctrace.analyzers.summary import StepsSummary, Summary, summarize
from cctrace.trace import open_trace

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "sample_traces"
TRACES = sorted(path.stem for path in SAMPLES.glob("[!.]*.parquet"))
PAIRS = [name.removesuffix("-emulated") for name in TRACES if name.endswith("-emulated")]
MAX_BYTES, MAX_BYTES_IN_ALL = 500_000, 8_000_000
TEXTS = (
    REPOSITORY / "Makefile",
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "docs").glob("*.py")),
    *sorted(SAMPLES.glob("*.md")),
)
NAME = re.compile(r"\b(?:launch|server|vllm)-[a-z0-9.-]+-(?:off|emulated|nodes)\b")
PUBLISHED_TOLL_US = 12.25

pytestmark = pytest.mark.skipif(not TRACES, reason="sample_traces/ holds no trace (they are not checked out)")


@functools.lru_cache(maxsize=4)
def recording(name: str) -> Recording:
    return load(open_trace(SAMPLES / f"{name}.parquet"))


def summary_of(name: str) -> Summary:
    return summarize(recording(name))


def steps_of(name: str) -> StepsSummary:
    steps = summary_of(name).processes[0].steps
    assert steps is not None
    return steps


def diff_of(pair: str) -> Diff:
    return compare(recording(f"{pair}-emulated"), recording(f"{pair}-off"))


def test_every_trace_that_a_text_names_is_there() -> None:
    named = {
        (path.name, name)
        for path in TEXTS
        if path.exists()
        for name in NAME.findall(path.read_text(encoding="utf-8"))
    }

    assert named
    assert sorted((where, name) for where, name in named if name not in TRACES) == []


def test_every_emulated_trace_has_its_plain_one() -> None:
    assert PAIRS
    assert [pair for pair in PAIRS if f"{pair}-off" not in TRACES] == []


def test_traces_are_small() -> None:
    sizes = {name: (SAMPLES / f"{name}.parquet").stat().st_size for name in TRACES}

    assert {name: size for name, size in sizes.items() if size > MAX_BYTES} == {}
    assert sum(sizes.values()) <= MAX_BYTES_IN_ALL


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_has_steps_and_the_labels_that_its_name_promises(name: str) -> None:
    summary = summary_of(name)

    assert summary.headline.startswith(("A decode step takes ", "A step takes "))
    assert ("emulated" in summary.provenance.warnings) == name.endswith("-emulated")
    assert (summary.provenance.emulated is not None) == name.endswith("-emulated")
    assert ("distorted" in summary.provenance.warnings) == name.endswith("-nodes")
    assert summary.provenance.cc_mode == "off"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_can_be_compared_and_says_that_it_is_emulated(pair: str) -> None:
    diff = diff_of(pair)

    assert diff.headline.startswith("Emulated b200-tdx (launch")
    assert diff.account is not None
    account = diff.account
    total = account.toll_us_per_step + account.wait_us_per_step + account.unexplained.total_us_per_step
    assert total == pytest.approx(diff.delta_us_per_step, abs=1e-3)
    # Some were recorded while another program ran on the machine's other GPU.
    unexpected = [
        one.name
        for one in diff.field_differences
        if not one.expected and not one.name.endswith(".other_processes")
    ]
    assert unexpected == []
    assert not any("different work" in warning for warning in diff.warnings)


@pytest.mark.parametrize(
    ("name", "submissions"),
    [("vllm-8b-full-off", 34), ("vllm-0.6b-eager-off", 426), ("vllm-0.6b-piecewise-off", 144)],
)
def test_the_counts_of_vllm_come_from_inferred_steps(name: str, submissions: int) -> None:
    steps = steps_of(name)

    assert steps.origin == "inferred"
    assert steps.submissions.work_per_step == pytest.approx(submissions, abs=0.5)
    blocking = [one for one in steps.stalls.lines if one.category == "event-sync"]
    assert [(one.why, one.thread) for one in blocking] == [("contract", "step")]


def test_the_charged_toll_is_found_where_nothing_hides_it() -> None:
    account = diff_of("launch-181").account

    assert account is not None
    kernel = next(one for one in account.tolls if one.category == "kernel")
    assert kernel.counted_per_step == pytest.approx(181, abs=0.5)
    assert kernel.toll_us == pytest.approx(PUBLISHED_TOLL_US, rel=0.05)


def test_the_copy_that_blocks_under_emulation_is_named() -> None:
    diff = diff_of("vllm-8b-full")

    assert any("copy d2h holds the host up until the GPU is done" in one for one in diff.statements)
    assert any(re.search(r"longer per step: copy d2h \+.*event-sync −", one) for one in diff.statements)
