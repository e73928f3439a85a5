import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cctrace.collectors.environment.nvml import Nvml
from cctrace.collectors.environment.sampler import COUNTERS, CounterSampler


class NvmlError(Exception):
    pass


class FakeGpu:
    """NVML of one GPU whose NVLink counters grow by 2048 KiB a reading, and which refuses its power."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139

    def __init__(self) -> None:
        self.power_calls = 0
        self.nvlink = {138: 0, 139: 0}

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"gpu{index}"

    def nvmlDeviceGetUtilizationRates(self, _: object) -> Any:
        return SimpleNamespace(gpu=97, memory=31)

    def nvmlDeviceGetClockInfo(self, _: object, which: int) -> int:
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetPowerUsage(self, _: object) -> int:
        self.power_calls += 1
        raise NvmlError("Not Supported")

    def nvmlDeviceGetMemoryInfo(self, _: object) -> Any:
        return SimpleNamespace(used=10 << 30, total=140 << 30)

    def nvmlDeviceGetPcieThroughput(self, _: object, which: int) -> int:
        return 100 + which

    def nvmlDeviceGetFieldValues(self, _: object, fields: Any) -> Any:
        field, scope = fields[0]
        assert scope == 0xFFFFFFFF
        self.nvlink[field] += 2048
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=self.nvlink[field]))]


def _sampler(path: Path, gpu: FakeGpu | None = None) -> CounterSampler:
    return CounterSampler(Nvml(gpu or FakeGpu(), None), path, 10.0)  # type: ignore[arg-type]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_samples(tmp_path: Path) -> None:
    gpu = FakeGpu()
    path = tmp_path / "counters.jsonl"
    begin = time.monotonic_ns()
    counters = _sampler(path, gpu)
    for _ in range(3):
        wait_s = counters.wait_s()
        assert wait_s is not None
        time.sleep(wait_s)
        counters.sample()
    assert len(_lines(path)) == 3, "each sample is on disk before the next one"
    report = counters.finish()
    lines = _lines(path)
    assert report["state"] == "done"
    assert report["samples"] == len(lines)
    assert report["cpu_us_per_sample"] > 0
    assert begin <= lines[0]["monotonic_ns"] < lines[1]["monotonic_ns"]
    assert lines[0]["device"] == 0
    assert lines[0]["values"] == {
        "gpu_utilization_percent": 97,
        "memory_utilization_percent": 31,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "memory_used_bytes": 10 << 30,
        "pcie_tx_kib_per_s": 100,
        "pcie_rx_kib_per_s": 101,
    }
    assert gpu.power_calls == 1, "what is refused once is not asked again"
    seconds = (lines[1]["monotonic_ns"] - lines[0]["monotonic_ns"]) / 1e9
    assert lines[1]["values"]["nvlink_tx_kib_per_s"] == pytest.approx(2048 / seconds, rel=1e-3)
    assert set(lines[1]["values"]) <= set(COUNTERS)
    assert lines[2]["monotonic_ns"] - lines[0]["monotonic_ns"] >= 0.19e9


def test_a_sample_that_lasts_longer_than_its_period_is_followed_by_a_pause(tmp_path: Path) -> None:
    gpu = FakeGpu()
    gpu.nvmlDeviceGetUtilizationRates = lambda _: time.sleep(0.15)  # type: ignore[method-assign]
    counters = _sampler(tmp_path / "counters.jsonl", gpu)
    counters.sample()
    wait_s = counters.wait_s()
    assert wait_s is not None
    assert 0.08 < wait_s <= 0.1


def test_no_nvml_is_a_state(tmp_path: Path) -> None:
    counters = CounterSampler(Nvml(None, "NVML does not start"), tmp_path / "counters.jsonl", 5.0)
    assert counters.wait_s() is None
    assert counters.finish() == {
        "state": "NVML does not start",
        "hz": 5.0,
        "samples": 0,
        "cpu_us_per_sample": None,
    }
    assert not (tmp_path / "counters.jsonl").exists()


def test_a_full_disk_ends_the_sampling_and_nothing_else() -> None:
    counters = _sampler(Path("/dev/full"))
    counters.sample()
    assert counters.wait_s() is None
    assert counters.finish()["state"] == "stopped: No space left on device"
