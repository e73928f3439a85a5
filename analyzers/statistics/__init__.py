"""Statistics of repeated runs: what a difference between two arms is worth.

The unit is the run, not the step: steps of one run share its boot, its clocks and its placement, so a
thousand of them say little about the next run. `intervals` has Student's t, `pairing` puts runs into pairs,
`paired` draws the conclusions from several pairs, `verdict` says them in a word, `bootstrap` is what one pair
alone allows, and `third_arm` splits a difference by a run with the trusted VM alone.
"""

from cctrace.analyzers.statistics.bootstrap import WithinRun, within_run
from cctrace.analyzers.statistics.intervals import Interval, t_interval
from cctrace.analyzers.statistics.paired import MeasuredPair, PairStatistics, statistics_of
from cctrace.analyzers.statistics.pairing import Pairing, paired_in_order
from cctrace.analyzers.statistics.third_arm import TeePart, TeeSplit, split_by_tee
from cctrace.analyzers.statistics.verdict import Verdict, verdict_of

__all__ = [
    "Interval",
    "MeasuredPair",
    "PairStatistics",
    "Pairing",
    "TeePart",
    "TeeSplit",
    "Verdict",
    "WithinRun",
    "paired_in_order",
    "split_by_tee",
    "statistics_of",
    "t_interval",
    "verdict_of",
    "within_run",
]
