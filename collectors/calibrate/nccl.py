"""NCCL through ctypes: a thin layer that checks each result and measures nothing."""

from __future__ import annotations

import ctypes
import site
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cctrace.errors import CctraceError

LIBRARY: Final = "libnccl.so.2"
_WHEEL: Final = "nvidia/nccl/lib"
_BYTE: Final = 0  # ncclInt8
_FLOAT: Final = 7  # ncclFloat32
_FLOAT_BYTES: Final = 4
_SUM: Final = 0  # ncclSum


class NcclError(CctraceError):
    """NCCL is not there, or a call of it failed."""


class Nccl:
    """One rank for each of some GPUs, all in this process.

    Args:
        path: the library; `find` knows it.
        gpus: numbers of the GPUs.

    Raises:
        NcclError: the library cannot be loaded or refuses the GPUs.
    """

    def __init__(self, path: str, gpus: Sequence[int]) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise NcclError(f"{LIBRARY} cannot be loaded ({error})") from error
        self._ranks = (ctypes.c_void_p * len(gpus))()
        numbers = (ctypes.c_int * len(gpus))(*gpus)
        self._declare()
        self._check(self._library.ncclCommInitAll(self._ranks, len(gpus), numbers), "ncclCommInitAll")

    def _declare(self) -> None:
        library, pointer, size, number = self._library, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        library.ncclCommInitAll.argtypes = [pointer, number, pointer]
        library.ncclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
        library.ncclSend.argtypes = [pointer, size, number, number, pointer, pointer]
        library.ncclRecv.argtypes = [pointer, size, number, number, pointer, pointer]
        library.ncclCommDestroy.argtypes = [pointer]
        library.ncclGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> str:
        """Version of the library."""
        number = ctypes.c_int()
        self._check(self._library.ncclGetVersion(ctypes.byref(number)), "ncclGetVersion")
        return f"{number.value // 10000}.{number.value % 10000 // 100}.{number.value % 100}"

    def all_reduce(
        self, sources: Sequence[int], targets: Sequence[int], size: int, streams: Sequence[int]
    ) -> None:
        """Submits a sum of `size` bytes of 32-bit floats over all ranks."""
        library = self._library
        count = max(1, size // _FLOAT_BYTES)
        library.ncclGroupStart()
        ranks = zip(self._ranks, sources, targets, streams, strict=True)
        codes = [
            library.ncclAllReduce(source, target, count, _FLOAT, _SUM, rank, stream)
            for rank, source, target, stream in ranks
        ]
        self._end("ncclAllReduce", codes)

    def all_to_all(
        self, sources: Sequence[int], targets: Sequence[int], size: int, streams: Sequence[int]
    ) -> None:
        """Submits an exchange: each rank sends `size` bytes in all, a part of the same size to each rank."""
        library = self._library
        part = max(1, size // len(self._ranks))
        library.ncclGroupStart()
        codes = []
        for rank, source, target, stream in zip(self._ranks, sources, targets, streams, strict=True):
            for peer in range(len(self._ranks)):
                codes.append(library.ncclSend(source + peer * part, part, _BYTE, peer, rank, stream))
                codes.append(library.ncclRecv(target + peer * part, part, _BYTE, peer, rank, stream))
        self._end("ncclSend or ncclRecv", codes)

    def close(self) -> None:
        """Ends all ranks."""
        for rank in self._ranks:
            self._library.ncclCommDestroy(rank)

    def _end(self, name: str, codes: Sequence[int]) -> None:
        ended = self._library.ncclGroupEnd()
        for code in codes:
            self._check(code, name)
        self._check(ended, "ncclGroupEnd")

    def _check(self, code: int, name: str) -> None:
        if code:
            text = self._library.ncclGetErrorString(code)
            raise NcclError(f"NCCL refused {name}: {(text or b'unknown error').decode(errors='replace')}")


def find() -> str:
    """Returns the path of the library in this Python's packages, else its name for the loader."""
    for packages in (*site.getsitepackages(), *sys.path):
        path = Path(packages) / _WHEEL / LIBRARY
        if path.is_file():
            return str(path)
    return LIBRARY
