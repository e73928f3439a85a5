"""What calibration needs of a GPU: a thin layer over the driver has it, and so has a test's stand-in.

Hot calls are handed out ready to be called without arguments, so that nothing of ours runs between the clock
and the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

Call = Callable[[], int]
"""A call of the driver with its arguments bound. Its code goes to `Device.check`, after the clock."""

Direction = Literal["h2d", "d2h", "d2d"]
Memory = Literal["pinned", "pageable"]
Transfer = Literal["write", "read", "kernel read"]
"""Between GPUs: this GPU's copy engine writes or reads the other's memory, or a kernel of it reads."""


@dataclass(frozen=True)
class Submission:
    """A call of the driver, and what calling it from Python costs by itself.

    Attributes:
        call: the call that is measured.
        bare: the same arguments, handed in the same way to a function that does nothing. What it returns
            means nothing.
    """

    call: Call
    bare: Call


class Device(Protocol):
    """One GPU: a context, a stream, two buffers of device memory, and host memory of each kind.

    Attributes:
        index: number of the GPU among those that the process sees.
        name: model of the GPU.
    """

    index: int
    name: str

    def activate(self) -> None:
        """Makes this GPU's context the current one of the calling thread."""

    def check(self, codes: Iterable[int]) -> None:
        """Raises `CudaError` if a call did not succeed."""

    def kernel(self) -> Submission:
        """Launch of an empty kernel."""

    def graph(self, nodes: int) -> Submission:
        """Launch of a graph of so many empty kernels, one after the other."""

    def memset(self) -> Submission:
        """A memset of 64 bytes."""

    def event(self) -> Submission:
        """Recording of an event without a time."""

    def synchronize(self) -> Submission:
        """Waiting for the stream."""

    def copy(self, direction: Direction, memory: Memory, size: int) -> Submission:
        """Asynchronous copy of `size` bytes; `memory` is that of the host's end."""

    def occupy(self, us: float) -> Call:
        """Launch of a kernel that keeps the stream busy for `us` microseconds."""

    def host_allocation(self, size: int) -> tuple[Submission, Callable[[], None]]:
        """Allocation of page-locked memory, and what frees the memory of the last one."""

    def pinned_reported_pinned(self) -> bool:
        """True if page-locked memory is reported as host memory, not as managed memory."""

    def host_register_error(self) -> int:
        """Code with which page-locking existing memory fails; 0: it works."""

    def multicast(self) -> bool:
        """True if the GPU says that it can multicast. No multicast object is made."""

    def reaches(self, other: int) -> bool:
        """True if this GPU can read and write the memory of another."""

    def peer_chain(self, other: Device, size: int, links: int, how: Transfer) -> Call:
        """Launch of a graph of so many transfers of `size` bytes (a multiple of 16), one after the other."""
