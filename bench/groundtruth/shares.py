#!/usr/bin/env python3
"""What `cctrace diff` finds in the recordings of run.py, beside what the programs lost: tables in Markdown.

  bench/groundtruth/shares.py RESULTS-FOLDER RECORDINGS-FOLDER [SCENARIO …]

RECORDINGS-FOLDER holds SCENARIO-ARM.parquet, as run.py --keep leaves them. The truth is the Shapley value of
the measured steps of all arms; errors are in % of the step of the arm `zero`, which everything is compared
with.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from attribution_alternatives import critical_path, sums_of_durations

from cctrace.analyzers.arms import Arm, arm_of
from cctrace.analyzers.attribution.engine import attribute
from cctrace.analyzers.attribution.result import Breakdown
from cctrace.analyzers.loading import load
from cctrace.analyzers.steady import STEADY
from cctrace.trace import open_trace
from groundtruth import measuring
from groundtruth.rounds import rounds_of, write_part
from groundtruth.scenarios import BARE, PLAIN, ZERO
from groundtruth.truth import Range, Truth, faster_half, is_host_bound, truth_of

CAUSES: Final = ("launch", "pcie", "overlap")
"""Those of one GPU."""


@dataclass(frozen=True)
class Found:
    """What was found in one pair of recordings.

    Attributes:
        scenario: name of the scenario.
        arm: the arm with costs.
        truth: what was lost.
        replay: what `cctrace diff` says of decode steps, or of all if there are no others.
        sums: cause → µs, by sums of durations.
        path: cause → µs, by critical paths.
    """

    scenario: str
    arm: str
    truth: Truth
    replay: Breakdown
    sums: Mapping[str, float]
    path: Mapping[str, float]

    @property
    def shares(self) -> Mapping[str, float] | None:
        """Cause → µs, by the replay; None if it refuses."""
        return shares_of(self.replay)

    def error(self, cause: str, share: float) -> float:
        """How far a share is from what was measured, in % of the step without costs."""
        return 100 * self.truth.shares[cause].distance(share) / self.truth.off_us.middle

    def score(self, shares: Mapping[str, float] | None) -> float:
        """Sum of the absolute errors of all causes; NaN without shares."""
        if shares is None:
            return float("nan")
        return sum(abs(self.error(cause, shares[cause])) for cause in CAUSES)


def decode_of(on: Path, off: Path) -> Breakdown:
    """The attribution of the decode steps, or of all steps if there are no others."""
    attribution = attribute(load(open_trace(on)), load(open_trace(off)))
    return attribution.phases.decode or attribution


def shares_of(breakdown: Breakdown) -> Mapping[str, float] | None:
    """Cause → share, µs; None if the replay refuses. What cannot be told apart is 0."""
    if breakdown.shares is None:
        return None
    shares = {cause: getattr(breakdown.shares, cause) for cause in CAUSES}
    return {cause: share.share_us if share is not None else 0.0 for cause, share in shares.items()}


def pairs(
    results: Iterable[Mapping[str, Any]], folder: Path, names: Sequence[str]
) -> Iterator[tuple[Mapping[str, Any], str, Path, Path]]:
    """(result, arm, recording of the arm, of the arm `zero`) of all scenarios that have both."""
    for result in results:
        name = result["scenario"]["name"]
        off = folder / f"{name}-{ZERO}.parquet"
        if (names and name not in names) or not off.exists():
            continue
        for arm in result["arms"]:
            on = folder / f"{name}-{arm}.parquet"
            if arm not in (BARE, PLAIN, ZERO) and on.exists():
                yield result, arm, on, off


def found_in(result: Mapping[str, Any], arm: str, on: Path, off: Path) -> Found | None:
    """What is found in one pair, None if its truth was not measured."""
    truth = truth_of(result, arm, CAUSES)
    if truth is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        off, on = (measured_part(path, result, Path(folder)) for path in (off, on))
        tables = longest_stretch(off), longest_stretch(on)
        return Found(
            scenario=result["scenario"]["name"],
            arm=arm,
            truth=truth,
            replay=decode_of(on, off),
            sums=sums_of_durations(*tables),
            path=critical_path(*tables),
        )


def measured_part(path: Path, result: Mapping[str, Any], folder: Path) -> Path:
    """What counts of a recording: the measured rounds, or their faster half if the host sets the pace."""
    rounds = rounds_of(path, result["scenario"]["rounds"])
    if is_host_bound(result):
        rounds = faster_half(rounds, lambda one: one.step_ns)
    return write_part(path, folder / path.name, rounds)


def longest_stretch(path: Path) -> pa.Table:
    """The rows of the longest stretch of steady steps of one class: the alternatives know no pauses."""
    trace = open_trace(path)
    begin, end = _longest(arm_of(load(trace)))
    table = trace.table()
    start = table["start_ns"].to_numpy()
    return table.filter(pa.array((start >= begin) & (start < end)))


def _longest(arm: Arm) -> tuple[int, int]:
    steps = arm.steps
    steady, kind = steps.exclusion == STEADY, steps.class_of
    follows = steady[1:] & steady[:-1] & (kind[1:] == kind[:-1]) & (steps.start_ns[1:] == steps.end_ns[:-1])
    begins = np.flatnonzero(np.concatenate(([True], ~follows)))
    ends = np.append(begins[1:], len(steps))
    longest = int(np.argmax((ends - begins) * steady[begins]))
    return int(steps.start_ns[begins[longest]]), int(steps.end_ns[ends[longest] - 1])


def halves(path: Path, folder: Path) -> tuple[Path, Path]:
    """The rounds of a recording as two recordings.

    Raises:
        ValueError: it has fewer than two rounds.
    """
    rounds = rounds_of(path)
    if len(rounds) < 2:
        raise ValueError(f"{path}: fewer than two rounds")
    middle = len(rounds) // 2
    parts = (rounds[:middle], rounds[middle:])
    first, second = (
        write_part(path, folder / f"{path.stem}-{number}.parquet", part) for number, part in enumerate(parts)
    )
    return first, second


# ---- tables


def shares_table(found: Sequence[Found]) -> str:
    """Share of each cause, measured and found, with its error."""
    head = ("scenario", "arm", "off µs", "growth, measured", "recorded", "toll charged", *CAUSES, "host µs",
            "GPU µs", "model error µs")  # fmt: skip
    return _markdown([head, *(_shares_row(one) for one in found)])


def _shares_row(one: Found) -> tuple[str, ...]:
    truth, shares, residual = one.truth, one.shares, one.replay.residual
    start = (one.scenario, one.arm, f"{truth.off_us.middle:.0f}", _range(truth.delta_us),
             f"{one.replay.delta_us:.0f}",
             "" if truth.charged_us is None else f"{truth.charged_us:.0f}")  # fmt: skip
    if shares is None or residual is None:
        return (*start, "refused: " + "; ".join(one.replay.refused_because), "", "", "", "", "")
    cells = (
        f"{_range(truth.shares[cause])} → **{shares[cause]:.0f}** ({one.error(cause, shares[cause]):+.1f} %)"
        for cause in CAUSES
    )
    gpu = "" if residual.gpu_us is None else f"{residual.gpu_us:.0f}"
    return (*start, *cells, f"{residual.host_us:.0f}", gpu, f"{residual.model_error_us:.1f}")


def methods_table(found: Sequence[Found]) -> str:
    """Sum of absolute share errors of the three methods."""
    head = ("scenario", "arm", "sums of durations", "critical path", "replay")
    scores = [(one.score(one.sums), one.score(one.path), one.score(one.shares)) for one in found]
    rows = [
        (one.scenario, one.arm, *(f"{score:.1f}" for score in three))
        for one, three in zip(found, scores, strict=True)
    ]
    for name, of in (("median", statistics.median), ("worst", max)):
        rows.append((f"**{name}**", "", *(f"**{of(column):.1f}**" for column in zip(*scores, strict=True))))
    return _markdown([head, *rows])


def null_table(paths: Sequence[Path]) -> str:
    """Two halves of one recording, as if they were two arms."""
    rows: list[tuple[str, ...]] = [("recording", "off µs", "growth", *CAUSES, "host", "GPU", "model error")]
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            first, second = halves(path, Path(folder))
            one = decode_of(second, first)
            shares, residual = shares_of(one), one.residual
            if shares is None or residual is None:
                rows.append((path.stem, f"{one.off_step_us:.0f}", "refused", "", "", "", "", "", ""))
                continue
            values = (one.delta_us, *shares.values(), residual.host_us, residual.gpu_us or 0.0,
                      residual.model_error_us)  # fmt: skip
            rows.append((path.stem, f"{one.off_step_us:.0f}", *(f"{value:.1f}" for value in values)))
    return _markdown(rows)


def _range(measured: Range) -> str:
    low, high = (f"{round(end)}" for end in (measured.low, measured.high))
    return low if low == high else f"{low} to {high}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(row) for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])]
    return "\n".join(f"| {line} |" for line in lines)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS-FOLDER")
    parser.add_argument("recordings", type=Path, metavar="RECORDINGS-FOLDER")
    parser.add_argument("names", nargs="*", metavar="SCENARIO")
    args = parser.parse_args()
    chosen = list(pairs(measuring.load(args.results), args.recordings, args.names))
    if not chosen:
        parser.error("no scenario has a result, a recording of its arm zero, and one of another arm")
    found = [one for one in (found_in(*pair) for pair in chosen) if one is not None]
    print("### Shares, µs per step: measured → found (error in % of the off step)\n\n" + shares_table(found))
    print("\n### Sum of the absolute errors of the shares, % of the off step\n\n" + methods_table(found))
    recordings = dict.fromkeys(path for _, _, on, off in chosen for path in (off, on))
    print("\n### No difference: halves of one recording, µs per step\n\n" + null_table(list(recordings)))


if __name__ == "__main__":
    main()
