"""Tables of copies: what one costs by size, the law, copies per step, the slowest ones, sites that block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from cctrace.analyzers.attribution.result import ClassBreakdown, Site
from cctrace.analyzers.copies import CopyBucket
from cctrace.analyzers.copy_law import Law
from cctrace.analyzers.copy_points import CopyGroup
from cctrace.analyzers.copy_rows import RETURNED, WAITING
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import bytes_text, count_text, signed_time, time_text
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import TIMELINE, Address
from cctrace.app.viewer.copy_charts import law_text, rate_text
from cctrace.app.viewer.copy_choice import (
    CALLS,
    DIRECTIONS,
    ArmCopies,
    Choice,
    groups_by_kind,
    kind_text,
    memory_name,
)
from cctrace.app.viewer.grid import table
from cctrace.app.viewer.view import ON, View
from cctrace.trace.schema import COPY_KINDS

SLOWEST: Final = 8
"""Slowest copies of each arm."""
AROUND_US: Final = 100.0
"""What the timeline shows before and after a site."""
_DASH: Final = "–"
_BLOCKING_CAUSES: Final = ("overlap", "pcie")


# ---- the law


def law_table(arms: Sequence[ArmCopies], choice: Choice) -> Component:
    """Fixed cost and bandwidth of each kind of copies, or why they cannot be told."""
    rows: list[list[Any]] = []
    for group_of in groups_by_kind(arms, choice):
        for one, group in group_of:
            rows.append(
                [
                    kind_text(group.direction, group.host_memory),
                    *_arm_cell(one),
                    *_law_cells(one, group, choice),
                ]
            )
    columns = [
        "copies",
        *(["arm"] if len(arms) > 1 else []),
        "fixed cost",
        "bandwidth",
        "from",
        "law, or why there is none",
    ]
    return table(columns, rows, numbers_from=len(columns), label="Fixed cost and bandwidth of copies")


def _arm_cell(one: ArmCopies) -> list[Any]:
    return [arm_name(one.arm)] if one.prefix else []


def arm_name(arm: str) -> Component:
    """The name of an arm with its mark."""
    return html.Span(arm, className=f"arm arm-{arm}")


def _law_cells(one: ArmCopies, group: CopyGroup, choice: Choice) -> list[str]:
    fit, law = group.fit, group.fit.law
    if one.points.distorted and choice.layer == CALLS:
        return [_DASH, _DASH, "", "cannot tell, because CUPTI lengthens host calls in this recording"]
    if law is None:
        return [_DASH, _DASH, "", f"cannot tell, because {fit.cannot_tell_because}"]
    seen = f"{fit.copies:,} copies of {fit.sizes} sizes"
    return [_interval(law), _rate_interval(law, choice), seen, law_text(law)]


def _interval(law: Law) -> str:
    return f"{time_text(law.fixed_us)} [{time_text(law.fixed_low_us)} to {time_text(law.fixed_high_us)}]"


def _rate_interval(law: Law, choice: Choice) -> str:
    if law.gb_per_s is None:
        why = ": the call returns before the data have moved" if choice.layer == CALLS else ""
        return f"the time does not grow with the size{why}"
    low = rate_text(law.gb_per_s_low) if law.gb_per_s_low else "?"
    high = rate_text(law.gb_per_s_high) if law.gb_per_s_high else "no end"
    return f"{rate_text(law.gb_per_s)} [{low} to {high}]"


# ---- per step


def step_table(arms: Sequence[ArmCopies]) -> Component:
    """Copies per step of the class that stands for each run."""
    keys: dict[tuple[str, str, int], dict[str, CopyBucket]] = {}
    order = list(DIRECTIONS)
    for one in arms:
        for bucket in one.points.per_step:
            keys.setdefault((bucket.direction, bucket.host_memory, bucket.from_bytes), {})[one.arm] = bucket
    rows: list[list[Any]] = []
    for key in sorted(keys, key=lambda key: (order.index(key[0]), *key[1:])):
        of_arm = keys[key]
        some = next(iter(of_arm.values()))
        last = max(some.below_bytes - 1, 0)
        sizes = bytes_text(float(some.from_bytes)) + (
            f" to {bytes_text(float(last))}" if last > some.from_bytes else ""
        )
        cells = [_step_cells(of_arm.get(one.arm)) for one in arms]
        rows.append(
            [
                kind_text(key[0], key[1]),
                sizes,
                *(cell for quantity in zip(*cells, strict=True) for cell in quantity),
            ]
        )
    quantities = ("a step", "bytes a step", "median", "waited")
    titles = [f"{one.prefix}{quantity}" for quantity in quantities for one in arms]
    return table(["copies", "size", *titles], rows, numbers_from=2, label="Copies per step")


def _step_cells(bucket: CopyBucket | None) -> list[str]:
    if bucket is None:
        return [_DASH] * 4
    waited = f"{bucket.waited:,}" if bucket.waited else _DASH
    return [
        count_text(bucket.per_step),
        bytes_text(bucket.bytes_per_step),
        time_text(bucket.median_us),
        waited,
    ]


# ---- the slowest


def slowest_table(
    arms: Sequence[ArmCopies], choice: Choice, directions: Sequence[str], state: Address
) -> Component:
    """The slowest shown copies of each arm, with a way to each in the timeline."""
    rows: list[list[Any]] = []
    for one in arms:
        points = one.points
        chosen = np.flatnonzero(np.logical_or.reduce([choice.mask(one, each) for each in directions]))
        for row in chosen[np.argsort(-points.us[chosen], kind="stable")[:SLOWEST]].tolist():
            link = row_link(state, one.arm, int(points.row[row]))
            thread = int(points.thread[row])
            waiting = int(points.waiting[row])
            rows.append(
                [
                    dcc.Link(f"{one.prefix}row {int(points.row[row])}", href=link),
                    _kind_of(int(points.direction[row]), int(points.memory[row])),
                    points.threads[thread].name if thread >= 0 else _DASH,
                    "" if waiting == RETURNED else WAITING[waiting],
                    bytes_text(float(points.bytes[row])),
                    time_text(float(points.us[row])),
                ]
            )
    columns = ["in the timeline", "copy", "thread", "waiting", "size", "time"]
    return table(columns, rows, numbers_from=4, label="Slowest copies")


def _kind_of(direction: int, memory: int) -> str:
    words = COPY_KINDS[direction] if direction >= 0 else "unknown"
    return kind_text(words, memory_name(memory) if memory >= 0 else "")


def row_link(state: Address, arm: str, row: int) -> str:
    """Where the timeline shows a row; the same recordings stay chosen."""
    return str(state.elsewhere(TIMELINE).with_(arm=arm, row=row))


# ---- sites that block


def blocking_sites(report: Report, view: View) -> list[Component]:
    """Places in the steps where copies cost time in the on arm, and what each would save."""
    run = _on_run(report, view)
    rows = [
        _site_row(one, site, run)
        for one in report.classes
        for site in one.sites
        if site.category.startswith("copy") and site.cause in _BLOCKING_CAUSES
    ]
    if not rows:
        return [html.P(safe(_no_sites(report)))]
    columns = ("copy", "cause", "steps", "thread", "in the step", "off", "on", "saved if removed")
    return [
        table(columns, rows, numbers_from=5, label="Copies that block"),
        html.P(
            "Off, on: mean time in the call. Saved: how much shorter the on arm's step gets if this place "
            "alone behaves as in the off arm (replayed).",
            className="faint",
        ),
    ]


def _no_sites(report: Report) -> str:
    refused = [reason for one in report.classes for reason in one.refused_because]
    if refused or not report.classes:
        reasons = refused or list(report.refused_because) or ["the arms have no steps in common"]
        return f"Cannot tell which places block, because {reasons[0]}."
    return "No copy blocks, or costs more in the on arm, at a place that costs 0.5 µs a step or more."


def _on_run(report: Report, view: View) -> dict[str, str]:
    """Parameters that lead to the recording of the on arm that the sites are about."""
    pair = report.runs[report.calls_of_pair - 1]
    names = [str(run.path) for run in view.arm(ON).runs]
    number = names.index(pair.on) if pair.on in names else 0
    return {f"run_{ON}": str(number)} if number else {}


def _site_row(one: ClassBreakdown, site: Site, run: Mapping[str, str]) -> list[Any]:
    place = Address(TIMELINE, run).with_(
        **{"class": one.on_class},
        arm=ON,
        ordinal=int(one.on_steps) // 2,
        from_us=f"{max(site.offset_us - AROUND_US, 0.0):.1f}",
        to_us=f"{site.offset_us + site.on_us + AROUND_US:.1f}",
    )
    times = "" if abs(site.calls_per_step - 1) < 0.05 else f"{count_text(site.calls_per_step)} × "
    size = "" if site.bytes is None else f" of {bytes_text(float(site.bytes))}"
    words = "blocks" if site.cause == "overlap" else "costs more"
    return [
        f"{times}{site.category}{size}",
        html.Span(
            f"{site.cause}: {words}", className="cause", style={"borderColor": f"var(--cause-{site.cause})"}
        ),
        one.on_class,
        site.thread,
        dcc.Link(f"call {site.position + 1}, at {time_text(site.offset_us)}", href=str(place)),
        time_text(site.off_us),
        time_text(site.on_us),
        signed_time(-site.saved_if_removed_us),
    ]


def notes_of(arms: Iterable[ArmCopies], choice: Choice) -> Iterable[tuple[str, str]]:
    """(arm's prefix, what a reader of its numbers must know)."""
    for one in arms:
        points, metadata = one.points, one.run.trace.metadata
        if points.distorted and choice.layer == CALLS:
            yield one.prefix, "made with CUPTI, which lengthens host calls: these times are no tolls."
        if metadata.emulation is not None:
            charged = ", ".join(metadata.emulation.causes) or "nothing"
            profile = metadata.emulation.profile or "unknown profile"
            yield (
                one.prefix,
                f"emulated ({profile}: {charged}): the recorder charged these costs; this is no measurement "
                "of confidential computing.",
            )
        if points.no_steps_because:
            yield one.prefix, f"cannot tell steady steps, because {_why(points.no_steps_because)}."
        if points.without_size:
            yield one.prefix, f"{points.without_size:,} copies of 0 or unknown bytes are not drawn."


def _why(reason: str) -> str:
    return reason.removeprefix("cannot tell the steps, because ").rstrip(".")
