"""Categories of host calls: the lines of every table. A copy's direction is part of its category."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.calls import CAPTURE as CAPTURE_KIND
from cctrace.analyzers.calls import OPERATION_WORDS, CallForms, Calls
from cctrace.analyzers.columns import IntArray
from cctrace.trace.schema import BLOCKING_WAITS, COPY_KINDS, SUBMISSION_OPERATIONS, WORK_OPERATIONS

WORK: Final = "work"
ORDER: Final = "order"
WAIT: Final = "wait"
QUERY: Final = "query"
MEMORY: Final = "memory"
CAPTURE: Final = "capture"
GROUPS: Final = {
    WORK: "puts work on the GPU: kernels, graphs, copies, memsets",
    ORDER: "other submissions: events, waits between streams, host functions",
    WAIT: "the host waits for the GPU",
    QUERY: "the host asks whether the GPU is done",
    MEMORY: "allocates, frees or registers memory",
    CAPTURE: "builds a graph",
}
"""What a category belongs to."""


def _all() -> tuple[str, ...]:
    without_copy = [word for word in OPERATION_WORDS if word != "copy"]
    return (*[f"copy {kind}" for kind in COPY_KINDS], "copy", *without_copy, "captured", "other")


CATEGORIES: Final = _all()
"""Every category, by number."""
CATEGORY: Final = {word: index for index, word in enumerate(CATEGORIES)}
COPY_CATEGORIES: Final = tuple(word for word in CATEGORIES if word.startswith("copy"))


def group_of(category: str) -> str:
    """The group of a category, a key of GROUPS."""
    operation = category.split(" ", maxsplit=1)[0]
    if operation in WORK_OPERATIONS:
        return WORK
    if operation in SUBMISSION_OPERATIONS:
        return ORDER
    if operation in BLOCKING_WAITS:
        return WAIT
    if operation == "query":
        return QUERY
    return CAPTURE if operation in ("captured", "graph-build", "capture-begin", "capture-end") else MEMORY


def category_of(calls: Calls) -> IntArray:
    """Category of each call, position in CATEGORIES."""
    return calls.each(_category_of_forms(calls.forms))


def _category_of_forms(forms: CallForms) -> IntArray:
    of_operation = np.array(
        [CATEGORY.get(word, CATEGORY["copy"]) for word in OPERATION_WORDS] + [CATEGORY["other"]]
    )
    category = of_operation[forms.operation].astype(np.int16)
    directed = (forms.copy_kind >= 0) & forms.is_operation("copy")
    category[directed] = forms.copy_kind[directed]
    # A kernel recorded into a graph is a capture, not a submission.
    captured = (forms.kind == CAPTURE_KIND) & ~forms.is_operation(
        "capture-begin", "capture-end", "graph-build"
    )
    category[captured] = CATEGORY["captured"]
    return category
