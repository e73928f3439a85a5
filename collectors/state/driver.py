"""GPUs and their contexts, for the helper process of the state check only."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from cctrace.collectors.cuda import Bindings, CudaError
from cctrace.collectors.state.kernels import ptx

_NAME_LENGTH: Final = 256
_BUS_LENGTH: Final = 32


@dataclass(frozen=True)
class CudaDevice:
    """One GPU that CUDA shows to this process.

    Attributes:
        handle: the driver's.
        bus: PCI bus id.
        name: model.
        compute_capability: such as 9.0.
        multiprocessors: multiprocessors.
    """

    handle: Any
    bus: str
    name: str
    compute_capability: str
    multiprocessors: int


class Cuda(Bindings):
    """The initialized driver.

    Raises:
        CudaError: cuda-python or the driver is missing, or it sees no GPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.call("cuInit", 0)

    def devices(self) -> list[CudaDevice]:
        """Returns the GPUs that `CUDA_VISIBLE_DEVICES` leaves, in CUDA's order."""
        return [self._device(ordinal) for ordinal in range(self.call("cuDeviceGetCount"))]

    def _device(self, ordinal: int) -> CudaDevice:
        handle = self.call("cuDeviceGet", ordinal)
        attributes = self.api.CUdevice_attribute
        major, minor, multiprocessors = (
            int(self.call("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))
            for name in ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT")
        )
        return CudaDevice(
            handle=handle,
            bus=_text(self.call("cuDeviceGetPCIBusId", _BUS_LENGTH, handle)),
            name=_text(self.call("cuDeviceGetName", _NAME_LENGTH, handle)),
            compute_capability=f"{major}.{minor}",
            multiprocessors=multiprocessors,
        )

    @contextlib.contextmanager
    def opened(self, device: CudaDevice) -> Iterator[Gpu]:
        """Makes a context on a GPU, current in this thread, with the kernels; its end frees all memory."""
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", device.handle))
        try:
            yield Gpu(self, device.multiprocessors)
        finally:
            with contextlib.suppress(CudaError):
                self.call("cuDevicePrimaryCtxRelease", device.handle)


class Gpu:
    """The context that is current in this thread: memory, kernels, one stream."""

    def __init__(self, cuda: Cuda, multiprocessors: int) -> None:
        self.multiprocessors = multiprocessors
        self._cuda = cuda
        self._module = cuda.call("cuModuleLoadData", ptx())
        flags = cuda.api.CUstream_flags.CU_STREAM_NON_BLOCKING
        self._stream = cuda.call("cuStreamCreate", int(flags))

    def free_bytes(self) -> int:
        """Returns the device memory that is free."""
        return int(self._cuda.call("cuMemGetInfo")[0])

    def allocate(self, size: int) -> int:
        """Returns the address of new device memory."""
        return int(self._cuda.call("cuMemAlloc", size))

    def synchronize(self) -> None:
        """Waits until all launched kernels have ended."""
        self._cuda.call("cuStreamSynchronize", self._stream)

    def kernel(self, name: str, blocks: int, threads: int, *arguments: Any) -> Callable[[], None]:
        """Returns a function that launches a kernel; arguments are ctypes values."""
        function = self._cuda.call("cuModuleGetFunction", self._module, name.encode())
        launch, check, stream = self._cuda.api.cuLaunchKernel, self._cuda.check, self._stream
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))

        def run(kept: tuple[Any, ...] = arguments) -> None:
            del kept  # the pointers hold addresses only: the arguments must live as long as this function
            address = ctypes.addressof(pointers)
            (code,) = launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, address, 0)
            if code:
                check([code], "cuLaunchKernel")

        return run


def _text(value: bytes | str) -> str:
    # Some versions of the bindings return their whole buffer; what follows the end of the text is anything.
    raw = value if isinstance(value, bytes) else value.encode()
    return raw.partition(b"\0")[0].decode("utf-8", "replace")
