"""The helper process: what it answers, and what it may do wrong without harm."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cctrace.collectors.state import check
from cctrace.collectors.state.kernels import WORK_VERSION
from cctrace.trace import StateCheck

FAKE = Path(__file__).with_name("fake")


@pytest.fixture
def check_state(machine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StateCheck]:
    """`check.check_state` on the fake machine."""

    def run(*arguments: Any, **options: Any) -> StateCheck:
        for name in set(os.environ) - set(machine.environment):
            monkeypatch.delenv(name)
        for name, value in machine.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "path", [str(machine.site), str(FAKE), *sys.path])
        return check.check_state(*arguments, **options)

    return run


def _is_gone(machine) -> bool:
    pids = {int(line.split()[0]) for line in machine.log.read_text().splitlines()}
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_all_gpus_are_checked(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(), fake_gpu(1, compute_us=5000))
    found = check_state()
    assert found.missing is None
    assert found.version == WORK_VERSION
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    first, second = found.gpus
    assert (first.name, first.uuid, first.multiprocessors) == ("Fake H200", "GPU-0abc", 132)
    assert (first.sm_clock_mhz, first.sm_clock_load_mhz, first.sm_clock_max_mhz) == (345, 1980, 1980)
    assert first.memory_used_bytes == 4 << 20, "before the check's own context"
    assert (first.ecc_corrected, first.recovery_action, first.throttle_reasons) == (3, "none", ())
    assert first.compute is not None
    assert second.compute is not None
    # The loops are fixed work: only the time differs.
    assert first.compute.work == second.compute.work
    assert first.compute.median_us == 2003.0
    assert second.compute.median_us == 5003.0
    assert first.memory is not None
    assert first.launch is not None
    assert first.launch.median_us == 3.0
    assert found.findings[0].startswith("GPU 1: the compute loop takes")
    assert all(not gpu.extra for gpu in found.gpus), "the helper writes no key that the document lacks"
    assert _is_gone(machine)
    assert {"release 0", "release 1"} <= set(machine.events())


def test_only_visible_gpus_are_touched(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(), fake_gpu(1, processes=4), fake_gpu(2))
    machine.environment["CUDA_VISIBLE_DEVICES"] = "2"
    found = check_state()
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-2abc"]
    assert found.gpus[0].index == 0
    assert {event for event in machine.events() if "retain" in event} == {"retain 2"}


def test_other_tools_stay_out_of_the_helper(machine, check_state) -> None:
    machine.environment["CUDA_INJECTION64_PATH"] = "/opt/nsys.so"
    assert check_state().missing is None
    assert machine.events()[0] == "init"


def test_a_gpu_that_is_taken_leaves_the_others(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(retain=46, processes=1), fake_gpu(1))
    first, second = check_state().gpus
    assert first.compute is None
    assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in first.missing
    assert first.other_processes == 1
    assert second.compute is not None
    assert second.missing is None


def test_short_memory_costs_the_memory_loop_only(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(free=300 << 20))
    (gpu,) = check_state().gpus
    assert (gpu.memory, gpu.missing) == (None, "too little device memory is free for the memory loop")
    assert gpu.compute is not None
    assert gpu.launch is not None


@pytest.mark.parametrize(
    ("init", "says"),
    [
        ("no library", "Failure finding libcuda.so.1"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        (100, "CUDA_ERROR_NO_DEVICE"),
        ("garbage", "answered what cannot be understood"),
        ("crash", "SIGSEGV"),
    ],
)
def test_what_goes_wrong_is_said(machine, check_state, fake_gpu, init: object, says: str) -> None:
    machine.gpus(fake_gpu(), init=init)
    found = check_state()
    assert says in found.missing
    assert found.duration_s > 0
    assert _is_gone(machine)


def test_a_hang_is_given_up_and_what_was_known_is_kept(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(hang=True, used=3 << 30), fake_gpu(1))
    begin = time.monotonic()
    found = check_state(2.5)
    assert time.monotonic() - begin < 500, "it hangs for 1000 s"
    assert "not done within 2.5 s" in found.missing
    first, second = found.gpus
    assert first.compute is None
    assert second.compute is not None, "its loops had ended"
    assert any("GPU 0: 3.0 GiB are in use" in text for text in found.findings)
    assert _is_gone(machine)


def test_a_hang_of_the_driver_at_its_start(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(), init="hang")
    found = check_state(1.0)
    assert "not done within 1 s" in found.missing
    assert _is_gone(machine)


def test_whoever_waits_can_stop_it(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(), init="hang")

    class Stop(BaseException):
        pass

    def poll() -> None:
        if machine.log.exists():
            raise Stop

    with pytest.raises(Stop):
        check_state(60.0, poll)
    assert _is_gone(machine)


def test_without_cuda_python_nvml_still_speaks(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(processes=2), fake_gpu(1))
    machine.environment["CUDA_VISIBLE_DEVICES"] = "0"
    machine.without_bindings()
    found = check_state()
    assert "cuda-python is not installed" in found.missing
    (gpu,) = found.gpus
    assert (gpu.uuid, gpu.other_processes, gpu.compute) == ("GPU-0abc", 2, None)
    assert machine.events() == []


def test_without_nvml_the_loops_still_run(machine, check_state, fake_gpu) -> None:
    machine.gpus(fake_gpu(), nvml="missing")
    (gpu,) = check_state().gpus
    assert gpu.compute is not None
    assert (gpu.memory_used_bytes, gpu.other_processes, gpu.sm_clock_load_mhz) == (None, None, None)


def test_no_gpu_at_all(machine, check_state) -> None:
    machine.gpus()
    found = check_state()
    assert found == replace(check.without_gpu(), duration_s=found.duration_s)


def test_a_helper_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "cannot be started" in check.check_state().missing


@pytest.mark.parametrize(
    "answer",
    [
        b"[]\n",
        b"3\n",
        b'{"gpu": 1}\n',
        b'{"gpu": {"index": "a"}}\n',
        b'{"gpu": {"compute": {"median_us": NaN}}}\n',
    ],
)
def test_answers_of_the_wrong_shape(answer: bytes) -> None:
    found, done = check._understood(answer)
    assert found.missing == "its helper process has answered what cannot be understood"
    assert not done
