"""The driver's calls that are timed: C functions called through ctypes, each with a twin that does nothing.

A function is looked up by its name, as any program may do, so that a preloaded recorder sees the calls. Its
arguments are made beforehand. What is left of Python is the same for a function of the C library that is
called with the same arguments through the same prototype: C lets it ignore those that it does not know.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from cctrace.collectors.calibrate.interface import Submission

LIBRARY: Final = "libcuda.so.1"

_TWIN: Final = "ffs"
"""Finds the lowest bit that is set, in one instruction; its result is as small as a code of the driver."""

_POINTER: Final = ctypes.c_void_p
_ADDRESS: Final = ctypes.c_uint64
_SIZE: Final = ctypes.c_size_t
_NUMBER: Final = ctypes.c_uint

_TYPES: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "cuEventRecord": (_POINTER, _POINTER),
        "cuGraphLaunch": (_POINTER, _POINTER),
        "cuLaunchKernel": (_POINTER, *(_NUMBER,) * 7, _POINTER, _POINTER, _POINTER),
        "cuMemHostAlloc": (_POINTER, _SIZE, _NUMBER),
        "cuMemcpyAsync": (_ADDRESS, _ADDRESS, _SIZE, _POINTER),
        "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, _SIZE, _POINTER),
        "cuMemcpyDtoHAsync_v2": (_POINTER, _ADDRESS, _SIZE, _POINTER),
        "cuMemcpyHtoDAsync_v2": (_ADDRESS, _POINTER, _SIZE, _POINTER),
        "cuMemsetD8Async": (_ADDRESS, ctypes.c_ubyte, _SIZE, _POINTER),
        "cuStreamSynchronize": (_POINTER,),
    }
)
"""Name of a function in the library → types of its arguments, as cuda.h declares them."""


class TimedCalls:
    """The functions of `_TYPES`.

    Raises:
        OSError: there is no driver.
    """

    def __init__(self) -> None:
        # PyDLL keeps the interpreter's lock: no other thread of it runs between the clock and the driver.
        self._driver = ctypes.PyDLL(LIBRARY)
        self._process = ctypes.PyDLL(None)

    def bind(self, name: str, *arguments: object) -> Submission:
        """Returns a call with its arguments: numbers, handles of cuda.bindings, or objects of ctypes."""
        types = _TYPES[name]
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, *types)
        made = [_made(kind, argument) for kind, argument in zip(types, arguments, strict=True)]
        call, bare = prototype((name, self._driver)), prototype((_TWIN, self._process))
        return Submission(partial(call, *made), partial(bare, *made))


def kernel_parameters(values: Sequence[int]) -> ctypes.Array[Any]:
    """Returns the parameters of a kernel, 64 bits each, as a launch takes them."""
    pointer = ctypes.POINTER(ctypes.c_uint64)
    return (pointer * len(values))(*(ctypes.pointer(ctypes.c_uint64(value)) for value in values))


def _made(kind: Any, argument: Any) -> Any:
    return kind(int(argument)) if hasattr(argument, "__int__") else argument
