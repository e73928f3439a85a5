"""The reference loops on a GPU whose clock the test turns."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cctrace.collectors.state import kernels, loops

MS = 1_000_000


class TurnedClock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class TurnedGpu:
    """A GPU of one kernel duration, in virtual time."""

    multiprocessors = 132

    def __init__(self, clock: TurnedClock, kernel_ns: int = 4 * MS, free: int = 100 << 30) -> None:
        self._clock, self._kernel_ns, self._free = clock, kernel_ns, free
        self._pending = 0
        self.allocated: list[int] = []
        self.launched: list[tuple[str, int, int, list[Any]]] = []

    def free_bytes(self) -> int:
        return self._free - sum(self.allocated)

    def allocate(self, size: int) -> int:
        assert size <= self.free_bytes()
        self.allocated.append(size)
        return 4096

    def kernel(self, name: str, blocks: int, threads: int, *arguments: Any) -> Callable[[], None]:
        def run() -> None:
            self.launched.append((name, blocks, threads, [argument.value for argument in arguments]))
            self._clock.now_ns += 3_000  # what the call takes
            self._pending += self._kernel_ns

        return run

    def synchronize(self) -> None:
        self._clock.now_ns += self._pending
        self._pending = 0


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


def timings(clock: TurnedClock, durations_ns: Iterator[int]) -> tuple[Callable[[], None], list[int]]:
    runs: list[int] = []

    def run() -> None:
        runs.append(next(durations_ns))
        clock.now_ns += runs[-1]

    return run, runs


def forever(first: list[int], then: int) -> Iterator[int]:
    yield from first
    while True:
        yield then


def test_a_loop_is_timed_when_its_clock_has_risen(clock: TurnedClock) -> None:
    rising = [40 * MS] * 3 + [12 * MS, 8 * MS]
    run, _ = timings(clock, forever(rising, 4 * MS))
    loop = loops.time_loop(run, 77, clock)
    assert loop == {"median_us": 4000.0, "low_us": 4000.0, "high_us": 4000.0, "repeats": 20, "work": 77}


def test_agreement_at_the_idle_clock_does_not_count_as_warm(clock: TurnedClock) -> None:
    run, _ = timings(clock, forever([9 * MS] * 8, 4 * MS))
    assert loops.time_loop(run, 1, clock)["high_us"] == 4000.0


def test_a_gpu_that_never_settles_is_timed_all_the_same(clock: TurnedClock) -> None:
    def uneven() -> Iterator[int]:
        while True:
            yield 4 * MS
            yield 8 * MS

    run, runs = timings(clock, uneven())
    loop = loops.time_loop(run, 1, clock)
    assert loop["repeats"] == loops.REPEATS
    assert (loop["low_us"], loop["high_us"]) == (4000.0, 8000.0)
    warm_up_ns = sum(runs[: -loops.REPEATS])
    assert warm_up_ns <= loops.WARM_UP_LIMIT_S * 1e9 + 8 * MS


def test_a_slow_gpu_makes_fewer_repeats(clock: TurnedClock) -> None:
    run, runs = timings(clock, forever([], 100 * MS))
    loop = loops.time_loop(run, 1, clock)
    assert loop["repeats"] == loops.MIN_REPEATS
    assert len(runs) <= 2 * loops.MIN_REPEATS + 1


def test_one_hiccup_does_not_move_the_median(clock: TurnedClock) -> None:
    run, _ = timings(clock, forever([4 * MS] * 30 + [50 * MS], 4 * MS))
    assert loops.time_loop(run, 1, clock)["median_us"] == 4000.0


def test_the_compute_loop_shows_the_gpu_at_work(clock: TurnedClock) -> None:
    gpu = TurnedGpu(clock)
    seen: list[int] = []
    loop = loops.compute_loop(gpu, lambda: seen.append(gpu._pending), clock)
    assert loop["median_us"] == pytest.approx(4003.0)
    assert loop["work"] == 132 * 4 * 256 * kernels.FMA_PER_THREAD
    assert seen[0] >= 50 * MS, "the clocks are read while kernels run"
    assert gpu._pending == 0
    assert {entry[:3] for entry in gpu.launched} == {("cctrace_fma", 132 * 4, 256)}


@pytest.mark.parametrize(
    ("free_mib", "buffer_mib"), [(100_000, 256), (1024, 256), (1023, 128), (768, 128), (767, None)]
)
def test_the_copy_takes_less_where_memory_is_short(
    clock: TurnedClock, free_mib: int, buffer_mib: int | None
) -> None:
    gpu = TurnedGpu(clock, free=free_mib << 20)
    if buffer_mib is None:
        with pytest.raises(loops.MemoryShortError):
            loops.memory_loop(gpu, clock)
        return
    loop = loops.memory_loop(gpu, clock)
    assert gpu.allocated == [buffer_mib << 20] * 2
    moved = loop["work"] / kernels.COPY_PASSES / 2
    assert 0.9 * (buffer_mib << 20) < moved <= buffer_mib << 20


def test_the_copy_kernel_gets_a_whole_number_of_rounds(clock: TurnedClock) -> None:
    gpu = TurnedGpu(clock)
    loop = loops.memory_loop(gpu, clock)
    _, blocks, threads, (_, _, vectors, passes) = gpu.launched[0]
    assert vectors % (blocks * threads * kernels.VECTORS_IN_FLIGHT) == 0
    assert vectors * kernels.VECTOR_BYTES <= gpu.allocated[0]
    assert loop["work"] == 2 * vectors * kernels.VECTOR_BYTES * passes


def test_a_launch_is_timed_without_the_kernel(clock: TurnedClock) -> None:
    loop = loops.launch_loop(TurnedGpu(clock, kernel_ns=7_000), clock)
    assert loop["median_us"] == 3.0
    assert loop["repeats"] == loops.REPEATS


def test_the_module_does_the_work_that_is_counted() -> None:
    text = kernels.ptx().decode()
    assert text.endswith("\0")
    assert text.count("fma.rn.f32") * kernels.COMPUTE_ROUNDS == kernels.FMA_PER_THREAD
    assert text.count("ld.global.v4") == text.count("st.global.v4") == kernels.VECTORS_IN_FLIGHT
    for name in (kernels.COMPUTE_KERNEL, kernels.COPY_KERNEL, kernels.EMPTY_KERNEL):
        assert f".visible .entry {name}(" in text
