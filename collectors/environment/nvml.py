"""A guarded door to NVML: what the machine cannot answer is None, never an exception.

An old library lacks new functions, a container may lack the library, a confidential guest may refuse a
reading. All of these are states of the machine, to be recorded as "not known".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class Nvml:
    """An initialized NVML, or the reason why there is none.

    Attributes:
        missing: why NVML does not answer; None if it does.
    """

    def __init__(self, module: ModuleType | None, missing: str | None) -> None:
        self._module = module
        self.missing = missing

    def ask(self, name: str, *arguments: Any) -> Any:
        """Returns what the NVML function `name` answers, or None if it does not."""
        function = getattr(self._module, name, None)
        if function is None:
            return None
        try:
            answer = function(*arguments)
        except (self._error, OSError, ValueError, AttributeError, TypeError):
            return None
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer

    def constant(self, name: str) -> Any:
        """Returns a constant or structure of the bindings, None if they are too old to have it."""
        return getattr(self._module, name, None)

    @property
    def _error(self) -> type[Exception]:
        error: type[Exception] = getattr(self._module, "NVMLError", OSError)
        return error

    def devices(self) -> list[Any]:
        """Returns a handle for each GPU, in NVML's order (PCI bus)."""
        count = self.ask("nvmlDeviceGetCount") or 0
        handles = [self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        return [handle for handle in handles if handle is not None]


@contextlib.contextmanager
def open_nvml() -> Iterator[Nvml]:
    """Initializes NVML for the duration of the context."""
    try:
        import pynvml  # noqa: PLC0415 - loads a driver library: only when it is needed
    except ImportError:
        yield Nvml(None, "the package nvidia-ml-py is not installed")
        return
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError) as error:
        yield Nvml(None, f"NVML does not start: {error}")
        return
    try:
        yield Nvml(pynvml, None)
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
