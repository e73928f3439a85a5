import json
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cctrace.collectors.environment import sampler
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


def _use(monkeypatch: pytest.MonkeyPatch, nvml: Nvml) -> None:
    @contextmanager
    def opened() -> Any:
        yield nvml

    monkeypatch.setattr(sampler, "open_nvml", opened)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = FakeGpu()
    _use(monkeypatch, Nvml(gpu, None))  # type: ignore[arg-type]
    path = tmp_path / "counters.jsonl"
    counters = CounterSampler(path, 10.0)
    begin = time.monotonic_ns()
    counters.start()
    while not path.exists() or len(path.read_text().splitlines()) < 3:
        assert time.monotonic_ns() - begin < 20e9
        time.sleep(0.02)
    report = counters.stop()
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


def test_no_nvml_is_a_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, Nvml(None, "NVML does not start"))
    counters = CounterSampler(tmp_path / "counters.jsonl", 5.0)
    counters.start()
    report = counters.stop()
    assert report == {"state": "NVML does not start", "hz": 5.0, "samples": 0, "cpu_us_per_sample": None}
    assert not (tmp_path / "counters.jsonl").exists()


def test_no_rate_means_no_thread(tmp_path: Path) -> None:
    counters = CounterSampler(tmp_path / "counters.jsonl", 0.0)
    counters.start()
    assert counters.stop()["state"] == "off"


def test_a_full_disk_does_not_end_the_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, Nvml(FakeGpu(), None))  # type: ignore[arg-type]
    counters = CounterSampler(Path("/dev/full"), 10.0)
    counters.start()
    time.sleep(0.2)
    assert counters.stop()["state"] == "stopped: No space left on device"
