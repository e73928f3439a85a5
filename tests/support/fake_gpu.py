"""A GPU with known costs and a clock that only its calls move: what a calibration has to find is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from typing_extensions import override

from cctrace.collectors.calibrate.collectives import CollectiveResult
from cctrace.collectors.calibrate.interface import Call, Device, Direction, Memory, Submission, Transfer
from cctrace.collectors.calibrate.profile import to_profile
from cctrace.collectors.calibrate.result import Calibration
from cctrace.collectors.calibrate.sampling import QUICK, Effort, Quantity
from cctrace.collectors.calibrate.session import Machine, Progress, Request, calibrate
from cctrace.collectors.cuda import CudaError
from cctrace.collectors.environment.confidential import ConfidentialState
from cctrace.collectors.environment.machine import Machine as Host
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.profiles.model import Profile

SUCCESS = 0
ANYTHING = 7
"""What a function that does nothing returns."""


class Clock:
    """Nanoseconds; `drift` makes everything slower by this share for each second that passes."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now = 0.0
        self._drift = drift

    def __call__(self) -> int:
        return round(self.now)

    def spend(self, us: float) -> None:
        self.now += us * 1e3 * (1 + self._drift * self.now * 1e-9)


@dataclass(frozen=True)
class Costs:
    """Microseconds of the host for each call, without what calling from Python costs (`binding`); and what
    the GPU then takes."""

    kernel: float = 3.45
    graph: float = 3.7
    copy: float = 2.2
    memset: float = 2.5
    event: float = 1.1
    sync: float = 1.62
    node_on_gpu: float = 1.0
    latency: float = 5.0
    bytes_per_us: float = 54_600.0
    staging_bytes_per_us: float = 9_000.0
    encryption_bytes_per_us: float = 0.0
    binding: float = 0.4
    allocation: float = 20.0
    peer: float = 3.7
    peer_bytes_per_us: float = 300_000.0
    pinned_blocks: bool = False
    pinned_reported: bool = True
    register_error: int = 0


OFF = Costs()
ON = Costs(
    kernel=15.7,
    graph=15.95,
    copy=14.45,
    memset=14.75,
    sync=1.67,
    encryption_bytes_per_us=9_500.0,
    allocation=900.0,
    peer=14.5,
    peer_bytes_per_us=260_000.0,
    pinned_blocks=True,
    pinned_reported=False,
    register_error=801,
)
"""As `OFF` with the published tolls."""


@dataclass
class FakeDevice(Device):
    """One GPU whose stream works off what was submitted, in order."""

    clock: Clock
    costs: Costs = OFF
    index: int = 0
    name: str = "NVIDIA Fake H200"
    peers: Sequence[int] = (0, 1, 2, 3)
    fails: str | None = None
    free_at: float = 0.0
    queue: list[float] = field(default_factory=list)
    deepest: int = 0
    unchecked: int = 0

    def _host(self, us: float) -> None:
        self.clock.spend(us + self.costs.binding)

    def _work(self, us: float) -> None:
        """Puts work of so many microseconds behind what the stream has to do."""
        self.queue = [end for end in self.queue if end > self.clock.now]
        self.free_at = max(self.free_at, self.clock.now) + us * 1e3
        self.queue.append(self.free_at)
        self.deepest = max(self.deepest, len(self.queue))

    def _submit(self, kind: str, host_us: float, gpu_us: float) -> int:
        self._host(host_us)
        if self.fails == kind:
            return 719
        self._work(gpu_us)
        return SUCCESS

    def _nothing(self) -> int:
        self._host(0.0)
        return ANYTHING

    def _submission(self, call: Call) -> Submission:
        return Submission(call, self._nothing)

    @override
    def activate(self) -> None:
        pass

    @override
    def check(self, codes: Iterable[int]) -> None:
        for code in codes:
            if code != SUCCESS:
                raise CudaError(f"the CUDA driver refused a call: {code}")

    @override
    def kernel(self) -> Submission:
        call = partial(self._submit, "kernel", self.costs.kernel, self.costs.node_on_gpu)
        return self._submission(call)

    @override
    def graph(self, nodes: int) -> Submission:
        call = partial(self._submit, "graph", self.costs.graph, nodes * self.costs.node_on_gpu)
        return self._submission(call)

    @override
    def memset(self) -> Submission:
        call = partial(self._submit, "memset", self.costs.memset, self.costs.node_on_gpu)
        return self._submission(call)

    @override
    def event(self) -> Submission:
        call = partial(self._submit, "event", self.costs.event, 0.1)
        return self._submission(call)

    def _wait(self) -> int:
        # Looking once more costs the same, whether or not there was something to wait for.
        waited = max(0.0, self.free_at - self.clock.now)
        self.clock.now += waited
        self._host(self.costs.sync)
        return SUCCESS

    @override
    def synchronize(self) -> Submission:
        return self._submission(self._wait)

    @override
    def copy(self, direction: Direction, memory: Memory, size: int) -> Submission:
        call = partial(self._copy, direction, memory, size)
        return self._submission(call)

    def _copy(self, direction: Direction, memory: Memory, size: int) -> int:
        costs = self.costs
        if direction == "d2d":
            return self._submit("copy", costs.copy, costs.node_on_gpu + size / 1e6)
        self._host(costs.copy)
        transfer = costs.latency + size / costs.bytes_per_us
        if memory == "pageable":
            transfer += size / costs.staging_bytes_per_us
        if costs.encryption_bytes_per_us:
            transfer += size / costs.encryption_bytes_per_us
        self._work(transfer)
        if memory == "pageable" or costs.pinned_blocks:
            self.clock.now = max(self.clock.now, self.free_at)
        return SUCCESS

    @override
    def occupy(self, us: float) -> Call:
        return partial(self._submit, "kernel", self.costs.kernel, us)

    @override
    def host_allocation(self, size: int) -> tuple[Submission, Callable[[], None]]:
        def allocate() -> int:
            self._host(self.costs.allocation)
            return SUCCESS

        return self._submission(allocate), lambda: None

    @override
    def pinned_reported_pinned(self) -> bool:
        return self.costs.pinned_reported

    @override
    def host_register_error(self) -> int:
        return self.costs.register_error

    @override
    def multicast(self) -> bool:
        return not self.costs.pinned_blocks

    @override
    def reaches(self, other: int) -> bool:
        return other in self.peers

    def _peer_us(self, size: int) -> float:
        return self.costs.peer + size / self.costs.peer_bytes_per_us

    @override
    def peer_chain(self, other: Device, size: int, links: int, how: Transfer) -> Call:
        return partial(self._submit, "peer", self.costs.graph, links * self._peer_us(size))


class FakeMachine(Machine):
    """GPUs of one kind."""

    def __init__(self, costs: Costs = OFF, count: int = 1, *, drift: float = 0.0, **options: object) -> None:
        self.count = count
        self.cuda_version = "13.0"
        self.clock = Clock(drift)
        self.devices = [
            FakeDevice(self.clock, costs, index, **options)  # type: ignore[arg-type]
            for index in range(count)
        ]
        self.collectives_of: list[list[int]] = []

    @override
    @contextlib.contextmanager
    def opened(self, indices: Sequence[int]) -> Iterator[list[Device]]:
        yield [self.devices[index] for index in indices]

    @override
    def collectives(self, indices: Sequence[int], effort: Effort) -> CollectiveResult:
        self.collectives_of.append(list(indices))
        us = (256 << 20) / self.devices[0].costs.peer_bytes_per_us
        quantities = [Quantity("nvlink", key, 256 << 20) for key in ("all_reduce_us", "all_to_all_us")]
        return CollectiveResult({quantity: [us * 1e3] * 3 for quantity in quantities}, "2.28.9")


def snapshot(cc: str | None = "off", *, driver: str = "580.1", cpu: str = "Fake CPU") -> Snapshot:
    """A guest with TDX."""
    host = Host(
        cpu_model=cpu,
        cpus=16,
        sockets=1,
        memory_bytes=1 << 36,
        virtual_machine="QEMU",
        container=None,
        tee="tdx",
        tee_evidence="the CPU flag tdx_guest",
        numa={"0": "0-15"},
        kernel="6.8.0",
        distribution="Ubuntu",
        driver_kind="open",
    )
    state = ConfidentialState(cc_mode=cc, nvlink_encryption=cc)
    return Snapshot(host, state, None, (), (), driver, "13.0", None)


@contextlib.contextmanager
def unseen(_title: str) -> Iterator[Progress | None]:
    """Shows no progress."""
    yield None


def measure(
    machine: FakeMachine,
    device: str | None = None,
    *,
    cc: str | None = "off",
    said: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Calibration:
    """Calibrates a machine whose NVML says that CC is `cc`, while the user says `said`."""
    return calibrate(
        Request(device, QUICK, said),
        machine,
        unseen,
        environment=environment or {},
        clock=machine.clock,
        look=lambda: snapshot(cc),
    )


def measured_profile(costs: Costs, name: str, count: int = 1, cc: str = "off") -> Profile:
    """The profile of a machine with these costs."""
    return to_profile(measure(FakeMachine(costs, count), cc=cc), name, date(2026, 11, 30))
