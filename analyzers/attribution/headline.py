"""The one sentence that matters first: what a step costs more, and which cause makes most of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cctrace.analyzers.attribution.result import CAUSES, Breakdown, ClassBreakdown, Phases, Site
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.provenance import provenance_of
from cctrace.analyzers.sentences import bytes_text, percent, signed_time, time_text

NAMES: Final = {
    "launch": "launch toll",
    "pcie": "PCIe crypto",
    "overlap": "lost overlap",
    "nvlink": "NVLink encryption",
}
"""Causes in words."""
MIN_DELTA: Final = 0.02
"""Below this part of the off step a single pair shows no difference worth a cause."""


def headline_of(off: Recording, on: Recording, phases: Phases, classes: Sequence[ClassBreakdown]) -> str:
    """The sentence for two recordings; decode steps speak for the run where there are any."""
    found = phases.found()
    if not found:
        return "Cannot attribute, because the arms have no steps in common that hold the same work."
    name, one = found[0]
    step = f"per {name} step" if name in ("decode", "prefill", "mixed") else "per step"
    if one.refused_because:
        return f"Cannot attribute, because {one.refused_because[0]}."
    if one.delta_us < MIN_DELTA * one.off_step_us:
        return f"{_who(off, on)} changes a step by {signed_time(one.delta_us)} of {time_text(one.off_step_us)} {step}."
    return f"{_who(off, on)} costs {time_text(one.delta_us)} of {time_text(one.off_step_us)} {step}; {_cause(one, classes)}."


def _who(off: Recording, on: Recording) -> str:
    """What the difference may be put down to, as far as the recordings say."""
    first, second = provenance_of(off), provenance_of(on)
    if second.emulated and not first.emulated:
        return f"Emulated {second.emulated}"
    if second.cc_mode in ("on", "devtools") and first.cc_mode not in ("on", "devtools"):
        return "CC"
    return "The on arm"


def _cause(one: Breakdown, classes: Sequence[ClassBreakdown]) -> str:
    assert one.shares is not None and one.residual is not None, "a breakdown without refusal"  # noqa: S101, PT018
    values = {cause: getattr(one.shares, cause) for cause in CAUSES}
    shares = {cause: share.share_us for cause, share in values.items() if share is not None}
    largest = max(shares, key=lambda cause: shares[cause])
    if one.residual.total_us > shares[largest]:
        return f"{percent(one.residual.total_us / one.delta_us)} of it is no cause of CC (residual)"
    text = f"{percent(shares[largest] / one.delta_us)} of it is {NAMES[largest]}"
    site = next((site for of_class in classes for site in of_class.sites if site.cause == largest), None)
    return f"{text}{_place(site)}" if site is not None and largest == "overlap" else text


def _place(site: Site) -> str:
    size = f" of {bytes_text(site.bytes)}" if site.bytes is not None else ""
    return (
        f": the {site.category}{size} at +{time_text(site.offset_us)} blocks {time_text(site.on_us)} per step"
    )
