"""The chart of steps over time: one panel for each metric, both arms in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.downsample import MAX_POINTS, extremes, levels
from cctrace.analyzers.sentences import count_text, plural, time_text
from cctrace.analyzers.steady import EXCLUSIONS, STEADY
from cctrace.analyzers.step_series import Metric
from cctrace.app.palette import ARM_COLOURS
from cctrace.app.viewer.charts import ARM_DASHES, ARM_SYMBOLS, figure, plain
from cctrace.app.viewer.step_choice import BY_STEP, FROM_ZERO, LOGARITHMIC, ArmSteps, Choice

PANEL: Final = 170
"""Height of one panel of a stack, pixels."""
FRAME: Final = 90
"""Room above and below a stack: legend, names of the horizontal axis."""
GAP: Final = 34
TITLE: Final = 22
"""Between two panels of a stack, and above the first one: the title of a panel."""
ALL_POINTS: Final = 4800
"""Of one figure: a browser draws so many in a quarter of a second."""
LEFT_OUT_POINTS: Final = 240
LEFT_OUT: Final = {"on": "x", "off": "x-open", "one": "x"}
HIGHER: Final = {"on": "triangle-up", "off": "triangle-up-open", "one": "triangle-up"}
LOWER: Final = {"on": "triangle-down", "off": "triangle-down-open", "one": "triangle-down"}
"""Steps that do not count, in the range and beyond its ends: steps that count decide the range."""
FAINT: Final = 0.5
SPARSE: Final = 0.8
DENSE: Final = 0.5
"""How opaque left-out steps are, and steps that count: many of them cover each other."""
GRID: Final = "rgba(128,128,128,0.25)"
NEAR: Final = 8
"""Pixels from a point that still mean it: a double click beside the points must not open one."""
FEW_DECADES: Final = 2
"""Powers of ten that a logarithmic axis may span with more ticks than those at the powers."""
ROOM: Final = 0.06
"""Part of the vertical range that stays empty above and below."""


@dataclass(frozen=True)
class Unit:
    """A unit that suits the numbers of an axis: `value / scale` is in it."""

    name: str
    scale: float


@dataclass(frozen=True, eq=False)
class Points:
    """The steps of one arm in one panel.

    Attributes:
        steps: of which arm.
        x: of all steps of the arm, in the unit of the axis.
        y: the metric of all steps of the arm.
        steady: positions of the steps in view that count.
        left_out: positions of those that do not.
    """

    steps: ArmSteps
    x: FloatArray | IntArray
    y: FloatArray
    steady: IntArray
    left_out: IntArray


@dataclass(frozen=True, eq=False)
class Panel:
    """One metric of both arms.

    Attributes:
        metric: what is drawn.
        arms: the steps of each arm.
        low: lowest value that has a place.
        high: highest value that has a place.
        unit: of the axis.
        axis: Plotly's name of the vertical axis: "y", "y2" …
    """

    metric: Metric
    arms: tuple[Points, ...]
    low: float
    high: float
    unit: Unit
    axis: str


def unit_of(metric: Metric, largest: float) -> Unit:
    """The unit for numbers of a metric up to `largest`."""
    if metric.unit != "µs":
        return Unit(metric.unit, 1.0)
    if largest < 2e3:
        return Unit("µs", 1.0)
    return Unit("ms", 1e3) if largest < 2e6 else Unit("s", 1e6)


def axis_title(metric: Metric, unit: Unit) -> str:
    """What an axis of a metric shows, with the unit."""
    return f"{metric.title}, {unit.name}" if metric.unit == "µs" else f"{metric.title} per step"


def value_text(metric: Metric, value: float) -> str:
    """A number of a metric with its unit."""
    if not np.isfinite(value):
        return "–"
    return time_text(value) if metric.unit == "µs" else count_text(value)


def over_time(arms: Sequence[ArmSteps], choice: Choice) -> tuple[go.Figure, list[str]]:
    """The chosen metrics, one below the other, and what must be said about them."""
    count = len(choice.metrics)
    most = min(MAX_POINTS, ALL_POINTS // (count * len(arms)))
    panels = [_panel(metric, number, arms, choice) for number, metric in enumerate(choice.metrics)]
    domains = _domains(count)
    axes: dict[str, Any] = {
        panel.axis.replace("y", "yaxis"): _y_axis(panel, domain, choice)
        for panel, domain in zip(panels, domains, strict=True)
    }
    traces = [trace for panel in panels for points in panel.arms for trace in _traces(panel, points, most)]
    shown = figure(
        traces,
        x="step" if choice.x == BY_STEP else "seconds since the first step of the arm",
        height=FRAME + PANEL * count,
        annotations=[
            panel_title(axis_title(panel.metric, panel.unit), domain[1])
            for panel, domain in zip(panels, domains, strict=True)
        ],
        xaxis={"range": list(choice.span or whole_span(arms, choice)), "anchor": panels[-1].axis},
        hovermode="closest",
        hoverdistance=NEAR,
        **axes,
    )
    notes = [note for panel in panels for note in _notes(panel, choice, most)]
    if not any(len(points.steady) or len(points.left_out) for panel in panels for points in panel.arms):
        notes.insert(0, "None of the chosen steps lies in this range.")
    return shown, list(dict.fromkeys([*notes, *_unknown(arms)]))


def _unknown(arms: Sequence[ArmSteps]) -> list[str]:
    reasons = [(one.prefix, one.process.gpu_unknown_because) for one in arms]
    return [f"{prefix}GPU busy: cannot tell, because {reason}." for prefix, reason in reasons if reason]


def _panel(metric: Metric, number: int, arms: Sequence[ArmSteps], choice: Choice) -> Panel:
    found = tuple(_points(one, metric, choice) for one in arms)
    low, high = _limits(found, choice)
    return Panel(metric, found, low, high, unit_of(metric, high), "y" if not number else f"y{number + 1}")


def _points(steps: ArmSteps, metric: Metric, choice: Choice) -> Points:
    x, y = _x_of(steps, choice), steps.process.values(metric)
    inside: BoolArray = choice.group.mask(steps) & np.isfinite(y)
    if choice.span is not None:
        first, last = np.searchsorted(x, choice.span[0]), np.searchsorted(x, choice.span[1], side="right")
        inside[:first] = inside[last:] = False
    if choice.y == LOGARITHMIC:
        inside &= y > 0
    steady = steps.process.steady
    left_out = np.flatnonzero(inside & ~steady) if choice.left_out else np.zeros(0, np.int64)
    return Points(steps, x, y, np.flatnonzero(inside & steady), left_out)


def _x_of(steps: ArmSteps, choice: Choice) -> FloatArray | IntArray:
    return np.arange(len(steps.process)) if choice.x == BY_STEP else steps.seconds()


def _limits(found: Sequence[Points], choice: Choice) -> tuple[float, float]:
    """Lowest and highest value of the vertical axis: steady steps decide, if there are any in view."""
    chosen = [points.y[points.steady] for points in found if len(points.steady)]
    chosen = chosen or [points.y[points.left_out] for points in found if len(points.left_out)]
    if not chosen:
        return (1.0, 10.0) if choice.y == LOGARITHMIC else (0.0, 1.0)
    low, high = min(float(one.min()) for one in chosen), max(float(one.max()) for one in chosen)
    if choice.y == LOGARITHMIC:
        factor = max((high / low) ** ROOM, 1.05)
        return low / factor, high * factor
    if choice.y == FROM_ZERO:
        return 0.0, high * (1 + ROOM) or 1.0
    room = (high - low) * ROOM or max(abs(high), 1.0) * ROOM
    return low - room, high + room


def whole_span(arms: Sequence[ArmSteps], choice: Choice) -> tuple[float, float]:
    """Begin and end of the horizontal axis when it shows all steps, in the unit of the axis."""
    last = max(float(_x_of(one, choice)[-1]) for one in arms)
    room = last * 0.01 or 0.5
    return -room, last + room


def _domains(panels: int) -> list[tuple[float, float]]:
    """Where the panels of a stack lie, from the top down: parts (0–1) of its height."""
    first, gap = TITLE / (PANEL * panels), GAP / (PANEL * panels)
    height = (1 - first - gap * (panels - 1)) / panels
    tops = [1 - first - number * (height + gap) for number in range(panels)]
    return [(max(top - height, 0.0), top) for top in tops]


def panel_title(text: str, top: float) -> dict[str, Any]:
    """A title above a panel that ends at `top` (0–1)."""
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
    return {"text": f"<b>{plain(text)}</b>", "showarrow": False, **place}


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """Ticks of a logarithmic axis at 1, 2 and 5 of each power of ten, or at powers only.

    Plotly's own say "5" where 50 is meant.
    """
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    every = (1, 2, 5) if last - first <= FEW_DECADES else (1,)
    ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in every]
    inside = [tick for tick in ticks if low <= tick <= high] or [low, high]
    return {
        "tickvals": inside,
        "ticktext": [f"{tick:,.3g}" if tick < 1e3 else f"{tick:,.0f}" for tick in inside],
    }


def _y_axis(panel: Panel, domain: tuple[float, float], choice: Choice) -> dict[str, Any]:
    limits = [panel.low / panel.unit.scale, panel.high / panel.unit.scale]
    axis = {"domain": list(domain), "fixedrange": True, "automargin": True, "gridcolor": GRID, "nticks": 6}
    if choice.y == LOGARITHMIC:
        return {**axis, "type": "log", "range": np.log10(limits).tolist(), **log_ticks(*limits)}
    return {**axis, "range": limits, "zerolinecolor": GRID}


def _traces(panel: Panel, points: Points, most: int) -> list[Any]:
    """Steps that do not count, steps that do, and the level of these."""
    arm, prefix, colour = points.steps.arm, points.steps.prefix, ARM_COLOURS[points.steps.arm]
    left_out = _drawn(points, points.left_out, LEFT_OUT_POINTS)
    above, below = points.y[left_out] > panel.high, points.y[left_out] < panel.low
    beyond = f"{prefix}left out, beyond the axis"
    line = {"color": colour, "width": 1.5 if ARM_SYMBOLS[arm].endswith("-open") else 0}
    faint = {"size": 7, "color": colour, "opacity": FAINT, "line": line}
    rows = _drawn(points, points.steady, most)
    opacity = DENSE if len(rows) > most // 2 else SPARSE
    bright = {"size": 5, "color": colour, "opacity": opacity, "line": line}
    return [
        _markers(
            panel, points, left_out[~above & ~below], f"{prefix}left out", {**faint, "symbol": LEFT_OUT[arm]}
        ),
        _markers(panel, points, left_out[above], beyond, {**faint, "symbol": HIGHER[arm]}),
        _markers(panel, points, left_out[below], beyond, {**faint, "symbol": LOWER[arm]}),
        _markers(panel, points, rows, f"{prefix}a step", {**bright, "symbol": ARM_SYMBOLS[arm]}),
        _level(panel, points, f"{prefix}median"),
    ]


def _drawn(points: Points, rows: IntArray, most: int) -> IntArray:
    return rows[extremes(points.x[rows], points.y[rows], most)]


def _markers(panel: Panel, points: Points, rows: IntArray, name: str, marker: dict[str, Any]) -> go.Scatter:
    steps, metric = points.steps, panel.metric
    return go.Scatter(
        x=points.x[rows],
        y=np.clip(points.y[rows], panel.low, panel.high) / panel.unit.scale,
        yaxis=panel.axis,
        mode="markers",
        name=name,
        marker=marker,
        customdata=np.array([f"{steps.arm} {row}" for row in rows.tolist()], dtype=object),
        hovertext=_hover_texts(points, rows, metric),
        hoverinfo="text",
        # Those beyond the range lie on its border.
        cliponaxis=False,
        showlegend=panel.axis == "y" and len(rows) > 0,
    )


def _level(panel: Panel, points: Points, name: str) -> go.Scatter:
    x, y = levels(points.x[points.steady], points.y[points.steady])
    return go.Scatter(
        x=x,
        y=y / panel.unit.scale,
        yaxis=panel.axis,
        mode="lines",
        name=name,
        line={"color": ARM_COLOURS[points.steps.arm], "width": 2, "dash": ARM_DASHES[points.steps.arm]},
        hoverinfo="skip",
        showlegend=panel.axis == "y",
    )


def _hover_texts(points: Points, rows: IntArray, metric: Metric) -> list[str]:
    """What the chart says about each of some steps."""
    process = points.steps.process
    names = [plain(one.name) for one in process.classes]
    reasons = ["" if code == STEADY else f"<br>left out: {word}" for code, word in enumerate(EXCLUSIONS)]
    return [
        f"{points.steps.prefix}step {step}<br>{metric.title} {value_text(metric, value)}<br>"
        f"{names[number]}{reasons[reason]}"
        for step, value, number, reason in zip(
            rows.tolist(),
            points.y[rows].tolist(),
            process.class_of[rows].tolist(),
            process.exclusion[rows].tolist(),
            strict=True,
        )
    ]


def _notes(panel: Panel, choice: Choice, most: int) -> list[str]:
    notes = []
    for points in panel.arms:
        process, prefix = points.steps.process, points.steps.prefix
        if len(points.steady) > most:
            steps = plural(len(points.steady), "step")
            notes.append(f"{prefix}of {steps} in view the lowest and highest of each stretch are drawn.")
        if panel.metric.key == "gpu" and process.gpu_caveat is not None:
            notes.append(f"{prefix}GPU busy: {process.gpu_caveat}.")
        zero = int((points.y[choice.group.mask(points.steps)] <= 0).sum())
        if zero and choice.y == LOGARITHMIC:
            what = f"{prefix}{panel.metric.title} is 0 in {plural(zero, 'step')}"
            notes.append(f"{what}: a logarithmic axis has no place for them.")
    return notes
