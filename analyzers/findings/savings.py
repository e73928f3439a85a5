"""What a remedy saves: from the replay of a pair where there is one, else within bounds, else not at all.

Bounds need no model of the whole step: a step lasts as long as the longer of host and GPU, so what the host
saves shows in full only where it never waits for the GPU.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.result import Site
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.findings.result import BOUND, ESTIMATE, REPLAY, UNKNOWN, Saving
from cctrace.analyzers.findings.view import StepView
from cctrace.analyzers.results import microseconds

PLATFORM: Final = "NVIDIA B200 in an Intel TDX guest"
LAUNCH_TOLL_US: Final = 12.25
"""What CC adds to a submission there: 15.7 − 3.45 µs, published for kernels."""
SMALL_COPY_US: Final = 4.86
"""What it adds to a small copy besides: encryption of up to 4 KB, in the range of 3 to 6 µs that is
published."""
COPY_BYTES_PER_US: Final = 9.5e3
"""How fast large copies are encrypted there: 9.4–9.6 GB/s published for 16 and 64 MB."""
ALLOCATION_FACTOR: Final = 44.0
"""How many times longer small allocate-and-copy operations take with CC on: published for decode in vLLM."""


def cannot_tell(because: str) -> Saving:
    """No number."""
    return Saving(kind=UNKNOWN, low_us=None, high_us=None, pct_of_step=None, basis=because)


def bound(view: StepView, low_us: float, high_us: float, basis: str) -> Saving:
    """A saving between two bounds; both are cut to what a step can get shorter."""
    return _between(view, BOUND, (low_us, min(high_us, view.step_us)), basis)


def expected(view: StepView, low_us: float, high_us: float, basis: str) -> Saving:
    """What a step costs more with CC on, between two bounds: a saving of a run that is not recorded."""
    return _between(view, ESTIMATE, (low_us, high_us), basis)


def _between(view: StepView, kind: str, limits_us: tuple[float, float], basis: str) -> Saving:
    if view.seen.recording.distorted:
        return cannot_tell("CUPTI distorted the host times of this recording")
    high = max(limits_us[1], 0.0)
    return _saving(view, kind, min(max(limits_us[0], 0.0), high), high, basis)


def replayed(view: StepView, us: float, basis: str, least_us: float | None = None) -> Saving:
    """A saving that the replay found; what does not show at all is 0."""
    low = us if least_us is None else least_us
    return _saving(view, REPLAY, max(low, 0.0), max(us, 0.0), basis)


def _saving(view: StepView, kind: str, low: float, high: float, basis: str) -> Saving:
    return Saving(kind=kind, low_us=low, high_us=high, pct_of_step=100 * high / view.step_us, basis=basis)


def of_submissions(view: StepView, categories: Collection[str], left: float = 0.0) -> Saving:
    """What fewer submissions of some categories save.

    Args:
        view: the steps.
        categories: which submissions.
        left: how many of them per step the remedy leaves.
    """
    shares = view.breakdown.shares if view.breakdown else None
    if shares is not None:
        basis = "the pair replayed without any launch toll; a remedy leaves the toll of what it still submits"
        return replayed(view, shares.launch.saved_if_removed_us, basis)
    rows = rows_of(view, categories)
    count = view.scope.per_step(len(rows))
    gone = max(0.0, 1 - left / count) if count else 0.0
    if view.account is not None and view.off is not None:
        tolls = view.account.tolls
        toll = sum(one.raw_toll_us_per_step for one in tolls if one.category in categories)
        basis = (
            "raw toll of these calls on the submitting thread, against the off arm; least: without its slack"
        )
        return bound(view, gone * toll - view.off.slack_us, gone * toll, basis)
    if view.seen.pays("launch"):
        spent = gone * time_us(view, rows[~view.scope.waited[rows]])
        return bound(
            view, 0.0, min(spent, gpu_idle_us(view)), "time in these calls; no off arm to compare with"
        )
    toll = gone * count * LAUNCH_TOLL_US
    basis = f"{LAUNCH_TOLL_US} µs for each, published for {PLATFORM}; least: without the host's slack"
    return expected(view, toll - view.slack_us, toll, basis)


def of_overlap(view: StepView, stall_us: float, category: str) -> Saving:
    """What it saves if a copy no longer keeps the host waiting.

    Args:
        view: the steps.
        stall_us: time per step that the copy keeps the submitting thread waiting; 0 where it does not yet.
        category: category of the copy.
    """
    shares = view.breakdown.shares if view.breakdown else None
    if shares is not None and stall_us:
        whole = shares.overlap.saved_if_removed_us
        places = [site.saved_if_removed_us for site in sites(view, "overlap") if site.category == category]
        if len(places) != 1 or places[0] >= whole:
            return replayed(view, whole, "the pair replayed without lost overlap")
        basis = "the pair replayed; least: without this copy's block alone; largest: without any lost overlap"
        return replayed(view, whole, basis, least_us=places[0])
    if not stall_us:
        busy = view.step_us if view.busy_us is None else view.busy_us
        basis = "host work that now runs while the GPU is busy, and would come after it"
        return expected(view, 0.0, min(view.step_us, busy) - view.slack_us, basis)
    high, basis = min(stall_us, gpu_idle_us(view)), "largest: the stall, or the time that the GPU is idle"
    if view.off is None:
        return bound(view, 0.0, high, basis)
    grown = stall_us - view.off.slack_us
    return bound(view, grown, high, f"{basis}; least: what waiting grew by against the off arm")


def gpu_idle_us(view: StepView) -> float:
    """Time per step that the GPU is idle at most: a step cannot get shorter than its GPU work."""
    return view.step_us - max(view.busy_us or 0.0, view.slack_us)


def sites(view: StepView, cause: str) -> list[Site]:
    """Places of a cause that the attribution names, on the submitting thread."""
    found = view.breakdown.sites if view.breakdown else ()
    number = str(view.steps.submitting_tid)
    return [site for site in found if site.cause == cause and site.thread.split(" ")[-1] == number]


def rows_of(view: StepView, categories: Collection[str], *, own_thread: bool = True) -> IntArray:
    """Positions in the scope of the calls of some categories, in order of time."""
    found = [
        view.scope.rows_of[CATEGORY[name]] for name in categories if CATEGORY[name] in view.scope.rows_of
    ]
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *found]))
    return rows[view.scope.on_step_thread[rows]] if own_thread else rows


def time_us(view: StepView, rows: IntArray) -> float:
    """Time per step in calls of the scope."""
    return microseconds(view.scope.per_step(float(view.scope.calls.duration_ns[rows].sum())))
