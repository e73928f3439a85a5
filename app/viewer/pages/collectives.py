"""Collectives of both arms: how often, how many bytes, how long, how fast, and by which kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import dash
from dash import html
from dash.development.base_component import Component

from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.charts import graph
from cctrace.app.viewer.choices import notes
from cctrace.app.viewer.collective_charts import bandwidth_chart, time_chart
from cctrace.app.viewer.collective_rows import ArmCollectives, Line, arms_of, lines_of
from cctrace.app.viewer.collective_tables import (
    ONE_RANK,
    detail_table,
    kernel_changes,
    main_table,
    rank_table,
    reasons,
)
from cctrace.app.viewer.view import View

PATH: Final = "/collectives"
TITLE: Final = "Collectives"


def layout(view: View, state: Address) -> Component:
    """The page. Raises Pending, or UnusableInputError."""
    arms = arms_of(view, state)
    lines = lines_of(arms)
    if not lines:
        return _nothing(arms)
    return html.Div(
        [
            html.H2("Collectives per step"),
            *notes(_notes(arms)),
            html.Div(main_table(arms, lines), id="collectives-main"),
            *(html.P(text, className="faint") for text in _legend(arms, lines)),
            *_charts(arms, lines),
            html.H2("Waiting for the latest rank"),
            *_ranks(arms, lines),
            *_kernels(view, arms),
            html.H2("In detail"),
            html.Div(detail_table(arms, lines, state), id="collectives-detail"),
            *(html.P(safe(text), className="faint") for text in _detail_legend(arms, lines)),
        ]
    )


def register(app: dash.Dash, view: View) -> None:
    """Nothing: what is shown follows from the address."""


def _nothing(arms: list[ArmCollectives]) -> Component:
    texts = [f"{one.prefix}{one.run.name} shows none: {one.table.none_because}." for one in arms]
    return html.Div([html.H2("No collectives to show"), *(html.P(safe(text)) for text in texts)])


def _notes(arms: list[ArmCollectives]) -> Iterable[tuple[str, str]]:
    """(arm's prefix, what a reader of its numbers must know)."""
    for one in arms:
        own = one.table
        if own.none_because:
            yield one.prefix, f"shows no collective: {own.none_because}."
            continue
        if own.no_times_because:
            yield one.prefix, f"cannot tell times, because {own.no_times_because}."
        if own.emulated:
            yield (
                one.prefix,
                "emulated: the recorder lengthened transfers by kernels of its own behind them, which these "
                "times do not hold.",
            )
        elif own.distorted:
            yield (
                one.prefix,
                "made with CUPTI, which lengthens host calls: transfers hold, waiting for the latest rank "
                "may be longer than without.",
            )
        if own.no_steps_because:
            yield one.prefix, f"everything counts, because steps cannot be told: {own.no_steps_because}."


def _legend(arms: list[ArmCollectives], lines: list[Line]) -> list[str]:
    cells = [cell for line in lines for cell in line.cells.values()]
    texts = []
    if any(cell.joined for cell in cells):
        texts.append(
            "Time: median of the transfer, the shortest time of the joined ranks, so without the wait for "
            "the latest one."
        )
    if any(cell.us is not None and not cell.joined for cell in cells):
        texts.append(f"{ONE_RANK.strip()} on one rank, the wait for the latest one included.")
    if any(one.table.steps for one in arms):
        texts.append("A step: per steady step and rank, over all classes of steps.")
    texts.append(
        "Bus bandwidth: bytes ÷ time × factor of the operation, as NCCL's own tests count it: what crosses "
        "each link. Bytes: of the larger buffer of one rank, median."
    )
    if any(not line.some.of_nccl for line in lines):
        texts.append("† known by the symbol of its kernel alone: no call of NCCL belongs to it.")
    return texts


def _detail_legend(arms: list[ArmCollectives], lines: list[Line]) -> list[str]:
    return [
        *reasons(arms, lines),
        "Host call: median time in NCCL's function outside of graphs; it submits, and says nothing on the "
        "transfer. Kernel: what its symbol says; NCCL's kernels can run other protocols than the named one.",
    ]


def _charts(arms: list[ArmCollectives], lines: list[Line]) -> list[Component]:
    made = (
        ("collectives-time", time_chart(arms, lines), "Time against bytes"),
        ("collectives-bandwidth", bandwidth_chart(arms, lines), "Bus bandwidth against bytes"),
    )
    shown = [html.Div(graph(name, figure, title), className="half") for name, figure, title in made if figure]
    return [html.Div(shown, className="columns")] if shown else []


def _ranks(arms: list[ArmCollectives], lines: list[Line]) -> list[Component]:
    parts: list[Component] = []
    shown = rank_table(arms, lines)
    if shown is not None:
        parts += [
            html.Div(shown, id="collectives-ranks"),
            html.P(
                "A collective begins on each rank by itself and ends on all together. Transfer: its shortest "
                "time of a rank. Wait: from the first rank's begin to the last one's, within the accuracy of "
                "the GPUs' clocks.",
                className="faint",
            ),
        ]
    for one in arms:
        if one.table.rows and one.joined.cannot_tell_because:
            parts.append(html.P(f"{one.prefix}cannot tell, because {one.joined.cannot_tell_because}."))
        elif one.files > 1:
            parts.append(html.P(f"{one.prefix}{one.files} recordings of ranks joined.", className="faint"))
    return parts


def _kernels(view: View, arms: list[ArmCollectives]) -> list[Component]:
    if not view.is_pair:
        return []
    return [html.H2("Algorithms"), *kernel_changes(arms)]
