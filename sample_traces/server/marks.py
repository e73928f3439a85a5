"""Step marks: NVTX ranges that any profiler reads, and cctrace's own hook. Both are optional."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from server.configs import Marks

Mark = Callable[[str], AbstractContextManager[Any]]


def _nothing(_label: str) -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


def _hook() -> Mark:
    try:
        from cctrace.collectors.hooks import step  # noqa: PLC0415 - optional
    except ImportError:
        return _nothing
    hook: Mark = step
    return hook


def _nvtx() -> Mark:
    try:
        import nvtx  # noqa: PLC0415 - optional
    except ImportError:
        return _torch_nvtx()
    annotate: Mark = nvtx.annotate
    return annotate


def _torch_nvtx() -> Mark:
    import torch  # noqa: PLC0415 - only without the nvtx package

    return torch.cuda.nvtx.range if torch.cuda.is_available() else _nothing


def make_mark(kind: Marks) -> Mark:
    """A function label → context manager that marks one step in the ways of `kind`, as far as they exist."""
    used = [make() for name, make in (("nvtx", _nvtx), ("hook", _hook)) if kind in (name, "both")]
    used = [mark for mark in used if mark is not _nothing]
    if not used:
        return _nothing
    if len(used) == 1:
        return used[0]
    outer, inner = used

    @contextlib.contextmanager
    def both(label: str) -> Iterator[None]:
        with outer(label), inner(label):
            yield

    return both
