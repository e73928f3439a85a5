"""What `cctrace info` says about processes, GPUs and traces without rows."""

import re
from pathlib import Path
from typing import Any

import pytest

from cctrace.collectors.environment.variables import visible_gpus
from cctrace.trace.metadata import Metadata
from cctrace.trace.writer import TraceWriter


@pytest.fixture
def info(in_process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What `cctrace info` prints about a trace that holds a metadata document and no rows."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(document: dict[str, Any]) -> str:
        with TraceWriter(tmp_path / "t.parquet", force=True) as writer:
            writer.finish(Metadata.from_document({"format_version": 1, **document}))
        done = in_process("info", "t.parquet")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_trace_without_rows_says_so(info) -> None:
    assert "the trace holds no row" in info({})


@pytest.mark.parametrize("skipped", [0, "left alone"])
def test_captures_that_nobody_skipped_are_not_mentioned(info, skipped: object) -> None:
    state = {"stamps.captures": 190, "stamps.captures_skipped": skipped}
    text = info({"collector": {"processes": [{"pid": 7, "state": state}]}})
    assert "stamps.captures: 190" in text
    assert "captures_skipped" not in text


def test_captures_that_were_skipped_are_counted(info) -> None:
    text = info({"collector": {"processes": [{"pid": 7, "state": {"stamps.captures_skipped": 3}}]}})
    assert "stamps.captures_skipped: 3" in text


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "8 × NVIDIA H200\n"),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, "8 × NVIDIA H200 (2 visible to the program)\n"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "8 × NVIDIA H200 (0 visible to the program)\n"),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}, "8 × NVIDIA H200\n"),
    ],
)
def test_gpus_that_the_program_could_use(info, variables: dict[str, str], shown: str) -> None:
    hardware = {"gpus": 8, "gpu_model": "NVIDIA H200"}
    text = info({"acceptance": {"hardware": hardware}, "environment_variables": variables})
    assert shown in "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("0", ("0",)),
        ("1, 0", ("1", "0")),
        ("0,2,1", ("0",)),  # as CUDA reads it, an entry that names no GPU ends the list
        ("-1", ()),
        ("NoDevFiles", ()),
        ("GPU-8932f937,MIG-1", ("GPU-8932f937", "MIG-1")),
        ("²", ()),
    ],
)
def test_visible_gpus(value: str, visible: tuple[str, ...]) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": value}, 2) == visible
    assert visible_gpus({}, 2) is None


def test_what_was_injected_is_shown_per_cause(info) -> None:
    injected = {
        "launch": {"count": 48_210, "sum_ns": 590_572_500},
        "pcie": {"count": 4, "sum_ns": 40_000, "queued_ns": 1_500_000},
        "overlap": {"count": 0, "sum_ns": 0},
        "nvlink": {"count": 2, "sum_ns": 8_000, "spun_ns": 1_000},
    }
    text = info({"emulation": {"profile": "b200-tdx", "causes": ["launch"], "injected": injected}})
    assert "48,210 calls, 590.572 ms, 12.250 µs each on average\n" in re.sub(r" +\n", "\n", text)
    assert "4 calls, 0.040 ms, 10.000 µs each on average; 1.500 ms more waiting" in text
    assert "2 transfers, 0.008 ms, 4.000 µs each" in text
    assert "nothing" in next(line for line in text.splitlines() if line.strip().startswith("overlap"))


@pytest.mark.parametrize("emulation", [None, {}, {"profile": "b200-tdx", "causes": ["launch"]}])
def test_traces_that_do_not_know_what_was_injected_say_nothing_of_it(info, emulation: object) -> None:
    assert "Injected" not in info({"emulation": emulation})


def test_an_emulation_without_its_description_is_shown(info) -> None:
    text = info({"emulation": {"injected": {"launch": {"count": 1, "sum_ns": 5000}}}})
    assert "profile and values not known" in text
    assert "1 call, 0.005 ms" in text
