"""A calibration from beginning to end."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from typing_extensions import override

from cctrace.collectors.calibrate import collectives
from cctrace.collectors.calibrate.driver import CudaDevice, Driver
from cctrace.collectors.calibrate.interface import Device
from cctrace.collectors.calibrate.peers import peer_probes, reachable
from cctrace.collectors.calibrate.probes import probes
from cctrace.collectors.calibrate.result import STATES, Calibration, CcState, Gpu
from cctrace.collectors.calibrate.sampling import Clock, Collected, Effort, Quantity, Samples, collect
from cctrace.collectors.calibrate.timing import no_collector
from cctrace.collectors.cuda import CudaError
from cctrace.collectors.environment.isolated import take_snapshot
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.errors import UnusableInputError

EMULATION_VARIABLE: Final = "CCTRACE_EMULATE"
NVLS_VARIABLE: Final = "NCCL_NVLS_ENABLE"

_NUMBER: Final = re.compile(r"[0-9]{1,4}")

PEER_LIMIT_S: Final = 10.0
"""Of transfers between GPUs: there are fewer of them than of everything else."""

Progress = Callable[[int, int], None]
ShowProgress = Callable[[str], contextlib.AbstractContextManager[Progress | None]]
"""Opens a progress bar with a title."""


class Machine(Protocol):
    """The GPUs of a machine; a test brings its own.

    Attributes:
        count: number of GPUs.
        cuda_version: CUDA version of the driver.
    """

    count: int
    cuda_version: str

    def opened(self, indices: Sequence[int]) -> contextlib.AbstractContextManager[list[Device]]:
        """Opens GPUs for as long as the context lasts."""

    def collectives(self, indices: Sequence[int], effort: Effort) -> collectives.CollectiveResult:
        """Measures collectives over some GPUs; see `collectives.measure`."""


class CudaMachine(Machine):
    """The machine that this process runs on."""

    def __init__(self) -> None:
        self._driver = Driver()
        self.count = self._driver.count
        self.cuda_version = self._driver.cuda_version

    @override
    @contextlib.contextmanager
    def opened(self, indices: Sequence[int]) -> Iterator[list[Device]]:
        with contextlib.ExitStack() as stack:
            devices: list[Device] = []
            for index in indices:
                device = CudaDevice(self._driver, index)
                stack.callback(device.close)
                devices.append(device)
            yield devices

    @override
    def collectives(self, indices: Sequence[int], effort: Effort) -> collectives.CollectiveResult:
        return collectives.measure(indices, effort)


@dataclass(frozen=True)
class Request:
    """What is wanted.

    Attributes:
        device: number of the GPU, or "all"; None: the first GPU, and transfers between all that are visible.
        effort: how much is measured.
        cc: state of CC where NVML does not say it; None: as NVML says.

    Raises:
        UnusableInputError: `device` is neither.
    """

    device: str | None
    effort: Effort
    cc: str | None = None

    def __post_init__(self) -> None:
        if self.device is not None and self.device != "all" and not _NUMBER.fullmatch(self.device):
            raise UnusableInputError(f"--device {self.device}: give the number of a GPU, or all")


def calibrate(
    request: Request,
    machine: Machine,
    show: ShowProgress,
    *,
    environment: Mapping[str, str] = os.environ,
    clock: Clock = time.perf_counter_ns,
    look: Callable[[], Snapshot] = take_snapshot,
) -> Calibration:
    """Measures this machine.

    Args:
        request: what is wanted.
        machine: its GPUs.
        show: opens a progress bar.
        environment: environment of this process.
        clock: nanoseconds of a monotonic clock.
        look: tells the state of the machine.

    Raises:
        UnusableInputError: there is no such GPU, or `cc` contradicts NVML.
        CudaError: the driver refuses a call that has to work.
    """
    alone, linked = chosen(request.device, machine.count)
    snapshot = look()
    emulated = environment.get(EMULATION_VARIABLE) or None
    cc = _state(request.cc, snapshot.confidential.cc_mode, emulated)
    measuring = _Measuring(machine, request.effort, clock, show, environment)
    gpus = [measuring.alone(index) for index in alone]
    rounds = min(part.rounds for part in measuring.parts)
    if rounds < request.effort.rounds:
        measuring.notes.append(f"{rounds} of {request.effort.rounds} rounds: one takes long here")
    nccl = measuring.together(linked)
    samples = _pooled([part.samples for part in measuring.parts])
    return Calibration(
        gpus=tuple(gpus),
        visible=machine.count,
        linked=len(linked) if any(quantity.cause == "nvlink" for quantity in samples) else 0,
        cc=cc,
        emulated=emulated,
        cuda=machine.cuda_version,
        nccl=nccl,
        snapshot=snapshot,
        samples=samples,
        bare=_pooled([part.bare for part in measuring.parts]),
        rounds=rounds,
        notes=tuple(measuring.notes),
    )


def chosen(device: str | None, count: int) -> tuple[list[int], list[int]]:
    """Returns the GPUs that are measured by themselves, and those between which transfers are measured.

    Raises:
        UnusableInputError: there is no such GPU.
    """
    every = list(range(count))
    if device is None:
        return [0], every
    if device == "all":
        return every, every
    if int(device) >= count:
        raise UnusableInputError(f"--device {device}: give a number from 0 to {count - 1}, or all")
    return [int(device)], [int(device)]


def _state(said: str | None, known: str | None, emulated: str | None) -> CcState:
    if said is not None and emulated is not None:
        raise UnusableInputError(f"--cc {said}: under `record --emulate` the state is emulated")
    if said is not None and known is not None and known != said:
        raise UnusableInputError(f"--cc {said}: NVML says that CC is {known}")
    state = "emulated" if emulated is not None else said or known or "unknown"
    if state not in STATES:
        raise UnusableInputError(f"--cc {state}: give on, off or devtools")
    return STATES[state]


class _Measuring:
    """What is measured one after the other: each GPU by itself, then the GPUs together."""

    def __init__(
        self,
        machine: Machine,
        effort: Effort,
        clock: Clock,
        show: ShowProgress,
        environment: Mapping[str, str],
    ) -> None:
        self._machine = machine
        self._effort = effort
        self._clock = clock
        self._show = show
        self._environment = environment
        self.parts: list[Collected] = []
        self.notes: list[str] = []

    def alone(self, index: int) -> Gpu:
        """Measures one GPU by itself and returns what it says of itself."""
        with self._machine.opened([index]) as [device], self._show(device.name) as progress:
            with no_collector():
                found = probes(device, self._effort, self._clock)
                self.parts.append(collect(found, self._effort, self._clock, progress))
            return Gpu(
                device.index,
                device.name,
                device.multicast(),
                device.pinned_reported_pinned(),
                device.host_register_error(),
            )

    def together(self, indices: Sequence[int]) -> str | None:
        """Measures transfers between GPUs; returns the version of NCCL if it was used."""
        if len(indices) < 2:
            why = "--device names one GPU" if self._machine.count > 1 else "one GPU is visible"
            self.notes.append(f"transfers between GPUs: not measured, {why}")
            return None
        try:
            self._copies_between(indices)
        except CudaError as error:
            self.notes.append(f"copies between GPUs: not measured: {error}")
        with self._show("collectives"):
            found = self._machine.collectives(indices, self._effort)
        self.parts.append(Collected(found.samples, {}, 0, 0))
        if found.missing is not None:
            self.notes.append(f"collectives: not measured: {found.missing}")
            return None
        setting = self._environment.get(NVLS_VARIABLE)
        nvls = f"{NVLS_VARIABLE}={setting}" if setting else f"{NVLS_VARIABLE} not set"
        self.notes.append(
            f"collectives: NCCL {found.version} over {len(indices)} GPUs of one process, {nvls}"
        )
        return found.version

    def _copies_between(self, indices: Sequence[int]) -> None:
        shorter = replace(self._effort, limit_s=min(self._effort.limit_s, PEER_LIMIT_S))
        with self._machine.opened(indices) as devices, self._show("between GPUs") as progress:
            first, others = devices[0], reachable(devices)
            if not others:
                self.notes.append(f"copies between GPUs: GPU {first.index} reaches no other GPU's memory")
                return
            names = ", ".join(str(other.index) for other in others)
            pooled = ", all pairs pooled" if len(others) > 1 else ""
            self.notes.append(f"copies between GPUs: GPU {first.index} with {names}{pooled}")
            with no_collector():
                found = peer_probes(first, others, shorter, self._clock)
                self.parts.append(collect(found, shorter, self._clock, progress))


def _pooled(parts: Sequence[Samples]) -> Samples:
    pooled: defaultdict[Quantity, list[float]] = defaultdict(list)
    for part in parts:
        for quantity, samples in part.items():
            pooled[quantity].extend(samples)
    return dict(pooled)
