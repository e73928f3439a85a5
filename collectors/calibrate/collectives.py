"""Collectives over all GPUs, measured in a process of its own.

NCCL writes to stdout when it is asked to, and hangs where GPUs only seem to reach each other; neither may
happen to the command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from cctrace.collectors.calibrate import nccl
from cctrace.collectors.calibrate.driver import CudaDevice, Driver
from cctrace.collectors.calibrate.sampling import (
    Clock,
    Effort,
    Probe,
    Quantity,
    Samples,
    Turn,
    collect,
    sizes,
)
from cctrace.collectors.calibrate.timing import no_collector
from cctrace.errors import CctraceError

SMALLEST_BYTES: Final = 1 << 10
LARGEST_BYTES: Final = 256 << 20
"""Ring algorithms over eight GPUs reach their bandwidth only here."""
LARGE_BYTES: Final = 16 << 20
"""From here on a collective outlasts its submission by far, and its time is that of more of them in a row."""
MORE: Final = 4
WARM_UPS: Final = 5
"""The first collective of a size opens connections."""

LIMIT_S: Final = 15.0
"""Of measuring. NCCL's start takes one to ten seconds more."""
PATIENCE_S: Final = 60.0
"""So long the process may take beyond `LIMIT_S`."""

_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


class Collectives(Protocol):
    """Submits collectives over all GPUs, and waits for them."""

    def all_reduce(self, size: int) -> None:
        """Submits a sum of `size` bytes of each rank."""

    def all_to_all(self, size: int) -> None:
        """Submits an exchange of `size` bytes of each rank."""

    def wait(self) -> None:
        """Waits for all streams."""


@dataclass(frozen=True)
class CollectiveResult:
    """What was measured.

    Attributes:
        samples: quantity → nanoseconds.
        version: of NCCL; None if it could not be used.
        missing: why nothing was measured; None if something was.
    """

    samples: Samples
    version: str | None = None
    missing: str | None = None


def measure(gpus: Sequence[int], effort: Effort) -> CollectiveResult:
    """Measures all-reduce and all-to-all over some GPUs; what goes wrong is in the result, never raised."""
    request = json.dumps({"gpus": list(gpus), "effort": asdict(replace(effort, limit_s=LIMIT_S))})
    program = _PROGRAM.format(path=sys.path, module=__name__)
    limit_s = min(effort.limit_s, LIMIT_S) + PATIENCE_S
    try:
        done = subprocess.run(  # noqa: S603 - our own program in our own interpreter
            [sys.executable, "-c", program, request],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CollectiveResult({}, missing=f"NCCL did not come to an end within {limit_s:g} s")
    except OSError as error:
        return CollectiveResult({}, missing=f"the process that runs NCCL cannot be started ({error})")
    return _result(done.stdout, done.returncode)


def _result(output: bytes, code: int) -> CollectiveResult:
    try:
        answer = json.loads(output)
        samples = {Quantity(*quantity): samples for quantity, samples in answer["samples"]}
        return CollectiveResult(samples, answer["version"], answer["missing"])
    except (ValueError, KeyError, TypeError):
        return CollectiveResult({}, missing=f"the process that runs NCCL ended with code {code}, no result")


def main() -> None:
    """Runs in the process of its own: a request as the only argument, an answer on stdout."""
    answer = _answers()
    request = json.loads(sys.argv[1])
    try:
        result = _run(request["gpus"], Effort(**request["effort"]))
    except CctraceError as error:
        result = CollectiveResult({}, missing=str(error))
    samples = [[list(quantity), list(numbers)] for quantity, numbers in result.samples.items()]
    answer({"samples": samples, "version": result.version, "missing": result.missing})


def _answers() -> Callable[[Any], None]:
    """Returns the function that answers; what NCCL writes to stdout goes to stderr."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(document: Any) -> None:
        stream.write(json.dumps(document))
        stream.flush()

    return answer


def _run(gpus: Sequence[int], effort: Effort) -> CollectiveResult:
    driver = Driver()
    devices = [CudaDevice(driver, index, LARGEST_BYTES) for index in gpus]
    library = nccl.Nccl(nccl.find(), gpus)
    collected = collect(
        probes(_NcclCollectives(library, driver, devices), effort, time.perf_counter_ns),
        effort,
        time.perf_counter_ns,
    )
    library.close()
    return CollectiveResult(collected.samples, library.version)


def probes(collectives: Collectives, effort: Effort, clock: Clock) -> list[Probe]:
    """Returns what is measured: both collectives by bytes of one rank.

    Small ones take the time from the call to the end. Of those from `LARGE_BYTES` on, one and 1 + `MORE` in a
    row are timed and the difference taken, so that neither submission nor wait is in it.
    """
    kinds = (("all_reduce_us", collectives.all_reduce), ("all_to_all_us", collectives.all_to_all))
    found: list[Probe] = []
    for size in sizes(SMALLEST_BYTES, LARGEST_BYTES, effort.size_step):
        for key, submit in kinds:
            quantity = Quantity("nvlink", key, size)
            for _ in range(WARM_UPS):
                submit(size)
            collectives.wait()
            found.append(partial(_turn, collectives, effort, clock, quantity, partial(submit, size)))
    return found


def _turn(
    collectives: Collectives, effort: Effort, clock: Clock, quantity: Quantity, submit: Callable[[], None]
) -> Turn:
    def timed(times: int) -> int:
        begin = clock()
        for _ in range(times):
            submit()
        collectives.wait()
        return clock() - begin

    samples: list[float] = []
    with no_collector():
        for _ in range(max(2, effort.singles // 4)):
            single = timed(1)
            large = quantity.bytes is not None and quantity.bytes >= LARGE_BYTES
            samples.append(max(0, timed(1 + MORE) - single) / MORE if large else single)
    return Turn({quantity: samples})


class _NcclCollectives:
    """NCCL over the buffers and streams of some GPUs."""

    def __init__(self, library: nccl.Nccl, driver: Driver, devices: Sequence[CudaDevice]) -> None:
        self._library = library
        self._driver = driver
        self._streams = [device.stream for device in devices]
        self._handles = [int(stream) for stream in self._streams]
        self._sources = [int(device.buffer) for device in devices]
        self._targets = []
        for device in devices:
            device.activate()
            self._targets.append(int(device.second))

    def all_reduce(self, size: int) -> None:
        self._library.all_reduce(self._sources, self._targets, size, self._handles)

    def all_to_all(self, size: int) -> None:
        self._library.all_to_all(self._sources, self._targets, size, self._handles)

    def wait(self) -> None:
        for stream in self._streams:
            self._driver.call("cuStreamSynchronize", stream)
