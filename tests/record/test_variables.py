from pathlib import Path

import pytest

from cctrace.collectors.record.variables import ChildEnvironment, child_environment
from cctrace.errors import UnusableInputError

LIBRARY = Path("/opt/cc/libcctrace.so")


def _environment(base: dict[str, str], **options: object) -> ChildEnvironment:
    return child_environment(base, library=LIBRARY, spool=Path("/s"), **{"gpu_mode": "stamps", **options})  # type: ignore[arg-type]


def test_plain_program() -> None:
    result = _environment({"HOME": "/root"})
    assert result.variables == {
        "HOME": "/root",
        "CCTRACE_SPOOL": "/s",
        "CCTRACE_LIBRARY": "/opt/cc/libcctrace.so",
        "CCTRACE_GPU": "stamps",
        "CCTRACE_KERNEL_NAMES": "1",
        "CCTRACE_STAMP_EVERY": "16",
        "LD_PRELOAD": "/opt/cc/libcctrace.so",
        "NVTX_INJECTION64_PATH": "/opt/cc/libcctrace.so",
    }
    assert result.notes == ()


def test_existing_preloads_stay_behind_ours() -> None:
    result = _environment({"LD_PRELOAD": "libjemalloc.so.2 /x/libtcmalloc.so"})
    assert result.variables["LD_PRELOAD"] == "/opt/cc/libcctrace.so:libjemalloc.so.2 /x/libtcmalloc.so"


@pytest.mark.parametrize("mode", ["graphs", "nodes"])
def test_cupti_modes_inject(mode: str) -> None:
    assert _environment({}, gpu_mode=mode).variables["CUDA_INJECTION64_PATH"] == str(LIBRARY)
    with pytest.raises(UnusableInputError, match=r"already set \(/nsys\.so\).*--gpu stamps"):
        _environment({"CUDA_INJECTION64_PATH": "/nsys.so"}, gpu_mode=mode)


def test_libcupti_for_programs_that_bring_none() -> None:
    cupti = Path("/opt/libcupti.so.13")
    assert _environment({}, gpu_mode="nodes", libcupti=cupti).variables["CCTRACE_LIBCUPTI"] == str(cupti)
    chosen = {"CCTRACE_LIBCUPTI": "/mine.so"}
    assert _environment(chosen, gpu_mode="nodes", libcupti=cupti).variables["CCTRACE_LIBCUPTI"] == "/mine.so"
    assert "CCTRACE_LIBCUPTI" not in _environment({}, libcupti=cupti).variables


@pytest.mark.parametrize("mode", ["none", "stamps"])
def test_other_modes_leave_another_tools_injection_alone(mode: str) -> None:
    result = _environment({"CUDA_INJECTION64_PATH": "/nsys.so"}, gpu_mode=mode)
    assert result.variables["CUDA_INJECTION64_PATH"] == "/nsys.so"


def test_another_nvtx_injection_stays_and_is_said() -> None:
    result = _environment({"NVTX_INJECTION64_PATH": "/nsys.so"})
    assert result.variables["NVTX_INJECTION64_PATH"] == "/nsys.so"
    assert "NVTX labels are not recorded" in result.notes[0]


def test_steps_and_emulation() -> None:
    result = _environment({}, step_patterns=("step*", "execute_?"), emulation="kernel_us=12.25,overlap=1")
    assert result.variables["CCTRACE_STEP_PATTERN"] == "step*;execute_?"
    assert result.variables["CCTRACE_EMULATE"] == "kernel_us=12.25,overlap=1"


def test_stray_settings_do_not_leak_in() -> None:
    result = _environment({"CCTRACE_EMULATE": "kernel_us=1", "CCTRACE_STEP_PATTERN": "x"})
    assert "CCTRACE_EMULATE" not in result.variables
    assert "CCTRACE_STEP_PATTERN" not in result.variables


@pytest.mark.parametrize("pattern", ["a;b", ""])
def test_bad_step_patterns(pattern: str) -> None:
    with pytest.raises(UnusableInputError, match="--step"):
        _environment({}, step_patterns=(pattern,))


def test_recordings_are_not_nested() -> None:
    with pytest.raises(UnusableInputError, match="nested"):
        _environment({"CCTRACE_SPOOL": "/other"})
