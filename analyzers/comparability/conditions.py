"""What must hold of both arms, beyond equal fields: CC states, emulation, complete rows, a recorder's tax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from cctrace.analyzers.attribution.result import Comparability
from cctrace.analyzers.comparability.identity import Identity, identity_of
from cctrace.analyzers.comparability.outline import Outline
from cctrace.analyzers.comparability.rules import FORBIDS, INFORMS, WARNS
from cctrace.analyzers.sentences import percent, time_text
from cctrace.trace import Emulation
from cctrace.trace.acceptance import CC_ON

MAX_LOST_SHARE: Final = 0.001
"""Rows that may be missing: in replays of simulated traces a half percent of lost kernel rows moved shares by
2 % of the step."""
MAX_TAX_DIFFERENCE_US: Final = 0.2
"""Tax of recording a call that may differ: over the 300 calls of an eager step of 3 to 5 ms that is 60 µs,
1 to 2 % of it."""
TAX_OF_A_CALL: Final = "call"


def conditions(off: Sequence[Outline], on: Sequence[Outline]) -> Iterator[Comparability]:
    """Conditions that do not hold, for each recording or arm that breaks them."""
    yield from _cc_states(off, on)
    yield from _emulation(off, on)
    for arm, runs in (("off", off), ("on", on)):
        for run in runs:
            yield from _of_run(arm, run)
    yield from _tax(off, on)


def difference(name: str, severity: str, off: str | None, on: str | None, message: str) -> Comparability:
    """One difference between the arms, with what both say."""
    return Comparability(name=name, severity=severity, off=off, on=on, message=message)


def _of_arm(arm: str, name: str, severity: str, text: str | None, message: str) -> Comparability:
    return difference(name, severity, text if arm == "off" else None, text if arm == "on" else None, message)


def _cc_states(off: Sequence[Outline], on: Sequence[Outline]) -> Iterator[Comparability]:
    for one, other in product(off, on):
        if _who(one) == _who(other):
            yield difference("recording", WARNS, one.path, other.path, "a recording is compared with itself")
    first, second = _modes(off), _modes(on)
    off_is_on, on_is_off = bool(first) and "off" not in first, second == {"off"}
    texts = (" | ".join(sorted(first)) or None, " | ".join(sorted(second)) or None)
    if off_is_on and on_is_off:
        message = "the arms look swapped: CC is on in the off arm, and off in the on arm"
        yield difference("security.cc_mode", FORBIDS, *texts, message)
    elif off_is_on or on_is_off:
        state = "on, or emulated," if off_is_on else "off"
        message = f"CC is {state} in both arms: what differs is not CC's"
        yield difference("security.cc_mode", WARNS, *texts, message)
    if "devtools" in first | second:
        message = "devtools mode is no production CC: costs can differ"
        yield difference("security.cc_mode", WARNS, *texts, message)


def _who(run: Outline) -> Identity:
    return identity_of(run.metadata) or (run.path,)


def _modes(runs: Sequence[Outline]) -> set[str]:
    """CC states of an arm's runs; a run that does not say adds none."""
    modes = {
        "emulated" if _is_charged(run.metadata.emulation) else run.metadata.acceptance.security.cc_mode
        for run in runs
    }
    return {mode for mode in modes if mode is not None}


def _is_charged(emulation: Emulation | None) -> bool:
    """Whether an emulation cost anything; with every cost zero the arm is what its machine is."""
    if emulation is None:
        return False
    counts = [int(truth.get("count", 0)) for truth in (emulation.injected or {}).values()]
    return not counts or any(counts)


def _emulation(off: Sequence[Outline], on: Sequence[Outline]) -> Iterator[Comparability]:
    for arm, runs in (("off", off), ("on", on)):
        emulated = [run for run in runs if run.metadata.emulation is not None]
        if not emulated:
            continue
        text = _profile(emulated[0])
        message = "CC was emulated: costs of a profile were charged on a machine without CC"
        yield _of_arm(arm, "emulation", INFORMS, text, message)
        if any(run.metadata.acceptance.security.cc_mode in CC_ON for run in emulated):
            message = f"costs of a profile were charged in the {arm} arm while CC was on: it pays twice"
            yield _of_arm(arm, "emulation", WARNS, text, message)


def _profile(run: Outline) -> str:
    emulation = run.metadata.emulation
    profile, causes = (emulation.profile, emulation.causes) if emulation else (None, ())
    return f"{profile or 'unknown profile'} ({', '.join(causes) or 'no cause'})"


def _of_run(arm: str, run: Outline) -> Iterator[Comparability]:
    if run.distorted:
        message = f"CUPTI distorted the host times of the {arm} arm ({run.path}); record it with --gpu stamps"
        yield _of_arm(arm, "collector.timing", FORBIDS, "distorted", message)
    processes = run.metadata.collector.processes
    rows = sum(process.records for process in processes)
    lost = sum(sum(process.lost.values()) for process in processes)
    if rows and lost > MAX_LOST_SHARE * (rows + lost):
        text = percent(lost / (rows + lost))
        message = f"{text} of the rows of the {arm} arm were lost ({run.path}): what they did is missing"
        yield _of_arm(arm, "collector.lost", WARNS, text, message)


def _tax(off: Sequence[Outline], on: Sequence[Outline]) -> Iterator[Comparability]:
    """What recording a call costs, if it differs, or is not known."""
    first, second = _tax_us(off), _tax_us(on)
    texts = (_text(first), _text(second))
    what = "what recording a call costs"
    if first is None and second is None:
        yield difference("collector.tax", INFORMS, *texts, f"{what} is not known in either arm")
    elif first is None or second is None:
        yield difference("collector.tax", WARNS, *texts, f"{what} is known in one arm only")
    elif abs(first - second) > MAX_TAX_DIFFERENCE_US:
        yield difference(
            "collector.tax", WARNS, *texts, f"{what} differs: it is taken off, but only as measured"
        )


def _text(us: float | None) -> str | None:
    return None if us is None else time_text(us)


def _tax_us(runs: Sequence[Outline]) -> float | None:
    """Largest tax of a call in an arm, µs."""
    taxes = [
        process.tax_ns[TAX_OF_A_CALL] / 1e3
        for run in runs
        for process in run.metadata.collector.processes
        if TAX_OF_A_CALL in process.tax_ns
    ]
    return max(taxes, default=None)
