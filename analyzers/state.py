"""Whether the GPUs were in the same state before both recordings: stale state once passed for 16 % of CC."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.analyzers.results import Result, value
from cctrace.analyzers.sentences import bytes_text, percent, plural, signed_time, time_text
from cctrace.trace import GpuState, ReferenceLoop, StateCheck

LOOP_DIFFERENCE: Final = NOISE_FLOOR
"""Reference loops that differ by more show a GPU in another state. Confidential computing accounts for about
0.5 %: published matrix products run at 0.998 of their speed, and a launch toll of 12 µs is 0.3 % of a loop.
Anything smaller cannot feign a difference that is above the noise of one pair; the published case of stale
state was 14 points."""
CLOCK_DIFFERENCE: Final = NOISE_FLOOR
"""Clocks under load that differ by more: the same bound, as time goes with the clock."""
MEMORY_DIFFERENCE_BYTES: Final = 256 << 20
"""Device memory in use before that differs by more: one more CUDA context takes 300 MB at least."""


@dataclass(frozen=True, kw_only=True)
class LoopComparison(Result):
    """One reference loop on one GPU, in both arms."""

    gpu: int = value("position among the GPUs that the program could see")
    loop: str = value("compute, memory or launch; the launch loop contains the launch toll")
    off_us: float = value("median in the off arm", "µs")
    on_us: float = value("median in the on arm", "µs")
    change: float = value("on ÷ off − 1, of its time")


@dataclass(frozen=True, kw_only=True)
class StateComparison(Result):
    """The state checks of two recordings, compared."""

    same: bool | None = value(
        "whether compute and memory loops agree within 2 % on all GPUs; null if that cannot be told"
    )
    cannot_tell_because: str | None = value("why it cannot be told, or not for all GPUs")
    loops: tuple[LoopComparison, ...] = value("loops that both arms measured with the same work")
    not_same: tuple[str, ...] = value("loops that differ: part of the difference is not CC's")
    warnings: tuple[str, ...] = value("what else differs, or could not be told of one arm only")
    summary: str | None = value("the loops in one sentence; null if there are none")


@dataclass(frozen=True)
class _Pair:
    """The same position in both arms."""

    off: GpuState
    on: GpuState

    @property
    def name(self) -> str:
        return f"GPU {self.off.index}"


def compare_states(off: StateCheck | None, on: StateCheck | None) -> StateComparison:
    """Compares what was checked before two recordings. GPUs are paired by their position."""
    pairs = [
        _Pair(first, second)
        for first, second in zip(off.gpus if off else (), on.gpus if on else (), strict=False)
    ]
    loops = tuple(_loops(pairs)) if off and on and off.version == on.version else ()
    why = _why_not(off, on, loops)
    judged = [one for one in loops if one.loop != "launch"]
    not_same = tuple(_not_same(judged, pairs))
    same = False if not_same else None if why or not judged else True
    return StateComparison(
        same=same,
        cannot_tell_because=why,
        loops=loops,
        not_same=not_same,
        warnings=(*_one_sided(off, on, why), *_differences(pairs), *_found(off, on)),
        summary=_summary(loops),
    )


def _loops(pairs: Sequence[_Pair]) -> Iterator[LoopComparison]:
    for pair in pairs:
        if pair.off.name != pair.on.name:
            continue
        for name in ("compute", "memory", "launch"):
            first: ReferenceLoop | None = getattr(pair.off, name)
            second: ReferenceLoop | None = getattr(pair.on, name)
            if (
                not (first and second)
                or first.work != second.work
                or min(first.median_us, second.median_us) <= 0
            ):
                continue
            yield LoopComparison(
                gpu=pair.off.index,
                loop=name,
                off_us=first.median_us,
                on_us=second.median_us,
                change=second.median_us / first.median_us - 1,
            )


def _why_not(off: StateCheck | None, on: StateCheck | None, loops: Sequence[LoopComparison]) -> str | None:
    """Why the state cannot be compared, or not for all GPUs."""
    arms = {"off": off, "on": on}
    absent = [name for name, check in arms.items() if check is None]
    if absent:
        which = (
            f"the {absent[0]} arm holds no state check"
            if absent[1:] == []
            else "neither arm holds a state check"
        )
        return f"{which} (--no-state-check, or an older cctrace)"
    assert off is not None and on is not None  # noqa: S101, PT018 - that was just looked at
    for name, check in arms.items():
        if check is not None and not check.measured:
            return f"no reference loop ran before the {name} arm ({_missing(check)})"
    if off.version != on.version:
        return f"the arms ran different reference loops (versions {off.version} and {on.version})"
    if len(off.gpus) != len(on.gpus):
        return f"the arms saw {plural(len(off.gpus), 'GPU')} (off) and {len(on.gpus)} (on)"
    compared = {(one.gpu, one.loop) for one in loops}
    wanted = {(gpu.index, loop) for gpu in off.gpus for loop in ("compute", "memory")}
    if not wanted <= compared:
        gpus = sorted({gpu for gpu, _ in wanted - compared})
        which = ", ".join(f"GPU {gpu}" for gpu in gpus)
        return f"not every loop ran with the same work, on the same model, in both arms ({which})"
    return None


def _missing(check: StateCheck) -> str:
    reasons = [check.missing, *(gpu.missing for gpu in check.gpus)]
    return next((reason for reason in reasons if reason), "no reason is known")


def _one_sided(off: StateCheck | None, on: StateCheck | None, why: str | None) -> list[str]:
    """A warning if only one arm, or only a part, can be told; two arms without a check are no surprise."""
    neither = not (off and off.measured) and not (on and on.measured)
    if why is None or neither:
        return []
    return [f"cannot tell whether the GPUs were in the same state: {why}"]


def _not_same(judged: Sequence[LoopComparison], pairs: Sequence[_Pair]) -> Iterator[str]:
    """One sentence for each loop that differs, about the GPU where it differs most."""
    for name in ("compute", "memory"):
        differing = [one for one in judged if one.loop == name and abs(one.change) > LOOP_DIFFERENCE]
        if not differing:
            continue
        worst = max(differing, key=lambda one: abs(one.change))
        more = f", and on {plural(len(differing) - 1, 'other GPU')}" if len(differing) > 1 else ""
        boards = "; the arms ran on different boards" if _other_board(pairs, worst.gpu) else ""
        yield (
            f"the GPUs were not in the same state: before the recordings the {name} loop took "
            f"{time_text(worst.off_us)} (off) and {time_text(worst.on_us)} (on), "
            f"{percent(worst.change, signed=True)}, on GPU {worst.gpu}{more}{boards}. CC does not change "
            "this loop, so part of the difference below is not CC's; reset the GPUs or reboot, and repeat "
            "both arms"
        )


def _other_board(pairs: Sequence[_Pair], gpu: int) -> bool:
    return any(
        pair.off.index == gpu and _both_known_and_different(pair, lambda one: one.uuid) for pair in pairs
    )


def _both_known_and_different(pair: _Pair, get: Callable[[GpuState], Any]) -> bool:
    first, second = get(pair.off), get(pair.on)
    return first is not None and second is not None and first != second


def _differences(pairs: Sequence[_Pair]) -> Iterator[str]:
    """What NVML said differently, one line for each thing, about the first GPU and the number of others."""
    for name in ("SM", "memory"):
        field = f"{name.lower()}_clock_load_mhz"
        yield from _line(
            f"{name} clocks under load differ",
            [pair for pair in pairs if _clocks_differ(getattr(pair.off, field), getattr(pair.on, field))],
            partial(_mhz, field),
        )
    yield from _line(
        "what held the clocks down under load differs",
        [pair for pair in pairs if _both_known_and_different(pair, _reasons)],
        lambda gpu: ", ".join(gpu.throttle_reasons_load or ()) or "nothing",
    )
    yield from _line(
        "device memory in use before differs",
        [pair for pair in pairs if _memory_differs(pair)],
        lambda gpu: bytes_text(gpu.memory_used_bytes or 0),
    )
    yield from _line(
        "the number of other processes differs",
        [pair for pair in pairs if _both_known_and_different(pair, lambda gpu: gpu.other_processes)],
        lambda gpu: f"{gpu.other_processes}",
    )


def _line(what: str, pairs: Sequence[_Pair], text: Callable[[GpuState], str]) -> Iterator[str]:
    if pairs:
        first = pairs[0]
        more = f", and on {plural(len(pairs) - 1, 'other GPU')}" if len(pairs) > 1 else ""
        yield f"{what}: {text(first.off)} (off), {text(first.on)} (on) on {first.name}{more}"


def _mhz(field: str, gpu: GpuState) -> str:
    return f"{getattr(gpu, field)} MHz"


def _clocks_differ(off: int | None, on: int | None) -> bool:
    return off is not None and on is not None and abs(on - off) > CLOCK_DIFFERENCE * max(off, on)


def _reasons(gpu: GpuState) -> frozenset[str] | None:
    return None if gpu.throttle_reasons_load is None else frozenset(gpu.throttle_reasons_load)


def _memory_differs(pair: _Pair) -> bool:
    first, second = pair.off.memory_used_bytes, pair.on.memory_used_bytes
    # With the driver's reserve in one of them they are not of one kind.
    alike = (pair.off.memory_reserved_bytes is None) == (pair.on.memory_reserved_bytes is None)
    return (
        alike and first is not None and second is not None and abs(second - first) > MEMORY_DIFFERENCE_BYTES
    )


def _found(off: StateCheck | None, on: StateCheck | None) -> Iterator[str]:
    for name, check in (("off", off), ("on", on)):
        if check is not None and check.findings:
            more = f" (and {len(check.findings) - 1} more, see `cctrace info`)" if check.findings[1:] else ""
            yield f"state check before the {name} arm: {check.findings[0]}{more}"


def _summary(loops: Sequence[LoopComparison]) -> str | None:
    """The largest change of each loop; the launch loop as what it is."""
    parts = []
    for name in ("compute", "memory"):
        changes = [one.change for one in loops if one.loop == name]
        if changes:
            parts.append(f"{name} loop {percent(max(changes, key=abs), signed=True)}")
    launches = [one for one in loops if one.loop == "launch"]
    if launches:
        off, on = (statistics.median(getattr(one, f"{arm}_us") for one in launches) for arm in ("off", "on"))
        parts.append(
            f"a launch {time_text(off)} → {time_text(on)} ({signed_time(on - off)}; CC makes launches "
            "dearer: information, no fault)"
        )
    return f"State of the GPUs before, on against off: {', '.join(parts)}." if parts else None
