"""What a comparison says first: the headline, and reasons to doubt it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cctrace.analyzers.differences import CallDifferences
from cctrace.analyzers.noise import NOISE_FLOOR, percentile_against
from cctrace.analyzers.provenance import Provenance
from cctrace.analyzers.sentences import percent, plural, signed_time, time_text
from cctrace.analyzers.summary import OTHER_THREAD_SHARE
from cctrace.trace.acceptance import CC_ON

if TYPE_CHECKING:
    from cctrace.analyzers.diff import ArmResult

FEW_STEPS: Final = 30
"""Fewer typical steps than this make a mean that a few hiccups move."""
LOW_CONFIDENCE: Final = 0.9
HOST_CODE_SHARE: Final = 0.05
"""Host code outside driver calls that differs by this part of the off arm's step is worth a warning: more
than twice the noise floor, it can hide or feign what CC adds."""
_ORIGINS: Final = {"marks": "marked", "inferred": "inferred from the calls"}


def headline_of(off: ArmResult, on: ArmResult, *, within_noise: bool) -> str:
    """The sentence that matters: what the on arm adds to a step."""
    delta, growth = on.period_us - off.period_us, on.period_us / off.period_us - 1
    step = f"a {off.phase} step" if off.phase in ("decode", "prefill", "mixed") else "a step"
    change = f"{signed_time(delta)} on {step} of {time_text(off.period_us)}"
    ratio = f"{on.period_us / off.period_us:.2f}×"
    loss = 1 - off.period_us / on.period_us
    gained = percent(loss).startswith("−")
    throughput = f"throughput gain {percent(-loss)}" if gained else f"throughput loss {percent(loss)}"
    numbers = f"step growth {percent(growth, signed=True)}, {throughput}"
    noise = "; within the noise of one pair of runs" if within_noise else ""
    return f"{cause_of(off.provenance, on.provenance) or 'Difference'}: {change}, {ratio} ({numbers}{noise})."


def cause_of(off: Provenance, on: Provenance) -> str | None:
    """What the difference may be put down to, as far as the recordings say; None if to nothing."""
    if off.path == on.path or off.emulated or off.cc_mode in CC_ON:
        return None
    if on.emulated:
        return f"Emulated {on.emulated}"
    return "CC" if on.cc_mode in CC_ON else None


def comparison_warnings(
    off: ArmResult, on: ArmResult, *, paired: bool, structure: CallDifferences
) -> tuple[str, ...]:
    """Reasons to doubt the comparison, the gravest first."""
    found = _cc_warnings(off, on)
    if not paired:
        found.append(
            f"the arms' steps hold different work: {off.class_name} (off) against {on.class_name} (on); "
            "what differs is not CC alone"
        )
    else:
        found += [*_noise_warning(off, on), *_host_code_warning(off, on)]
    if off.origin != on.origin:
        found.append(f"steps of the off arm are {_ORIGINS[off.origin]}, of the on arm {_ORIGINS[on.origin]}")
    found += [*_step_warnings("off", off), *_step_warnings("on", on)]
    off_gpu, on_gpu = off.gpu.busy_share is not None, on.gpu.busy_share is not None
    if off_gpu != on_gpu:
        found.append(f"only the {'off' if off_gpu else 'on'} arm has GPU rows")
    if structure.listed:
        count = len(structure.listed) + structure.more
        kernels = "1 kernel or call differs" if count == 1 else f"{count} kernels or calls differ"
        found.append(f"{kernels} in number per step; see below")
    return tuple(found)


def _step_warnings(name: str, arm: ArmResult) -> list[str]:
    found = []
    if arm.confidence is not None and arm.confidence < LOW_CONFIDENCE:
        found.append(
            f"steps of the {name} arm are inferred, and only {arm.confidence:.0%} repeat a recent one"
        )
    if arm.typical_steps < FEW_STEPS:
        found.append(f"the {name} arm has only {arm.typical_steps} typical steps")
    if arm.other_processes:
        others = plural(arm.other_processes, "more process")
        found.append(f"the {name} arm has {others} with steps, not compared here")
    return found


def _cc_warnings(off: ArmResult, on: ArmResult) -> list[str]:
    return [
        f"the recording of the {name} arm does not say whether CC was on"
        for name, arm in (("off", off.provenance), ("on", on.provenance))
        if arm.cc_mode is None and arm.emulated is None
    ]


def _noise_warning(off: ArmResult, on: ArmResult) -> list[str]:
    """Only where the steps move both ways: that a small difference is small, the headline says."""
    delta, against = on.period_us - off.period_us, percentile_against(off, on)
    if against is None or abs(delta) < NOISE_FLOOR * off.period_us:
        return []
    return [
        f"the steps move both ways: the mean by {signed_time(delta)}, but the {against}; "
        "one pair of runs cannot tell the difference, repeat both arms"
    ]


def _host_code_warning(off: ArmResult, on: ArmResult) -> list[str]:
    first, second = off.outside_calls_us_per_step, on.outside_calls_us_per_step
    if abs(second - first) <= HOST_CODE_SHARE * off.period_us or waits_elsewhere(off) or waits_elsewhere(on):
        return []
    return [
        f"the arms' host code ran at different speed ({time_text(first)} → {time_text(second)} per step "
        "outside driver calls): not CC's launch toll"
    ]


def waits_elsewhere(arm: ArmResult) -> bool:
    """Whether another thread waits so long for the GPU that the submitting one may wait for that thread."""
    return arm.other_thread_wait_us_per_step >= OTHER_THREAD_SHARE * arm.period_us
