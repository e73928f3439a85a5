"""The time of the fake GPUs: it passes only when they work, so that a busy machine changes nothing."""

import sys
import threading
import time

_own = threading.local()  # each GPU is checked by a thread of its own


def now_ns() -> int:
    return getattr(_own, "ns", 0)


def advance(us: float) -> None:
    _own.ns = now_ns() + round(us * 1e3)


if any("collectors.state" in word for word in sys.orig_argv):  # the helper process
    time.perf_counter_ns = now_ns
