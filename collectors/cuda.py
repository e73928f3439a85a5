"""A door to the CUDA driver through cuda-python, for processes of our own: each result is checked."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Final

from cctrace.errors import CctraceError

NO_BINDINGS: Final = "cuda-python is not installed here (`pip install cuda-python`)"
_BINDINGS: Final = "cuda.bindings.driver"


class CudaError(CctraceError):
    """What the driver refused, or why there is none; the message is one line."""


class Bindings:
    """The functions of the driver.

    Attributes:
        api: the module of cuda-python, with its functions and constants.

    Raises:
        CudaError: cuda-python cannot be imported.
    """

    def __init__(self) -> None:
        try:
            self.api: Any = importlib.import_module(_BINDINGS)
        except ImportError:
            raise CudaError(NO_BINDINGS) from None

    def call(self, name: str, *arguments: object) -> Any:
        """Returns what the driver function `name` gives besides its code: one value, a tuple, or None.

        Raises:
            CudaError: it fails.
        """
        code, *values = self._answer(name, arguments)
        self.check([code], name)
        return values[0] if len(values) == 1 else tuple(values) or None

    def code(self, name: str, *arguments: object) -> int:
        """Calls a driver function that may fail and returns its code.

        Raises:
            CudaError: this driver lacks it.
        """
        return int(self._answer(name, arguments)[0])

    def check(self, codes: Iterable[int], name: str = "a call") -> None:
        """Raises `CudaError` if one of the codes is no success."""
        for code in map(int, codes):
            if code:
                raise CudaError(f"the CUDA driver refused {name}: {self._error_name(code)} ({code})")

    def _answer(self, name: str, arguments: tuple[object, ...]) -> Any:
        try:
            return getattr(self.api, name)(*arguments)
        except Exception as error:  # each version of the bindings has its own for a library that is missing
            raise CudaError(f"{name}: {' '.join(str(error).split()) or type(error).__name__}") from error

    def _error_name(self, code: int) -> str:
        try:
            return str(self.api.CUresult(code).name)
        except ValueError:
            return "unknown error"
