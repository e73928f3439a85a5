"""How a metric of steady steps is distributed, by class: histograms, ECDFs, and a table of quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from dash.development.base_component import Component

from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.distribution import Quantiles, curve, histogram, quantiles
from cctrace.analyzers.sentences import percent, plural
from cctrace.app.palette import ARM_COLOURS
from cctrace.app.viewer.charts import ARM_DASHES, figure
from cctrace.app.viewer.grid import table
from cctrace.app.viewer.step_charts import GRID, Unit, axis_title, log_ticks, panel_title, unit_of, value_text
from cctrace.app.viewer.step_choice import LOGARITHMIC, ArmSteps, Choice, Group
from cctrace.app.viewer.view import OFF, ON

MAX_CLASSES: Final = 4
"""Classes that are drawn: those with most time. The table has all of them."""
MIN_DRAWN: Final = 10
"""Steady steps, in one arm at least, that a class must have to be drawn: fewer have no shape."""
PANEL: Final = 200
LEAST: Final = 280
FRAME: Final = 80
GAP: Final = 40
FILL_OPACITY: Final = 0.25


@dataclass(frozen=True, eq=False)
class Sample:
    """The numbers of the steady steps of one class in one arm."""

    steps: ArmSteps
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Facet:
    """One class: its samples, one for each arm that has steady steps of it."""

    title: str
    samples: tuple[Sample, ...]


def facets_of(arms: Sequence[ArmSteps], groups: Sequence[Group], choice: Choice) -> list[Facet]:
    """The classes among the chosen steps that have steady steps, most time first."""
    found = []
    for group in groups:
        if group.kind != "class" or not _within(group, choice.group):
            continue
        samples = tuple(_sample(one, group, choice) for one in arms)
        kept = tuple(one for one in samples if len(one.values))
        if kept:
            found.append(Facet(group.title, kept))
    return found


def drawn_of(facets: Sequence[Facet]) -> list[Facet]:
    """The classes that are drawn; the first one if all have too few steps."""
    enough = [one for one in facets if any(len(each.values) >= MIN_DRAWN for each in one.samples)]
    return (enough or list(facets[:1]))[:MAX_CLASSES]


def _within(group: Group, chosen: Group) -> bool:
    return any(set(numbers) & set(chosen.classes.get(arm, ())) for arm, numbers in group.classes.items())


def _sample(steps: ArmSteps, group: Group, choice: Choice) -> Sample:
    values = steps.process.values(choice.metric)
    return Sample(steps, values[group.mask(steps) & steps.process.steady & np.isfinite(values)])


def histograms(facets: Sequence[Facet], choice: Choice) -> tuple[go.Figure, list[str]]:
    """A histogram for each class, with bins that both arms share, and what they do not show."""
    drawn, unit = drawn_of(facets), _unit(facets, choice)
    traces: list[Any] = []
    notes: list[str] = []
    for number, facet in enumerate(drawn):
        found = histogram(
            [one.values for one in facet.samples],
            whole=choice.metric.unit != "µs",
            even_ratios=choice.y == LOGARITHMIC,
        )
        if found is None:
            continue
        edges = found.edges / unit.scale
        for sample, shares, beyond in zip(facet.samples, found.shares, found.beyond, strict=True):
            # The outline begins and ends on the axis.
            x, y = np.concatenate((edges[:1], edges)), np.concatenate(([0.0], shares * 100, [0.0]))
            traces.append(_outline(sample, x, y, number, fill=sample.steps.arm != OFF))
            if beyond:
                rest = percent(beyond / len(sample.values))
                largest = value_text(choice.metric, float(sample.values.max()))
                notes.append(
                    f"{sample.steps.prefix}{plural(beyond, 'step')} of {facet.title} ({rest}) beyond the "
                    f"histogram, up to {largest}."
                )
    return _stack(traces, drawn, choice, unit), notes


def ecdfs(facets: Sequence[Facet], choice: Choice) -> go.Figure:
    """The distribution function of each class: the part of its steps that take no more than x."""
    drawn, unit = drawn_of(facets), _unit(facets, choice)
    traces = []
    for number, facet in enumerate(drawn):
        for sample in facet.samples:
            values, shares = curve(sample.values)
            traces.append(_outline(sample, values / unit.scale, shares * 100, number, fill=False))
    return _stack(traces, drawn, choice, unit)


def _unit(facets: Sequence[Facet], choice: Choice) -> Unit:
    tops = [float(np.percentile(one.values, 99)) for facet in drawn_of(facets) for one in facet.samples]
    return unit_of(choice.metric, max(tops, default=0.0))


def _axis(letter: str, number: int) -> str:
    return letter if not number else f"{letter}{number + 1}"


def _outline(sample: Sample, x: FloatArray, y: FloatArray, number: int, *, fill: bool) -> go.Scatter:
    arm = sample.steps.arm
    colour = ARM_COLOURS[arm]
    channels = ",".join(str(int(colour[index : index + 2], 16)) for index in (1, 3, 5))
    return go.Scatter(
        x=x,
        y=y,
        xaxis=_axis("x", number),
        yaxis=_axis("y", number),
        mode="lines",
        line={"color": colour, "width": 2, "dash": ARM_DASHES[arm], "shape": "hv"},
        fill="tozeroy" if fill else None,
        fillcolor=f"rgba({channels},{FILL_OPACITY})",
        name=arm if arm in (ON, OFF) else "steps",
        legendgroup=arm,
        showlegend=number == 0,
    )


def _stack(traces: Sequence[Any], facets: Sequence[Facet], choice: Choice, unit: Unit) -> go.Figure:
    """One panel for each class, from the top down, each with its own horizontal axis."""
    count = max(len(facets), 1)
    height = max(PANEL * count, LEAST)
    gap = GAP / height
    axes: dict[str, Any] = {}
    titles = []
    for number, facet in enumerate(facets):
        top = 1 - number / count - gap / 2
        domain = [max(1 - (number + 1) / count + gap / 2, 0.0), top]
        grid = {"gridcolor": GRID, "zerolinecolor": GRID, "automargin": True}
        across = {**grid, "anchor": _axis("y", number)}
        across |= _logarithmic(facet, unit) if choice.y == LOGARITHMIC else {}
        across |= {"title": {"text": axis_title(choice.metric, unit)}} if number == count - 1 else {}
        axes[_axis("x", number).replace("x", "xaxis")] = across
        axes[_axis("y", number).replace("y", "yaxis")] = {
            **grid,
            "domain": domain,
            "anchor": _axis("x", number),
            "rangemode": "tozero",
            "ticksuffix": " %",
        }
        titles.append(panel_title(facet.title, top))
    return figure(traces, height=height + FRAME, annotations=titles, **axes)


def _logarithmic(facet: Facet, unit: Unit) -> dict[str, Any]:
    positive = [one.values[one.values > 0] / unit.scale for one in facet.samples]
    found = [one for one in positive if len(one)]
    if not found:
        return {"type": "log"}
    return {"type": "log", **log_ticks(min(map(np.min, found)), max(map(np.max, found)))}


def quantile_table(facets: Sequence[Facet], arms: Sequence[ArmSteps], choice: Choice) -> Component:
    """Median, spread and tail of each class in both arms, and how they differ."""
    rows: list[list[str]] = []
    for facet in facets:
        by_arm = {one.steps.arm: quantiles(one.values) for one in facet.samples}
        lines = [[one.arm, *_cells(by_arm.get(one.arm), choice)] for one in arms]
        if len(facet.samples) > 1:
            lines.append(["on ÷ off − 1", *_changes(by_arm)])
        # The class stands in the first of its lines.
        rows += [
            [title, *line] for title, line in zip([facet.title, *[""] * len(lines)], lines, strict=False)
        ]
    head = ["class", "arm", "steady steps", "median", "p10", "p90", "p99", "largest"]
    if len(arms) == 1:
        head, rows = [head[0], *head[2:]], [[row[0], *row[2:]] for row in rows]
    name = f"{choice.metric.title} of steady steps by class"
    return table(head, rows, numbers_from=len(arms), label=name)


def _cells(found: Quantiles | None, choice: Choice) -> list[str]:
    if found is None:
        return ["0", *["–"] * 5]
    numbers = (found.median, found.p10, found.p90, found.p99, found.largest)
    return [f"{found.count:,}", *(value_text(choice.metric, one) for one in numbers)]


def _changes(by_arm: dict[str, Quantiles | None]) -> list[str]:
    on, off = by_arm.get(ON), by_arm.get(OFF)
    pairs = [
        (on and getattr(on, name), off and getattr(off, name))
        for name in ("median", "p10", "p90", "p99", "largest")
    ]
    return ["", *(percent(a / b - 1, signed=True) if a is not None and b else "–" for a, b in pairs)]
