"""`diff` of recordings whose GPUs were, or were not, in the same state."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from trace_builder import Load, Tolls, build

from cctrace.analyzers.published import published_schemas
from cctrace.analyzers.state import StateComparison, compare_states
from cctrace.trace import GpuState, Metadata, ReferenceLoop, StateCheck, TraceWriter

GiB = 1 << 30
GPU = GpuState(
    name="NVIDIA H200",
    uuid="GPU-a",
    sm_clock_load_mhz=1980,
    memory_clock_load_mhz=3201,
    throttle_reasons_load=(),
    memory_used_bytes=4 << 20,
    memory_reserved_bytes=615 << 20,
    other_processes=0,
    compute=ReferenceLoop(4300.0, 4290.0, 4310.0, 20, 100),
    memory=ReferenceLoop(4000.0, 3990.0, 4010.0, 20, 200),
    launch=ReferenceLoop(3.5, 3.4, 3.9, 20, 200),
)
CHECK = StateCheck(version=1, gpus=(GPU,))


def slower(loop: ReferenceLoop | None, factor: float) -> ReferenceLoop:
    assert loop is not None
    return replace(loop, median_us=loop.median_us * factor)


def changed(**values: object) -> StateCheck:
    return replace(CHECK, gpus=(replace(GPU, **values),))


def test_the_same_state_gives_no_warning() -> None:
    found = compare_states(CHECK, CHECK)
    assert (found.same, found.warnings, found.not_same, found.cannot_tell_because) == (True, (), (), None)
    assert "compute loop 0.0 %" in found.summary


def test_what_cc_itself_does_to_the_loops_is_no_other_state() -> None:
    """A matrix product at 0.998 of its speed, and launches 12 µs dearer."""
    on = changed(
        compute=slower(GPU.compute, 1 / 0.998 + 12 / 4300),
        memory=slower(GPU.memory, 1 + 12 / 4000),
        launch=slower(GPU.launch, 15.7 / 3.5),
    )
    found = compare_states(CHECK, on)
    assert (found.same, found.warnings, found.not_same) == (True, (), ())
    assert "3.50 µs → 15.7 µs (+12.2 µs" in found.summary
    assert [one.loop for one in found.loops] == ["compute", "memory", "launch"]


@pytest.mark.parametrize(("loop", "factor"), [("compute", 1.16), ("memory", 1.16), ("memory", 0.9)])
def test_a_gpu_in_another_state_is_the_first_thing_said(loop: str, factor: float) -> None:
    on = changed(**{loop: slower(getattr(GPU, loop), factor)})
    found = compare_states(CHECK, on)
    assert found.same is False
    (sentence,) = found.not_same
    assert f"the {loop} loop took" in sentence
    assert ("+16.0 %" if factor > 1 else "−10.0 %") in sentence
    assert "part of the difference below is not CC's" in sentence
    assert "different boards" not in sentence


def test_the_worst_of_several_gpus_is_named_and_the_others_are_counted() -> None:
    gpus = [replace(GPU, index=index) for index in range(4)]
    on = [
        replace(gpu, uuid="GPU-b", compute=slower(gpu.compute, factor))
        for gpu, factor in zip(gpus, (1.0, 1.05, 1.3, 1.04), strict=True)
    ]
    (sentence,) = compare_states(replace(CHECK, gpus=tuple(gpus)), replace(CHECK, gpus=tuple(on))).not_same
    assert "+30.0 %, on GPU 2, and on 2 other GPUs; the arms ran on different boards" in sentence


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sm_clock_load_mhz": 1755}, "SM clocks under load differ: 1980 MHz (off), 1755 MHz (on) on GPU 0"),
        ({"memory_clock_load_mhz": 2600}, "memory clocks under load differ: 3201 MHz (off), 2600 MHz (on)"),
        ({"throttle_reasons_load": ("power cap",)}, "nothing (off), power cap (on)"),
        ({"memory_used_bytes": 12 * GiB}, "memory in use before differs: 4.0 MiB (off), 12.0 GiB (on)"),
        ({"other_processes": 2}, "the number of other processes differs: 0 (off), 2 (on)"),
    ],
)
def test_what_else_differs_is_a_warning(values: dict[str, object], says: str) -> None:
    (warning,) = compare_states(CHECK, changed(**values)).warnings
    assert says in warning


@pytest.mark.parametrize(
    "values",
    [
        {"sm_clock_mhz": 1980},  # idle clocks tell when the GPU was last used, no more
        {"sm_clock_load_mhz": 1965},
        {"memory_used_bytes": 100 << 20},
        {"memory_used_bytes": 619 << 20, "memory_reserved_bytes": None},
        {"other_processes": None},
        {"temperature_c": 71},
    ],
)
def test_what_is_ordinary_or_not_known_is_none(values: dict[str, object]) -> None:
    assert compare_states(CHECK, changed(**values)).warnings == ()


def test_what_was_found_before_an_arm_is_repeated() -> None:
    busy = replace(CHECK, findings=("GPU 0: it was 97 % busy before the check", "GPU 0: hot"))
    (warning,) = compare_states(CHECK, busy).warnings
    assert warning.startswith(
        "state check before the on arm: GPU 0: it was 97 % busy before the check (and 1 more"
    )


def cannot_tell(off: StateCheck | None, on: StateCheck | None) -> StateComparison:
    found = compare_states(off, on)
    assert found.same is None
    assert found.cannot_tell_because is not None
    return found


def test_one_arm_without_a_check() -> None:
    for off, on, name in ((None, CHECK, "off"), (CHECK, None, "on")):
        found = cannot_tell(off, on)
        (warning,) = found.warnings
        assert "cannot tell whether the GPUs were in the same state" in warning
        assert f"the {name} arm holds no state check" in warning


def test_two_arms_without_a_check_are_no_reason_for_a_warning() -> None:
    found = cannot_tell(None, None)
    assert found.warnings == ()
    assert "neither arm" in found.cannot_tell_because


@pytest.mark.parametrize(
    ("on", "says"),
    [
        (
            StateCheck(version=1, missing="cuda-python is not installed"),
            "before the on arm (cuda-python is not",
        ),
        (changed(compute=None, memory=None, launch=None, missing="taken"), "before the on arm (taken)"),
        (replace(CHECK, version=2), "different reference loops"),
        (replace(CHECK, gpus=(GPU, replace(GPU, index=1))), "1 GPU (off) and 2 (on)"),
        (changed(name="NVIDIA B200"), "not every loop ran with the same work"),
        (changed(memory=replace(GPU.memory, work=100)), "not every loop ran with the same work"),
    ],
)
def test_checks_that_cannot_be_compared(on: StateCheck, says: str) -> None:
    found = cannot_tell(CHECK, on)
    assert says in found.cannot_tell_because
    assert any("cannot tell" in warning for warning in found.warnings)
    assert found.not_same == ()


def test_a_difference_that_is_seen_stays_one_where_another_gpu_cannot_be_told() -> None:
    off = replace(CHECK, gpus=(GPU, replace(GPU, index=1)))
    on = changed(compute=slower(GPU.compute, 1.2))
    found = compare_states(off, on)
    assert found.same is False
    assert found.cannot_tell_because is not None


def write(path: Path, check: StateCheck | None, tolls: Tolls) -> Path:
    with TraceWriter(path) as writer:
        writer.write(build(Load(tolls=tolls)).table)
        writer.finish(Metadata(state_check=check))
    return path


@pytest.mark.parametrize("loops", ["stale", "same", None])
def test_diff_says_it_before_any_number(tmp_path: Path, loops: str | None) -> None:
    on_check = {"stale": changed(compute=slower(GPU.compute, 1.16)), "same": CHECK, None: None}[loops]
    on = write(tmp_path / "on.parquet", on_check, Tolls(kernel=12.0))
    off = write(tmp_path / "off.parquet", CHECK, Tolls())

    def diff(*options: str) -> str:
        command = [sys.executable, "-m", "cctrace.cli", "diff", str(on), str(off), *options]
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True, timeout=90).stdout

    text, document = diff(), json.loads(diff("--json"))
    jsonschema.validate(document, published_schemas()["diff"])
    assert document["calls"]["state"]["same"] is {"stale": False, "same": True, None: None}[loops]
    first = " ".join(text.split("The on arm costs")[0].split())
    if loops == "stale":
        assert first.startswith("! the GPUs were not in the same state")
        assert "+16.0 %" in first
        assert document["calls"]["warnings"][0].startswith("the GPUs were not in the same state")
        assert text.count("not in the same state") == 1, "it is not said twice"
    else:
        assert first == ""
    words = " ".join(text.split())
    assert ("whether the GPUs were in the same state before the runs" in words) is (loops is None)
