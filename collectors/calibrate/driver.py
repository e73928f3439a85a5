"""The GPUs as the calibration uses them; nothing is measured here.

What is timed goes through `calls`, everything else through cuda.bindings.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from typing_extensions import override

from cctrace.collectors.calibrate import kernels
from cctrace.collectors.calibrate.calls import LIBRARY, TimedCalls, kernel_parameters
from cctrace.collectors.calibrate.interface import Call, Device, Direction, Memory, Submission, Transfer
from cctrace.collectors.cuda import Bindings
from cctrace.errors import UnusableInputError

MAX_COPY_BYTES: Final = 64 << 20
"""The largest copy that is measured."""

SMALL_BYTES: Final = 64
"""The small copy and the memset: what a token or a flag takes."""

_NON_BLOCKING: Final = 1  # CU_STREAM_NON_BLOCKING
_NO_TIME: Final = 2  # CU_EVENT_DISABLE_TIMING
_THREAD_LOCAL: Final = "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"
_HOST_MEMORY: Final = 1  # CU_MEMORYTYPE_HOST
_MULTICAST: Final = "CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED"
_PROCESSORS: Final = "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"
_NO_DEVICE: Final = 100
_PEER_ALREADY_ENABLED: Final = 704
_NOT_READY: Final = 802
_REGISTERED_BYTES: Final = 64 << 10
_READ_THREADS: Final = 256
_READ_BLOCKS_PER_PROCESSOR: Final = 8
"""2048 threads, all that a multiprocessor holds: one load each in flight fills the link."""

_Made = TypeVar("_Made")


class Driver(Bindings):
    """The driver of this machine.

    Attributes:
        timed: the calls that are timed.
        count: number of GPUs.

    Raises:
        UnusableInputError: the driver, or a GPU that accepts work, is missing.
        CudaError: cuda-python is missing, or the driver cannot be started.
    """

    def __init__(self) -> None:
        super().__init__()
        try:
            self.timed = TimedCalls()
        except OSError as error:
            raise UnusableInputError(f"there is no NVIDIA driver here: {LIBRARY} is not found") from error
        code = self.code("cuInit", 0)
        if code == _NOT_READY:
            raise UnusableInputError(
                "the GPUs do not accept work (CUDA error 802); `nvidia-smi conf-compute -srs 1` "
                "after attestation"
            )
        if code != _NO_DEVICE:
            self.check([code], "cuInit")
        self.count: int = 0 if code == _NO_DEVICE else self.call("cuDeviceGetCount")
        if self.count == 0:
            raise UnusableInputError("the driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)")

    @property
    def cuda_version(self) -> str:
        """CUDA version of the driver."""
        number = self.call("cuDriverGetVersion")
        return f"{number // 1000}.{number % 1000 // 10}"


class CudaDevice(Device):
    """One GPU in its primary context; see `interface.Device`. Close it when done.

    Args:
        driver: the driver.
        index: number of the GPU.
        buffer_bytes: size of each of its buffers, on the device and the host.
    """

    def __init__(self, driver: Driver, index: int, buffer_bytes: int = MAX_COPY_BYTES) -> None:
        self._driver = driver
        self._api = driver.api
        self._bind = driver.timed.bind
        self.index = index
        self._bytes = buffer_bytes
        self._undo = contextlib.ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        do = self._driver.call
        self._device = do("cuDeviceGet", self.index)
        self.name = do("cuDeviceGetName", 256, self._device).partition(b"\0")[0].decode(errors="replace")
        self.context = do("cuDevicePrimaryCtxRetain", self._device)
        self._undo.callback(self._api.cuDevicePrimaryCtxRelease, self._device)
        self.activate()
        self.stream = self._make("cuStreamDestroy", do("cuStreamCreate", _NON_BLOCKING))
        self._event = self._make("cuEventDestroy", do("cuEventCreate", _NO_TIME))
        self.buffer = self._make("cuMemFree", do("cuMemAlloc", self._bytes))
        module = self._make("cuModuleUnload", do("cuModuleLoadData", kernels.PTX.encode() + b"\0"))
        self._kernels = {
            name: do("cuModuleGetFunction", module, name.encode())
            for name in (kernels.NOTHING, kernels.WAIT, kernels.READ)
        }

    @cached_property
    def second(self) -> Any:
        """Another buffer on the device."""
        return self._make("cuMemFree", self._driver.call("cuMemAlloc", self._bytes))

    @cached_property
    def _pinned(self) -> int:
        return self._make("cuMemFreeHost", int(self._driver.call("cuMemHostAlloc", self._bytes, 0)))

    @cached_property
    def _pageable(self) -> _Pages:
        return _Pages(self._bytes)

    def _make(self, undo: str, made: _Made) -> _Made:
        self._undo.callback(getattr(self._api, undo), made)
        return made

    def close(self) -> None:
        """Gives everything back."""
        if hasattr(self, "context"):
            self._api.cuCtxSetCurrent(self.context)
        self._undo.close()

    @override
    def activate(self) -> None:
        self._driver.call("cuCtxSetCurrent", self.context)

    @override
    def check(self, codes: Iterable[int]) -> None:
        self._driver.check(codes)

    @override
    def kernel(self) -> Submission:
        return self._launch(self._kernels[kernels.NOTHING])

    @override
    def graph(self, nodes: int) -> Submission:
        launch = self.kernel().call
        return self._replay(lambda: [launch() for _ in range(nodes)])

    @override
    def memset(self) -> Submission:
        return self._bind("cuMemsetD8Async", self.buffer, 0, SMALL_BYTES, self.stream)

    @override
    def event(self) -> Submission:
        return self._bind("cuEventRecord", self._event, self.stream)

    @override
    def synchronize(self) -> Submission:
        return self._bind("cuStreamSynchronize", self.stream)

    @override
    def copy(self, direction: Direction, memory: Memory, size: int) -> Submission:
        self.activate()
        host = self._pinned if memory == "pinned" else self._pageable.address
        name, to, source = {
            "h2d": ("cuMemcpyHtoDAsync_v2", self.buffer, host),
            "d2h": ("cuMemcpyDtoHAsync_v2", host, self.buffer),
            "d2d": ("cuMemcpyDtoDAsync_v2", self.second, self.buffer),
        }[direction]
        return self._bind(name, to, source, size, self.stream)

    @override
    def occupy(self, us: float) -> Call:
        return self._launch(self._kernels[kernels.WAIT], (round(us * 1e3),)).call

    @override
    def host_allocation(self, size: int) -> tuple[Submission, Callable[[], None]]:
        address = ctypes.c_void_p()

        def free() -> None:
            self._driver.call("cuMemFreeHost", address.value)

        return self._bind("cuMemHostAlloc", ctypes.byref(address), size, 0), free

    @override
    def pinned_reported_pinned(self) -> bool:
        return self._attribute("MEMORY_TYPE") == _HOST_MEMORY and not self._attribute("IS_MANAGED")

    def _attribute(self, name: str) -> int | None:
        which = getattr(self._api.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")
        result = self._api.cuPointerGetAttribute(which, self._api.CUdeviceptr(self._pinned))
        return None if int(result[0]) else int(result[1])

    @override
    def host_register_error(self) -> int:
        pages = _Pages(_REGISTERED_BYTES)
        code = self._driver.code("cuMemHostRegister", pages.address, _REGISTERED_BYTES, 0)
        if code == 0:
            self._driver.call("cuMemHostUnregister", pages.address)
        return code

    @override
    def multicast(self) -> bool:
        return bool(self._device_attribute(_MULTICAST))

    @override
    def reaches(self, other: int) -> bool:
        second = self._driver.call("cuDeviceGet", other)
        return bool(self._driver.call("cuDeviceCanAccessPeer", self._device, second))

    @override
    def peer_chain(self, other: Device, size: int, links: int, how: Transfer) -> Call:
        far = self._open_to(other).buffer
        if how == "kernel read":
            one = self._kernel_read(far, size)
        else:
            to, source = (self.buffer, far) if how == "read" else (far, self.buffer)
            one = self._bind("cuMemcpyAsync", to, source, size, self.stream).call
        return self._replay(lambda: [one() for _ in range(links)]).call

    def _kernel_read(self, far: Any, size: int) -> Call:
        values = (int(self.buffer), int(far), size // kernels.VECTOR_BYTES)
        blocks = self._device_attribute(_PROCESSORS) * _READ_BLOCKS_PER_PROCESSOR
        return self._launch(self._kernels[kernels.READ], values, blocks, _READ_THREADS).call

    def _open_to(self, other: Device) -> CudaDevice:
        if not isinstance(other, CudaDevice):
            raise TypeError("peers must be GPUs of one driver")
        self.activate()
        code = self._driver.code("cuCtxEnablePeerAccess", other.context, 0)
        if code != _PEER_ALREADY_ENABLED:
            self._driver.check([code], "cuCtxEnablePeerAccess")
        return other

    def _device_attribute(self, name: str) -> int:
        which = getattr(self._api.CUdevice_attribute, name)
        return int(self._driver.call("cuDeviceGetAttribute", which, self._device))

    def _launch(
        self, function: object, values: Sequence[int] = (), blocks: int = 1, threads: int = 1
    ) -> Submission:
        parameters = kernel_parameters(values) if values else 0
        sizes = (blocks, 1, 1, threads, 1, 1, 0)
        return self._bind("cuLaunchKernel", function, *sizes, self.stream, parameters, 0)

    def _replay(self, submit: Callable[[], Iterable[int]]) -> Submission:
        """Returns the launch of a graph that is captured from what `submit` submits."""
        do = self._driver.call
        self.activate()
        do("cuStreamBeginCapture", self.stream, getattr(self._api.CUstreamCaptureMode, _THREAD_LOCAL))
        codes = submit()
        graph = do("cuStreamEndCapture", self.stream)
        self._driver.check(codes, "a call in a capture")
        executable = self._make("cuGraphExecDestroy", do("cuGraphInstantiate", graph, 0))
        do("cuGraphDestroy", graph)
        return self._bind("cuGraphLaunch", executable, self.stream)


class _Pages:
    """Ordinary memory of the process at the start of a page, with every page present."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size)
        self._map.write(bytes(size))
        self._first = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._first)
