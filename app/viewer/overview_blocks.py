"""What the first page and its export both say: numbers of both arms with denominators, shares, recordings."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Final

from cctrace.analyzers.attribution.result import Breakdown
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import count_text, percent, plural, signed_time, time_text
from cctrace.app.attribution_view import share_blocks
from cctrace.app.blocks import FAINT, WARNING, Block, Paragraph, Row, Sheet, Title
from cctrace.app.viewer.view import OFF, ON, Arm, View

ALL: Final = "all"
"""All compared steps, beside the phases."""
_DASH: Final = "–"
_RESULTS: Final = (
    ("tpot_ms", "TPOT, median", "ms"),
    ("ttft_ms", "TTFT, median", "ms"),
    ("output_throughput", "output throughput", "tokens/s"),
    ("request_throughput", "request throughput", "requests/s"),
    ("goodput", "goodput", "requests/s"),
)
"""What a load generator measured, as far as it was attached to the recordings."""


def number_blocks(view: View, report: Report, one: Breakdown) -> Iterable[Block]:
    """The step and what a load generator measured, with denominators; `one` is all steps or a phase."""
    growth = one.on_step_us / one.off_step_us
    rows: list[Row] = [
        [
            "mean step",
            time_text(one.off_step_us),
            time_text(one.on_step_us),
            percent(growth - 1, signed=True),
        ],
        ["compared steps", count_text(one.off_steps), count_text(one.on_steps), ""],
    ]
    measured = _results(view)
    yield Sheet(("measured", "off", "on", "on ÷ off − 1"), (*rows, *measured))
    throughput = percent(1 - 1 / growth) if growth else _DASH
    yield Paragraph(
        f"{signed_time(one.delta_us)} a step. Step growth {percent(growth - 1, signed=True)} = on ÷ off − 1, "
        f"of the off arm's step. Throughput loss {throughput} = 1 − on ÷ off, of the off arm's tokens per "
        "second at equal batch."
    )
    yield Paragraph(f"100 %: {one.denominator}.", FAINT)
    if report.ci_kind:
        yield Paragraph(f"Intervals: {report.ci_kind}.", FAINT)
    if not measured:
        yield Paragraph(
            "TPOT and throughput: not known: no load generator's results are attached (record --results).",
            FAINT,
        )


def _results(view: View) -> list[Row]:
    rows: list[Row] = []
    for key, name, unit in _RESULTS:
        off, on = (_mean(view.arm(arm), key) for arm in (OFF, ON))
        if off is None and on is None:
            continue
        change = percent(on / off - 1, signed=True) if off and on is not None else _DASH
        rows.append(
            [f"{name}, {unit}", *(_DASH if one is None else _number(one) for one in (off, on)), change]
        )
    return rows


def _number(value: float) -> str:
    """Four digits, and no power of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _mean(arm: Arm, key: str) -> float | None:
    found = [getattr(run.trace.metadata.acceptance.results, key) for run in arm.runs]
    known = [float(one) for one in found if one is not None]
    return statistics.fmean(known) if known else None


def part_blocks(report: Report, one: Breakdown, phase: str) -> Iterable[Block]:
    """The causes of all steps or of a phase, or why there are none; what was assumed on the way."""
    if one is not report:  # the opening has said those
        for reason in one.refused_because:
            yield Paragraph(f"Cannot attribute, because {reason}.", WARNING)
    yield from share_blocks(one)
    for note in one.notes:
        yield Paragraph(f"- {note}.", FAINT)
    for text in report.not_compared if phase == ALL else ():
        yield Paragraph(f"- without a counterpart: {text}.", FAINT)


def recording_blocks(view: View) -> Iterable[Block]:
    """Which files are shown, and which of a folder are not."""
    rows: tuple[Row, ...] = tuple(
        [
            arm.name,
            run.name,
            f"CC {run.trace.metadata.acceptance.security.cc_mode or 'not known'}",
            run.trace.metadata.acceptance.hardware.gpu_model or "not known",
            run.trace.metadata.recording.started_at or "not known",
            f"{run.trace.num_rows:,}",
        ]
        for arm in view.arms
        for run in arm.runs
    )
    yield Title(plural(len(rows), "recording"))
    yield Sheet(("arm", "recording", "state", "GPU", "recorded at", "rows"), rows, numbers_from=5)
    for line in (line for arm in view.arms for line in arm.unusable):
        yield Paragraph(f"! left out: {line}", WARNING)
