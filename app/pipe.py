"""Output into a pipe whose reader leaves early (`cctrace summary x | head`)."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """Lets the process end silently when the reader of its output is gone, as other tools of the shell do.

    A shell shows this as exit code 141. Without it the libraries below end with 1, which stands for a failed
    check. The output is flushed inside, so that nothing is left to fail at the end of the process.
    """
    try:
        before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    except ValueError:  # only the main thread may; elsewhere there is no shell to be quiet for
        yield
        return
    try:
        yield
        sys.stdout.flush()
    finally:
        signal.signal(signal.SIGPIPE, before)
