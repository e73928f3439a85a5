"""The reference loops: fixed work, repeated until it is warm, then timed by the host.

CUDA events are not used: their times are unreliable under confidential computing.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from cctrace.collectors.state import kernels
from cctrace.collectors.state.driver import Gpu

WARM_UP_MIN_S: Final = 0.1
"""A GPU takes some 10 ms to leave its idle clock; until then its repeats agree as well."""
WARM_UP_LIMIT_S: Final = 0.5
"""One that is not stable by then will not be: somebody else uses it."""
STABLE_REPEATS: Final = 5
STABLE_SPREAD: Final = 0.01
"""Warm is: so many repeats in a row differ by no more than this share."""
REPEATS: Final = 20
MIN_REPEATS: Final = 5
REPEAT_LIMIT_S: Final = 0.4
"""A slow GPU makes fewer repeats, but `MIN_REPEATS` always."""
LAUNCHES: Final = 200
"""Launches that are timed together: far fewer than the driver's queue holds, so that none waits."""
LOAD_S: Final = 0.1
"""So long the compute kernel runs while the clocks are read; reading them takes some milliseconds."""
FREE_MARGIN_BYTES: Final = 512 << 20
"""Memory that is left for others: the check must not make a neighbour fail."""

Clock = Callable[[], int]


class MemoryShortError(Exception):
    """There is too little free device memory for the copy."""


def time_loop(run: Callable[[], None], work: int, now: Clock = time.perf_counter_ns) -> dict[str, Any]:
    """Warms up, and times the repeats of `run`. Returns a `ReferenceLoop` document.

    Args:
        run: does the work and waits for its end.
        work: what one repeat does.
        now: a clock, ns.
    """
    _warm_up(run, now)
    times: list[int] = []
    begin = now()
    while len(times) < REPEATS and (len(times) < MIN_REPEATS or now() - begin < REPEAT_LIMIT_S * 1e9):
        times.append(_timed(run, now))
    return _loop(times, 1, work)


def compute_loop(
    gpu: Gpu, under_load: Callable[[], None], now: Clock = time.perf_counter_ns
) -> dict[str, Any]:
    """Times the multiply-adds; `under_load` is called while they run."""
    out, rounds = ctypes.c_uint64(gpu.allocate(4)), ctypes.c_uint32(kernels.COMPUTE_ROUNDS)
    factor, addend = ctypes.c_float(-1.0), ctypes.c_float(1.0)
    blocks = gpu.multiprocessors * kernels.COMPUTE_BLOCKS_PER_SM
    launch = gpu.kernel(kernels.COMPUTE_KERNEL, blocks, kernels.COMPUTE_THREADS, out, rounds, factor, addend)
    loop = time_loop(_then_wait(launch, gpu), kernels.compute_work(gpu.multiprocessors), now)
    for _ in range(min(REPEATS, max(1, math.ceil(LOAD_S * 1e6 / max(1.0, loop["median_us"]))))):
        launch()
    under_load()
    gpu.synchronize()
    return loop


def memory_loop(gpu: Gpu, now: Clock = time.perf_counter_ns) -> dict[str, Any]:
    """Times the copy of a large buffer, or of a smaller one if memory is short.

    Raises:
        MemoryShortError: it would be so small that it runs in the cache.
    """
    size = kernels.COPY_BYTES
    while 2 * size + FREE_MARGIN_BYTES > gpu.free_bytes():
        size //= 2
        if size < kernels.COPY_MIN_BYTES:
            raise MemoryShortError("too little device memory is free for the memory loop")
    vectors = kernels.copy_vectors(gpu.multiprocessors, size)
    launch = gpu.kernel(
        kernels.COPY_KERNEL,
        gpu.multiprocessors * kernels.COPY_BLOCKS_PER_SM,
        kernels.COPY_THREADS,
        ctypes.c_uint64(gpu.allocate(size)),
        ctypes.c_uint64(gpu.allocate(size)),
        ctypes.c_uint64(vectors),
        ctypes.c_uint32(kernels.COPY_PASSES),
    )
    work = 2 * vectors * kernels.VECTOR_BYTES * kernels.COPY_PASSES
    return time_loop(_then_wait(launch, gpu), work, now)


def launch_loop(
    gpu: Gpu,
    now: Clock = time.perf_counter_ns,
    alone: AbstractContextManager[Any] | None = None,
) -> dict[str, Any]:
    """Times launches of an empty kernel, without waiting for their end; times are per launch.

    Args:
        gpu: where to.
        now: a clock, ns.
        alone: held while launches are timed: loops of several threads would time each other.
    """
    launch = gpu.kernel(kernels.EMPTY_KERNEL, 1, 32)

    def batch() -> None:
        for _ in range(LAUNCHES):
            launch()

    times = []
    for _ in range(REPEATS + 1):
        with alone or contextlib.nullcontext():
            times.append(_timed(batch, now))
        gpu.synchronize()
    return _loop(times[1:], LAUNCHES, LAUNCHES)  # the first batch warms up


def _then_wait(launch: Callable[[], None], gpu: Gpu) -> Callable[[], None]:
    def run() -> None:
        launch()
        gpu.synchronize()

    return run


def _warm_up(run: Callable[[], None], now: Clock) -> None:
    begin = now()
    recent: deque[int] = deque(maxlen=STABLE_REPEATS)
    while now() - begin < WARM_UP_LIMIT_S * 1e9:
        recent.append(_timed(run, now))
        is_stable = len(recent) == STABLE_REPEATS and max(recent) <= (1 + STABLE_SPREAD) * min(recent)
        if is_stable and now() - begin >= WARM_UP_MIN_S * 1e9:
            return


def _timed(run: Callable[[], None], now: Clock) -> int:
    begin = now()
    run()
    return now() - begin


def _loop(times_ns: list[int], parts: int, work: int) -> dict[str, Any]:
    deciles = statistics.quantiles(times_ns, n=10, method="inclusive")
    low, median, high = deciles[0], statistics.median(times_ns), deciles[-1]
    per_part = {
        "median_us": median / parts / 1e3,
        "low_us": low / parts / 1e3,
        "high_us": high / parts / 1e3,
    }
    return {**{name: round(us, 4) for name, us in per_part.items()}, "repeats": len(times_ns), "work": work}
