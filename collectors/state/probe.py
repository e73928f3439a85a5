"""The helper process of the state check: NVML and CUDA run here, and leave nothing behind when it ends.

It writes JSON documents, one a line: `{"gpu": {…}}` with a `GpuState`, twice for each GPU (before the loops,
and complete), then `{"done": true}`; `{"missing": "…"}` says why no loop can run. Whatever happens on the
way, the lines before it count.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from cctrace.collectors.cuda import CudaError
from cctrace.collectors.environment.gpus import bus_key
from cctrace.collectors.environment.nvml import Nvml, open_nvml
from cctrace.collectors.environment.probe import answers
from cctrace.collectors.environment.variables import visible_gpus
from cctrace.collectors.state import loops, readings
from cctrace.collectors.state.driver import Cuda, CudaDevice, Gpu

Answer = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Runs the helper; argument: seconds after which it ends itself, should nobody else do so."""
    # The alarm ends the process even from within a call of the driver that never returns.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
    with contextlib.suppress(OSError, ValueError):  # a crash of the driver leaves no file behind
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    answer = answers()
    with open_nvml() as nvml:
        check(nvml, answer)


def check(nvml: Nvml, answer: Answer) -> None:
    """Checks all GPUs that are visible, at the same time. The state before comes before CUDA is touched."""
    handles = readings.gpus_by_bus(nvml)
    states = readings.before(nvml, handles)
    try:
        cuda = Cuda()
        devices = cuda.devices()
    except CudaError as error:
        for index, state in enumerate(_visible(list(states.values()))):
            answer({"gpu": {"index": index, **state}})
        answer({"missing": str(error)})
        return
    checks = []
    for index, device in enumerate(devices):
        key = bus_key(device.bus)
        state = {**states.get(key, {}), "index": index, **_description(device)}
        checks.append(_GpuCheck(cuda, device, nvml, handles.get(key), state))
    for one in checks:
        answer({"gpu": one.state})
    if checks:
        turn = threading.Lock()
        with ThreadPoolExecutor(max_workers=len(checks)) as pool:
            # As they end: one GPU that hangs must not hide what the others have said.
            for ended in as_completed([pool.submit(one.run, turn) for one in checks]):
                answer({"gpu": ended.result()})
    answer({"done": True})


def _visible(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those GPUs of a machine whose CUDA is missing that the program could see if it were there."""
    names = visible_gpus(os.environ, len(states))
    if names is None:
        return states
    by_index = {str(index): state for index, state in enumerate(states)}
    return [
        state
        for name in names
        for state in ([by_index[name]] if name in by_index else states)
        if name in by_index or str(state.get("uuid", "")).startswith(name)
    ]


def _description(device: CudaDevice) -> dict[str, Any]:
    return {
        "name": device.name,
        "compute_capability": device.compute_capability,
        "multiprocessors": device.multiprocessors,
    }


@dataclass(eq=False)
class _GpuCheck:
    """The check of one GPU.

    Attributes:
        handle: NVML's; None if NVML does not know the GPU.
        state: its document, which grows.
    """

    cuda: Cuda
    device: CudaDevice
    nvml: Nvml
    handle: Any
    state: dict[str, Any]

    def run(self, turn: threading.Lock) -> dict[str, Any]:
        """Runs the loops; what fails is said in the document, and the rest stays."""
        try:
            with self.cuda.opened(self.device) as gpu:
                self._run_loops(gpu, turn)
        except CudaError as error:
            self.state["missing"] = str(error)
        return self.state

    def _run_loops(self, gpu: Gpu, turn: threading.Lock) -> None:
        self.state["compute"] = loops.compute_loop(gpu, self._read_load)
        try:
            self.state["memory"] = loops.memory_loop(gpu)
        except loops.MemoryShortError as error:
            self.state["missing"] = str(error)
        self.state["launch"] = loops.launch_loop(gpu, alone=turn)

    def _read_load(self) -> None:
        if self.handle is not None:
            self.state.update(readings.under_load(self.nvml, self.handle))
