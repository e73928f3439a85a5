"""Graph launches per step, and whether a step's graphs are fragmented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.results import Result, value
from cctrace.analyzers.scope import Scope

FRAGMENTED_LAUNCHES: Final = 8
"""From so many graph launches a step on, its graphs are called fragmented: a full decode graph is one launch,
with draft model and sampler three or four; a graph cut at each attention layer is one more than the model has
layers, at least 17 for the smallest models that are served."""


@dataclass(frozen=True)
class Graphs(Result):
    """Graph launches within the steps."""

    per_step: float = value("graph launches per step", "launches")
    distinct: int = value("different graphs launched in all steps", "graphs")
    kernels_outside_per_step: float = value("kernels launched one by one per step", "kernels")
    execution: str = value("eager: no graph; graph: few launches a step; fragmented: many")


def graphs_of(scope: Scope) -> Graphs:
    """How the steps of a scope use graphs."""
    forms, count = scope.calls.forms, scope.calls.count_of_forms
    launches, kernels = forms.submits("graph"), forms.submits("kernel")
    per_step = scope.per_step(float(count[launches].sum()))
    numbers = forms.graph_id[launches & (count > 0)]
    return Graphs(
        per_step=per_step,
        distinct=len(np.unique(numbers[numbers >= 0])),
        kernels_outside_per_step=scope.per_step(float(count[kernels].sum())),
        execution=_execution(per_step),
    )


def _execution(per_step: float) -> str:
    if per_step >= FRAGMENTED_LAUNCHES:
        return "fragmented"
    # A graph now and then among eager steps does not make them graph steps.
    return "graph" if per_step >= 0.5 else "eager"
