"""Samples GPU counters while a program is recorded.

One line of `counters.jsonl` is one sample of one GPU:
`{"monotonic_ns": 123, "device": 0, "values": {"power_w": 412.5, …}}`. The names are the keys of `COUNTERS`,
which end in their unit. A counter that a GPU does not answer is missing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cctrace.collectors.environment.nvml import Nvml, open_nvml

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
_JOIN_TIMEOUT_S: Final = 2.0


class CounterSampler:
    """A thread of the recorder that appends samples to a file. It touches the recorded program in no way.

    Args:
        path: `counters.jsonl`.
        hz: samples a second, `MIN_HZ` to `MAX_HZ`; 0 samples nothing.
    """

    def __init__(self, path: Path, hz: float) -> None:
        self._path = path
        self._hz = hz
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples = 0
        self._cpu_ns = 0
        self._state = "off"

    def start(self) -> None:
        """Starts the thread. It inherits the caller's signal mask: block what others handle before."""
        if self._hz > 0:
            self._state = "running"
            self._thread = threading.Thread(target=self._run, name="cctrace-counters", daemon=True)
            self._thread.start()

    def stop(self) -> dict[str, Any]:
        """Ends sampling. Returns what it did: state, rate, number of samples, CPU time of one in µs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_TIMEOUT_S)
        return {
            "state": self._state,
            "hz": self._hz,
            "samples": self._samples,
            "cpu_us_per_sample": round(self._cpu_ns / self._samples / 1e3, 1) if self._samples else None,
        }

    def _run(self) -> None:
        try:
            with open_nvml() as nvml:
                readers = [_Reader(nvml, device) for device in nvml.devices()]
                if not readers:
                    self._state = nvml.missing or "no GPU"
                    return
                with self._path.open("a", encoding="utf-8") as file:
                    self._loop(readers, file.write, file.flush)
                self._state = "done"
        except OSError as error:  # a full disk must not end the recorder
            self._state = f"stopped: {error.strerror}"

    def _loop(
        self, readers: list[_Reader], write: Callable[[str], object], flush: Callable[[], object]
    ) -> None:
        period = 1.0 / self._hz
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            cpu_before = time.thread_time_ns()
            for index, reader in enumerate(readers):
                now = time.monotonic_ns()
                values = reader.read(now)
                line = {"monotonic_ns": now, "device": index, "values": values}
                write(json.dumps(line, separators=(",", ":")) + "\n")
            flush()
            self._samples += 1
            self._cpu_ns += time.thread_time_ns() - cpu_before
            due += period
            if due < time.monotonic():
                # Too many GPUs for the rate. Samples without a pause would keep NVML busy all the time.
                due = time.monotonic() + period


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
