"""What `cctrace diff --json` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cctrace.analyzers.attribution.result import Attribution
from cctrace.analyzers.comparability import KernelDifferences
from cctrace.analyzers.diff import Diff
from cctrace.analyzers.findings import Checked, Finding
from cctrace.analyzers.results import Result, about, value
from cctrace.analyzers.statistics import PairStatistics, TeeSplit

DIFF_FORMAT_VERSION: Final = 2
"""Version of the document. Raised when a field changes its meaning or goes away."""


@dataclass(frozen=True, kw_only=True)
class RunPair(Result):
    """One pair of runs."""

    pair: int = value("number, from 1, in recorded order")
    off: str = value("recording of the off arm")
    on: str = value("recording of the on arm")
    off_step_us: float = value("mean step of the off arm", "µs")
    on_step_us: float = value("mean step of the on arm", "µs")
    delta_us: float = value("on − off", "µs")
    step_growth: float = value("on ÷ off − 1; denominator: the off arm's step")
    counted: bool = value("whether the means of the document hold this pair")
    refused_because: tuple[str, ...] = value("why it cannot be attributed; empty if it can")


@dataclass(frozen=True, kw_only=True)
class Gate(Result):
    """The answer to `--fail-over`."""

    limit_pct: float = value("the limit that was given", "%")
    denominator: str = value("what limit_pct and measured_pct are parts of")
    measured_pct: float = value("step growth: on ÷ off − 1", "%")
    failed: bool = value("whether the measured growth is above the limit, or cannot be judged")
    because: str = value("the judgement, one sentence")


@dataclass(frozen=True, kw_only=True)
class Report(Attribution):
    """A comparison of runs with confidential computing on and off: which cause costs what."""

    step_growth: float = value("on ÷ off − 1, of step time; denominator: the off arm's step")
    throughput_loss: float = value(
        "1 − off ÷ on, of step time, at equal batch; denominator: the off arm's throughput"
    )
    statistics: PairStatistics = field(metadata=about("what the pairs of runs are worth"))
    tee: TeeSplit | None = field(
        metadata=about("the difference split by a third arm; null if none was given")
    )
    gate: Gate | None = field(metadata=about("judgement by --fail-over; null if not asked for"))
    equal_fields: int = value("fields of the metadata that are known and the same in all recordings")
    unknown_fields: tuple[str, ...] = value(
        "fields that matter and are known in neither arm: nothing says that they are the same"
    )
    kernels: KernelDifferences = field(metadata=about("kernels that one arm alone runs"))
    kernel_times: str | None = value("recording that supplied GPU times of kernels; null if none was given")
    runs: tuple[RunPair, ...] = value("the pairs of runs, in recorded order")
    calls_of_pair: int = value(
        "number of the pair that `calls` and `findings` are about: the one nearest to the mean"
    )
    calls: Diff = field(metadata=about("calls, waiting and metadata of that pair compared"))
    findings: tuple[Finding, ...] = value(
        "what to change in that pair, largest saving first; then risks, then information"
    )
    checked: tuple[Checked, ...] = value("what was looked for in that pair, also what was not found")
    finding_notes: tuple[str, ...] = value("what a reader of the findings should know")
