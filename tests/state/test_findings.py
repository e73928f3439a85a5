"""What looks stale or busy."""

from dataclasses import replace
from typing import Any

import pytest

from cctrace.app.state_view import check_facts, gpu_facts, verdict_facts
from cctrace.collectors.state import kernels
from cctrace.collectors.state.findings import compute_excess, findings_of, unknown_of
from cctrace.trace import GpuState, ReferenceLoop, StateCheck

WORK = kernels.compute_work(132)
NEEDED_US = WORK / (132 * 128 * 1980)
GiB = 1 << 30
HEALTHY = GpuState(
    name="NVIDIA H200",
    compute_capability="9.0",
    multiprocessors=132,
    sm_clock_mhz=345,
    sm_clock_load_mhz=1980,
    sm_clock_max_mhz=1980,
    throttle_reasons=(),
    throttle_reasons_load=(),
    utilization_percent=0,
    memory_used_bytes=4 << 20,
    memory_reserved_bytes=615 << 20,
    memory_total_bytes=140 * GiB,
    other_processes=0,
    ecc_corrected=12,
    ecc_uncorrected=0,
    recovery_action="none",
    mig=False,
    compute=ReferenceLoop(NEEDED_US * 1.03, NEEDED_US * 1.029, NEEDED_US * 1.034, 20, WORK),
    memory=ReferenceLoop(4000.0, 3990.0, 4015.0, 20, 17 * GiB),
    launch=ReferenceLoop(3.0, 2.9, 5.0, 20, 200),
)


def found(**values: Any) -> tuple[str, ...]:
    return findings_of(StateCheck(gpus=(replace(HEALTHY, **values),)))


def test_a_healthy_idle_gpu() -> None:
    assert found() == ()
    assert unknown_of(StateCheck(gpus=(HEALTHY,))) == ()
    assert ("verdict", "nothing looks stale or busy") in verdict_facts(StateCheck(gpus=(HEALTHY,)))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"other_processes": 1, "memory_used_bytes": 18 * GiB},
            "1 other process uses it (18.0 GiB in use): stop",
        ),
        ({"other_processes": 2}, "2 other processes use it"),
        ({"memory_used_bytes": 300 << 20}, "by no process that can be seen here"),
        ({"memory_used_bytes": 2 * GiB, "memory_reserved_bytes": None}, "by no process that can be seen"),
        ({"utilization_percent": 97}, "97 % busy before"),
        ({"recovery_action": "reset"}, "nvidia-smi --gpu-reset"),
        ({"recovery_action": "reboot"}, "reboot of the machine"),
        ({"ecc_uncorrected": 2}, "2 uncorrected memory errors"),
        ({"mig": True}, "MIG"),
        ({"throttle_reasons_load": ("hardware thermal slowdown",)}, "cooling"),
        (
            {"sm_clock_load_mhz": 1200, "throttle_reasons_load": ("application clocks",)},
            "1200 of 1980 MHz (application",
        ),
        (
            {"compute": replace(HEALTHY.compute, median_us=2 * NEEDED_US)},
            "100 % longer than its clock allows",
        ),
        ({"memory": replace(HEALTHY.memory, high_us=4600.0)}, "repeats of the memory loop differ by 15 %"),
    ],
)
def test_what_is_wrong_is_said_once_with_what_to_do(values: dict[str, Any], says: str) -> None:
    texts = [text for text in found(**values) if says in text]
    assert len(texts) == 1, found(**values)
    assert texts[0].startswith("GPU 0: ")


@pytest.mark.parametrize(
    "values",
    [
        {"memory_used_bytes": 200 << 20},
        {"memory_used_bytes": 615 << 20, "memory_reserved_bytes": None},  # the driver's own, on an H200
        {"utilization_percent": 3},
        {"throttle_reasons_load": ("power cap",)},  # a capped GPU at its full clock
        {"sm_clock_load_mhz": 1900},
        {"launch": ReferenceLoop(15.7, 12.0, 40.0, 20, 200)},  # launches are dearer under CC, and uneven
        {"ecc_corrected": 5000},
        {"compute_capability": "99.0"},
    ],
)
def test_what_is_ordinary_is_not_said(values: dict[str, Any]) -> None:
    assert found(**values) == ()


def test_what_is_not_known_is_neither_good_nor_bad() -> None:
    blind = StateCheck(gpus=(GpuState(compute=HEALTHY.compute),))
    assert findings_of(blind) == ()
    (line,) = unknown_of(blind)
    assert "memory in use, other processes, utilization, throttle reasons, clock under load" in line
    texts = dict(gpu_facts(blind.gpus[0]))
    assert texts["SM clock"] == "not known MHz before, not known under load, at most not known"
    assert texts["memory loop"] == "not measured"


@pytest.mark.parametrize(
    ("capability", "lanes"),
    [("7.5", 64), ("8.0", 64), ("8.6", 128), ("9.0", 128), ("10.3", 128), ("12.0", 128)],
)
def test_the_expected_time_follows_the_architecture(capability: str, lanes: int) -> None:
    needed = WORK / (132 * lanes * 1980)
    loop = replace(HEALTHY.compute, median_us=1.5 * needed)
    gpu = replace(HEALTHY, compute_capability=capability, compute=loop)
    assert compute_excess(gpu) == pytest.approx(0.5)


def test_an_unfinished_check_gives_no_all_clear() -> None:
    broken = replace(HEALTHY, missing="cuInit returns CUDA_ERROR_DEVICE_UNAVAILABLE", compute=None)
    facts = check_facts(StateCheck(gpus=(HEALTHY, replace(broken, index=1))))
    assert not [name for name, _ in facts if name == "verdict"]
    assert ("not complete", "GPU 1: cuInit returns CUDA_ERROR_DEVICE_UNAVAILABLE") in facts
