"""What the host hands to the GPU in one step, and what each call costs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cctrace.analyzers.categories import CATEGORIES, ORDER, QUERY, WAIT, WORK, group_of
from cctrace.analyzers.columns import BoolArray, IntArray
from cctrace.analyzers.forms import masked
from cctrace.analyzers.quantile import MEDIAN, quantile
from cctrace.analyzers.results import Result, microseconds, value
from cctrace.analyzers.scope import Scope
from cctrace.analyzers.waiting import not_slow

MIN_OWN_COST_CALLS: Final = 5
"""Fewer calls that did not wait give no own cost."""


@dataclass(frozen=True)
class CallCost(Result):
    """One category of host calls within the steps."""

    category: str = value("kernel, graph, copy h2d, copy d2h, memset, event-record, event-sync …")
    group: str = value("work, order, wait, query, memory or capture")
    per_step: float = value("calls per step, all threads of the process", "calls")
    calls: int = value("calls in all steps", "calls")
    waited: int = value("of them, calls that kept the host waiting for the GPU", "calls")
    own_cost_us: float | None = value(
        "median time of the calls that did not wait; null if there are too few or host times are distorted",
        "µs",
    )
    in_call_us_per_step: float = value("time in these calls per step, waiting included, all threads", "µs")
    other_threads_per_step: float = value(
        "of per_step: calls of threads other than the one that submits most", "calls"
    )


@dataclass(frozen=True)
class Submissions(Result):
    """Host calls per step. `work_per_step` is the number that published counts give."""

    work_per_step: float = value("kernels + graphs + copies + memsets per step", "submissions")
    order_per_step: float = value("event records, stream waits and other submissions per step", "submissions")
    waits_per_step: float = value("synchronizations per step", "calls")
    queries_per_step: float = value("queries (is it done yet?) per step", "calls")
    categories: tuple[CallCost, ...] = value(
        "each category that occurs, most frequent first within its group"
    )


def submissions_of(scope: Scope, *, distorted: bool = False) -> Submissions:
    """Counts and own costs of the calls in a scope; `distorted` host times give no own costs."""
    costs = [_cost(scope, number, distorted=distorted) for number in scope.categories]
    groups = (WORK, ORDER, WAIT, QUERY, "memory", "capture")
    costs.sort(key=lambda cost: (groups.index(cost.group), -cost.per_step, cost.category))
    totals = {group: sum(cost.per_step for cost in costs if cost.group == group) for group in groups}
    return Submissions(
        work_per_step=totals[WORK],
        order_per_step=totals[ORDER],
        waits_per_step=totals[WAIT],
        queries_per_step=totals[QUERY],
        categories=tuple(costs),
    )


def _cost(scope: Scope, number: int, *, distorted: bool) -> CallCost:
    duration, waited, own_thread = masked(
        scope.category == number, scope.calls.duration_ns, scope.waited, scope.on_step_thread
    )
    own = None if distorted else own_cost_ns(duration, waited)
    return CallCost(
        category=CATEGORIES[number],
        group=group_of(CATEGORIES[number]),
        per_step=scope.per_step(len(duration)),
        calls=len(duration),
        waited=int(waited.sum()),
        own_cost_us=None if own is None else microseconds(own),
        in_call_us_per_step=microseconds(scope.per_step(float(duration.sum()))),
        other_threads_per_step=scope.per_step(float((~own_thread).sum())),
    )


def own_cost_ns(duration_ns: IntArray, waited: BoolArray) -> float | None:
    """Median time of the calls of one category that did not wait, None if fewer than MIN_OWN_COST_CALLS."""
    own = duration_ns[~waited] if waited.any() else duration_ns
    own = own[not_slow(own)]
    return quantile(own, MEDIAN) if len(own) >= MIN_OWN_COST_CALLS else None
