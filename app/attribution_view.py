"""What a comparison says first, as blocks: the sentence, doubts, the waterfall, the shares of the causes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cctrace.analyzers.attribution.result import (
    CAUSES,
    Breakdown,
    CauseShare,
    Comparability,
    Residual,
    Shares,
)
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import percent, plural, signed_time, time_text
from cctrace.analyzers.statistics.verdict import WITHIN_NOISE
from cctrace.app.blocks import FAINT, STRONG, WARNING, Block, Cell, Paragraph, Row, Sheet, Title
from cctrace.app.waterfall import waterfall_of

COLUMNS: Final = (
    "share: mean over all orders in which the causes can join; alone: what the cause alone adds to the off "
    "step; saved: what the on step loses if the cause is removed; hidden: cost of its calls that other work "
    "covers."
)
"""What the columns of a table of causes mean."""
LOOPS: Final = (".compute.median_us", ".memory.median_us")
"""Fields of a state check that its own sentence is about."""
MAX_VALUE_CHARACTERS: Final = 60
MAX_WARNINGS: Final = 8
"""Differences between the arms that are listed before the numbers; arms that differ in all their settings
would fill the screen."""
NO_PLAYER_US: Final = 0.005
"""Parts of the residual that are zero by definition, where nothing of the kind differs, are not listed."""
_DASH: Final = "–"


def opening_blocks(report: Report) -> Iterable[Block]:
    """What comes before any table: the sentence, labels, what else differs, the verdict."""
    state = report.calls.state
    for difference in state.not_same:  # before any number: it may be about something else than CC
        yield Paragraph(f"! {difference}.", WARNING)
    yield Paragraph(report.headline, STRONG)
    for label in report.labels:
        yield Paragraph(f"This comparison is {label}.", WARNING)
    found = [one for one in report.comparability if not (state.not_same and one.name.endswith(LOOPS))]
    for one in found:
        if one.severity == "forbids":
            yield Paragraph(f"Not comparable: {one.message}{_values(one)}", WARNING)
    warnings = [f"{one.message}{_values(one)}" for one in found if one.severity == "warns"]
    for warning in warnings[:MAX_WARNINGS]:
        yield Paragraph(f"! {warning}", WARNING)
    if len(warnings) > MAX_WARNINGS:
        left = plural(len(warnings) - MAX_WARNINGS, "more such difference")
        yield Paragraph(f"! {left}; --json lists all", WARNING)
    for warning in report.calls.warnings[len(state.not_same) :]:
        yield Paragraph(f"! {warning}", WARNING)
    # The headline names the emulated platform; its values are in the JSON.
    expected = [
        f"{one.name} {short(one.off)} → {short(one.on)}"
        for one in found
        if one.severity == "expected" and one.name != "emulation"
    ]
    if expected:
        yield Paragraph(f"As meant: {', '.join(expected)}.", FAINT)
    # The sentence has said the first reason.
    for reason in report.refused_because[1:]:
        yield Paragraph(f"Cannot attribute, because {reason}.", WARNING)
    yield from _verdict_blocks(report)


def _values(one: Comparability) -> str:
    """What the arms say; of a doubt about one arm, or an arm that does not say, only the other's."""
    said = [f"{arm}: {short(text)}" for arm, text in (("off", one.off), ("on", one.on)) if text is not None]
    return f" ({'; '.join(said)})" if said else ""


def short(text: str | None) -> str:
    """A value that may be long: a command line, a list."""
    if text is None:
        return "not known"
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…"


def _verdict_blocks(report: Report) -> Iterable[Block]:
    if not report.phases.found():
        yield Paragraph("Verdict: none: steps of different work say nothing about each other.")
        return
    verdict = report.statistics.verdict
    yield Paragraph(f"Verdict: {verdict.verdict}: {verdict.because}.")
    if verdict.more_pairs:
        pairs = plural(verdict.more_pairs, "more pair")
        yield Paragraph(f"A statement to ±1 % takes {pairs} of runs.")
    if verdict.verdict == WITHIN_NOISE and report.shares is not None:
        yield Paragraph(
            "Shares of launch and pcie differ far less between runs than the total: they can be read, though "
            "the total is within noise."
        )


def whole_blocks(report: Report) -> Iterable[Block]:
    """The waterfall and the shares of all steps together."""
    yield Title(f"From the off step to the on step (100 %: {report.denominator})")
    yield waterfall_of(report)
    if report.phases.found():
        yield Paragraph(
            f"Step growth {percent(report.step_growth, signed=True)} = on ÷ off − 1, of the off arm's step. "
            f"Throughput loss {percent(report.throughput_loss)} = 1 − on ÷ off, of the off arm's tokens per "
            "second at equal batch."
        )
    yield from share_blocks(report)
    if report.shares is not None:
        yield Paragraph(COLUMNS, FAINT)
    if report.ci_kind is not None:
        yield Paragraph(f"Intervals: {report.ci_kind}.", FAINT)
    for note in report.notes:
        yield Paragraph(f"- {note}.", FAINT)
    for left in report.not_compared:
        yield Paragraph(f"- without a counterpart: {left}.", FAINT)


def share_blocks(one: Breakdown) -> Iterable[Block]:
    """The table of causes; nothing without shares."""
    if one.shares is None or one.residual is None:
        return
    rows: list[Row] = [*_cause_rows(one.shares), *_residual_rows(one.residual, one.off_step_us)]
    rows.append(_sum_row(one))
    columns = ("cause", "share", "% of off", "alone", "saved", "hidden")
    if any(row[-1] for row in rows):
        yield Sheet((*columns, "95 %"), tuple(rows))
    else:
        yield Sheet(columns, tuple(row[:-1] for row in rows))
    if one.shares.nvlink is None:
        yield Paragraph(f"NVLink: cannot tell, because {one.shares.nvlink_unknown_because}; see gpu.")
    if one.model is not None:
        errors = (one.model.off_error_us, one.model.on_error_us)
        off, on = (percent(error / one.off_step_us, signed=True) for error in errors)
        yield Paragraph(
            f"Check of the model: the replay misses the off arm by {off} and the on arm by {on} of the off "
            "step.",
            FAINT,
        )


def _cause_rows(shares: Shares) -> list[Row]:
    return [_cause_row(cause, getattr(shares, cause)) for cause in CAUSES]


def _cause_row(cause: str, share: CauseShare | None) -> Row:
    name = Cell(cause, cause)
    if share is None:
        return [name, _DASH, _DASH, _DASH, _DASH, _DASH, ""]
    return [
        name,
        Cell(signed_time(share.share_us), cause),
        percent(share.share_pct_of_off / 100, signed=True),
        signed_time(share.alone_us),
        saved_text(share.saved_if_removed_us),
        signed_time(share.hidden_us),
        interval_text(share.ci_us),
    ]


def saved_text(us: float) -> str:
    """A saving: positive without a sign."""
    return signed_time(us).removeprefix("+")


def _residual_rows(rest: Residual, off_us: float) -> list[Row]:
    gpu = "  gpu, nvlink" if rest.gpu_holds_nvlink else "  gpu"
    rows: list[Row] = [
        _plain_row(Cell("residual", "residual"), rest.total_us, off_us, rest.total_ci_us),
        _plain_row("  host", rest.host_us, off_us, rest.host_ci_us),
        _plain_row(gpu, rest.gpu_us, off_us, rest.gpu_ci_us),
    ]
    if abs(rest.schedule_mix_us) > NO_PLAYER_US:
        rows.append(_plain_row("  schedule mix", rest.schedule_mix_us, off_us, None))
    rows.append(_plain_row("  model error", rest.model_error_us, off_us, None))
    return rows


def _sum_row(one: Breakdown) -> Row:
    return _plain_row("on − off", one.delta_us, one.off_step_us, one.delta_ci_us)


def _plain_row(name: str | Cell, us: float, off_us: float, ci: tuple[float, ...] | None) -> Row:
    return [name, signed_time(us), percent(us / off_us, signed=True), "", "", "", interval_text(ci)]


def interval_text(ci: tuple[float, ...] | None) -> str:
    """`±70.0 µs`: the intervals are symmetric about what they belong to."""
    return "" if ci is None else f"±{time_text((ci[1] - ci[0]) / 2)}"
