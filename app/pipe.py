"""Unwritable output: a pipe whose reader leaves early (`cctrace summary x | head`), or a full disk."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator
from typing import Final

from cctrace.errors import UnusableInputError

DISK_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to a file ends with, if the disk takes no more."""


@contextlib.contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """Lets the process end silently when the reader of its output is gone, as other tools of the shell do.

    A shell shows this as exit code 141. Without it the libraries below end with 1, which stands for a failed
    check. The output is flushed inside, so that nothing is left to fail at the end of the process.

    Raises:
        UnusableInputError: the output is a file, and its disk takes no more.
    """
    try:
        before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    except ValueError:  # only the main thread may; elsewhere there is no shell to be quiet for
        yield
        return
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        # What is still buffered would fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UnusableInputError(f"the output cannot be written ({error.strerror})") from None
    finally:
        signal.signal(signal.SIGPIPE, before)
