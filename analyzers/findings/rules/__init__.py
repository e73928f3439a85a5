"""The rules, each with its thresholds and their reasons. `RULES` lists them all."""

from cctrace.analyzers.findings.rule import Rule
from cctrace.analyzers.findings.rules.copies import (
    BLOCKED_READBACK,
    LARGE_COPIES,
    PINNED_INPUTS,
    SMALL_COPIES,
    SYNCHRONOUS_COPIES,
)
from cctrace.analyzers.findings.rules.gpu import MULTICAST, NVLINK_SHARE
from cctrace.analyzers.findings.rules.memory import HOST_ALLOCATIONS, HOST_REGISTRATION
from cctrace.analyzers.findings.rules.startup import AUTOTUNER_EVENTS, START_UP_COPIES
from cctrace.analyzers.findings.rules.submissions import (
    MANY_SUBMISSIONS,
    POLLED_EVENTS,
    RARE_STALLS,
    SPLIT_GRAPHS,
)

RULES: tuple[Rule, ...] = (
    MANY_SUBMISSIONS,
    SPLIT_GRAPHS,
    BLOCKED_READBACK,
    PINNED_INPUTS,
    SYNCHRONOUS_COPIES,
    SMALL_COPIES,
    LARGE_COPIES,
    HOST_ALLOCATIONS,
    HOST_REGISTRATION,
    NVLINK_SHARE,
    MULTICAST,
    AUTOTUNER_EVENTS,
    POLLED_EVENTS,
    RARE_STALLS,
    START_UP_COPIES,
)
"""Every rule, in the order in which they are checked."""
