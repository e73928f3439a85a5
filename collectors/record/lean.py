"""Keeps pandas out of a process that has no use for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final

_PANDAS: Final = "pandas"


class _Refusal(MetaPathFinder):
    """Says of pandas that it is not installed, and of nothing else anything."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del path, target
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"{fullname} is not needed here", name=fullname)


@contextlib.contextmanager
def without_pandas() -> Iterator[None]:
    """Within it, pandas cannot be imported unless it has been already.

    Arrow imports pandas with its first array, only to learn whether it was given a pandas object. That takes
    half a second, as long as all else that a short recording needs, and a conversion has no such object.
    """
    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        yield
    finally:
        sys.meta_path.remove(refusal)
