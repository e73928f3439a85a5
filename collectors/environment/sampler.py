"""Samples GPU counters while a program is recorded.

One line of `counters.jsonl` is one sample of one GPU:
`{"monotonic_ns": 123, "device": 0, "values": {"power_w": 412.5, …}}`. The names are the keys of `COUNTERS`,
which end in their unit. A counter that a GPU does not answer is missing.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from cctrace.collectors.environment.nvml import Nvml

COUNTERS: Final = {
    "gpu_utilization_percent": "time in which a kernel ran, over NVML's last period",
    "memory_utilization_percent": "time in which device memory was read or written, over NVML's last period",
    "sm_clock_mhz": "clock of the SMs",
    "memory_clock_mhz": "clock of the device memory",
    "power_w": "power drawn",
    "memory_used_bytes": "device memory in use, by anybody",
    "pcie_tx_kib_per_s": "sent by the GPU over PCIe, over NVML's period of 20 ms",
    "pcie_rx_kib_per_s": "received by the GPU over PCIe, over NVML's period of 20 ms",
    "nvlink_tx_kib_per_s": "data sent over all NVLinks since the sample before",
    "nvlink_rx_kib_per_s": "data received over all NVLinks since the sample before",
}
"""Counter → meaning."""

MIN_HZ: Final = 1.0
MAX_HZ: Final = 10.0
"""A PCIe reading takes NVML about 20 ms, twice a sample and GPU: more than 10 samples a second do not fit."""
DEFAULT_HZ: Final = 1.0

_ALL_LINKS: Final = 0xFFFFFFFF  # NVML: the sum over all links


class CounterSampler:
    """Appends samples of all GPUs to a file, when asked to and at a steady rate.

    Args:
        nvml: an open NVML.
        path: `counters.jsonl`.
        hz: samples a second, `MIN_HZ` to `MAX_HZ`.
    """

    def __init__(self, nvml: Nvml, path: Path, hz: float) -> None:
        self._path = path
        self._hz = hz
        self._readers = [_Reader(nvml, device) for device in nvml.devices()]
        self._file: TextIO | None = None
        self._due_s = time.monotonic()
        self._samples = 0
        self._cpu_ns = 0
        self._stopped = None if self._readers else nvml.missing or "no GPU"

    def wait_s(self) -> float | None:
        """Returns the seconds until the next sample is due; None if there will be none."""
        return None if self._stopped else max(0.0, self._due_s - time.monotonic())

    def sample(self) -> None:
        """Takes one sample. A full disk ends the sampling and nothing else."""
        cpu_before = time.thread_time_ns()
        try:
            if self._file is None:
                self._file = self._path.open("a", encoding="utf-8")
            for index, reader in enumerate(self._readers):
                now = time.monotonic_ns()
                line = {"monotonic_ns": now, "device": index, "values": reader.read(now)}
                self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError as error:
            self._stopped = f"stopped: {error.strerror}"
            return
        self._samples += 1
        self._cpu_ns += time.thread_time_ns() - cpu_before
        # With too many GPUs for the rate, samples without a pause would keep NVML busy all the time.
        period_s = 1.0 / self._hz
        self._due_s += period_s
        if self._due_s < time.monotonic():
            self._due_s = time.monotonic() + period_s

    def finish(self) -> dict[str, Any]:
        """Closes the file. Returns what was done; see `sampling_report`."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        cpu_us = round(self._cpu_ns / self._samples / 1e3, 1) if self._samples else None
        return sampling_report(self._stopped or "done", self._hz, self._samples, cpu_us)


def sampling_report(
    state: str, hz: float, samples: int | None, cpu_us_per_sample: float | None = None
) -> dict[str, Any]:
    """Returns the metadata about the counters.

    Args:
        state: done, off, or why there are none or no more.
        hz: samples a second that were asked for.
        samples: samples taken; None if that is not known.
        cpu_us_per_sample: CPU time of one sample of all GPUs.
    """
    return {"state": state, "hz": hz, "samples": samples, "cpu_us_per_sample": cpu_us_per_sample}


class _Reader:
    """Reads the counters of one GPU; what it refuses once is not asked again."""

    def __init__(self, nvml: Nvml, device: Any) -> None:
        self._nvml = nvml
        self._device = device
        self._refused: set[str] = set()
        self._nvlink: dict[str, tuple[int, int]] = {}

    def read(self, now_ns: int) -> dict[str, float]:
        nvml = self._nvml
        values: dict[str, Any] = {}
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        if utilization is not None:
            values["gpu_utilization_percent"] = utilization.gpu
            values["memory_utilization_percent"] = utilization.memory
        values["sm_clock_mhz"] = self._ask("nvmlDeviceGetClockInfo", nvml.constant("NVML_CLOCK_SM"))
        values["memory_clock_mhz"] = self._ask("nvmlDeviceGetClockInfo", nvml.constant("NVML_CLOCK_MEM"))
        power = self._ask("nvmlDeviceGetPowerUsage")
        values["power_w"] = None if power is None else power / 1e3
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        values["memory_used_bytes"] = None if memory is None else int(memory.used)
        for key, constant in (("tx", "NVML_PCIE_UTIL_TX_BYTES"), ("rx", "NVML_PCIE_UTIL_RX_BYTES")):
            values[f"pcie_{key}_kib_per_s"] = self._ask(
                "nvmlDeviceGetPcieThroughput", nvml.constant(constant)
            )
        values.update(self._nvlink_rates(now_ns))
        return {name: value for name, value in values.items() if value is not None}

    def _ask(self, name: str, *arguments: Any) -> Any:
        key = f"{name}{arguments}"
        if key in self._refused:
            return None
        answer = self._nvml.ask(name, self._device, *arguments)
        if answer is None:
            self._refused.add(key)
        return answer

    def _nvlink_rates(self, now_ns: int) -> Mapping[str, float]:
        """NVLink counters only grow; a rate needs two readings."""
        rates: dict[str, float] = {}
        for key, constant in (
            ("tx", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
            ("rx", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
        ):
            field = self._nvml.constant(constant)
            answers = (
                self._ask("nvmlDeviceGetFieldValues", ((field, _ALL_LINKS),)) if field is not None else None
            )
            if not answers or answers[0].nvmlReturn != 0:
                continue
            total = int(answers[0].value.ullVal)
            before = self._nvlink.get(key)
            self._nvlink[key] = (now_ns, total)
            if before is not None and now_ns > before[0] and total >= before[1]:
                rates[f"nvlink_{key}_kib_per_s"] = round(
                    (total - before[1]) / ((now_ns - before[0]) / 1e9), 3
                )
        return rates
