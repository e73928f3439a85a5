"""What to change: rules that look for the known ways in which confidential computing costs time.

`find` applies the rules to a recording or a pair and sorts what they find; `rules` holds one module for each
part of a step; `trends` reads a sweep of pairs. A rule is a pure function of what `view` shows of a
recording.
"""

from cctrace.analyzers.findings.find import find, find_in_file, find_in_pair
from cctrace.analyzers.findings.result import Checked, Evidence, Example, Finding, Findings, Saving
from cctrace.analyzers.findings.trends import SweepPoint, Trend, sweep_point, trends_of
from cctrace.analyzers.findings.view import Observation, observe

__all__ = [
    "Checked",
    "Evidence",
    "Example",
    "Finding",
    "Findings",
    "Observation",
    "Saving",
    "SweepPoint",
    "Trend",
    "find",
    "find_in_file",
    "find_in_pair",
    "observe",
    "sweep_point",
    "trends_of",
]
