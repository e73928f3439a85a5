"""Charts of a page without scripts: points and lines over two axes, drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from cctrace.analyzers.columns import FloatArray
from cctrace.app.terminal import safe

WIDTH, HEIGHT = 800, 300
"""Of a drawing, pixels at its natural size."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 46
"""Room around the axes: numbers, the legend above, titles of the axes."""
TICKS: Final = 5
"""About so many numbers on an axis."""
RADIUS: Final = 2.2
_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
DASHED: Final = "6 4"


@dataclass(frozen=True, eq=False)
class Series:
    """One series of a plot.

    Attributes:
        name: in the legend.
        x: ascending or not; finite.
        y: as many.
        colour: of points or line.
        hollow: hollow points or a dashed line: series differ by more than colour.
        line: whether the values are joined, as steps; else they are points.
    """

    name: str
    x: FloatArray
    y: FloatArray
    colour: str
    hollow: bool = False
    line: bool = False


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart.

    Attributes:
        words: what it shows, for people who cannot see it.
        x: title of the horizontal axis, with its unit.
        y: title of the vertical axis, with its unit.
        series: at least one value in all.
        from_zero: whether the vertical axis begins at zero.
    """

    words: str
    x: str
    y: str
    series: tuple[Series, ...]
    from_zero: bool = True


@dataclass(frozen=True)
class _Axis:
    """Values `low` to `high` on pixels `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: FloatArray | float) -> FloatArray:
        share = (np.asarray(value, np.float64) - self.low) / (self.high - self.low)
        return np.asarray(self.begin + share * (self.end - self.begin))

    @property
    def ticks(self) -> list[float]:
        step = nice_step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5, times a power of ten, that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(nice * power for nice in _NICE if nice * power >= least * (1 - 1e-9))


def add_plot(parent: Element, plot: Plot) -> None:
    """Draws a plot into a page."""
    drawing = SubElement(
        parent,
        "svg",
        {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "width": "100%", "role": "img", "aria-label": safe(plot.words)},
    )
    x_axis = _axis([one.x for one in plot.series], _LEFT, WIDTH - _RIGHT, from_zero=False)
    y_axis = _axis([one.y for one in plot.series], HEIGHT - _BOTTOM, _TOP, from_zero=plot.from_zero)
    _add_axes(drawing, plot, x_axis, y_axis)
    for one in plot.series:
        _add_series(drawing, one, x_axis, y_axis)
    if len(plot.series) > 1:
        _add_legend(drawing, plot.series)


def _axis(several: Sequence[FloatArray], begin: float, end: float, *, from_zero: bool) -> _Axis:
    values = np.concatenate(several)
    low, high = float(values.min()), float(values.max())
    low = min(low, 0.0) if from_zero else low
    if high <= low:
        low, high = low - 0.5, high + 0.5
    margin = 0.0 if from_zero else 0.02 * (high - low)
    return _Axis(low - margin, high + 0.04 * (high - low), begin, end)


def _add_axes(drawing: Element, plot: Plot, x_axis: _Axis, y_axis: _Axis) -> None:
    frame = SubElement(drawing, "g", {"class": "axes"})
    for tick in y_axis.ticks:
        place = f"{float(y_axis.at(tick)):.1f}"
        SubElement(frame, "line", {"x1": f"{_LEFT}", "x2": f"{WIDTH - _RIGHT}", "y1": place, "y2": place})
        _text(frame, _number(tick), {"x": f"{_LEFT - 8}", "y": place, "text-anchor": "end", "dy": "0.35em"})
    for tick in x_axis.ticks:
        place = f"{float(x_axis.at(tick)):.1f}"
        _text(frame, _number(tick), {"x": place, "y": f"{HEIGHT - _BOTTOM + 18}", "text-anchor": "middle"})
    middle = {"x": f"{(_LEFT + WIDTH - _RIGHT) / 2}", "text-anchor": "middle"}
    _text(frame, plot.x, {**middle, "y": f"{HEIGHT - 8}"})
    _text(frame, plot.y, {"x": "4", "y": "14"})


def _number(value: float) -> str:
    return f"{0.0 if abs(value) < 1e-12 else value:,.10g}"


def _add_series(drawing: Element, one: Series, x_axis: _Axis, y_axis: _Axis) -> None:
    x, y = x_axis.at(one.x), y_axis.at(one.y)
    if one.line:
        corners = [f"H{right:.1f}V{top:.1f}" for right, top in zip(x[1:], y[1:], strict=True)]
        path = f"M{x[0]:.1f} {y[0]:.1f}" + "".join(corners)
        SubElement(drawing, "path", {"d": path, "fill": "none", **_stroke(one)})
        return
    # A path of arcs holds all points in one element.
    arcs = [
        f"M{left - RADIUS:.1f} {top:.1f}a{RADIUS} {RADIUS} 0 1 0 {2 * RADIUS} 0a{RADIUS} {RADIUS} 0 1 0 "
        f"{-2 * RADIUS} 0"
        for left, top in zip(x, y, strict=True)
    ]
    SubElement(drawing, "path", {"d": "".join(arcs), **_fill(one)})


def _fill(one: Series) -> dict[str, str]:
    if one.hollow:
        return {"fill": "none", "stroke": one.colour}
    return {"fill": one.colour, "fill-opacity": "0.75"}


def _stroke(one: Series) -> dict[str, str]:
    dashes = {"stroke-dasharray": DASHED} if one.hollow else {}
    return {"stroke": one.colour, "stroke-width": "2", **dashes}


def _add_legend(drawing: Element, series: Sequence[Series]) -> None:
    """Names above the axes, from right to left, each with its sign."""
    right = WIDTH - _RIGHT
    for one in reversed(series):
        _text(drawing, one.name, {"x": f"{right}", "y": "14", "text-anchor": "end"})
        # Letters are about 7 pixels wide; a little more keeps signs off the names.
        sign = right - 7.6 * len(one.name) - 30
        if one.line:
            SubElement(drawing, "path", {"d": f"M{sign:.1f} 10h24", **_stroke(one)})
        else:
            SubElement(drawing, "circle", {"cx": f"{sign + 14:.1f}", "cy": "10", "r": "4", **_fill(one)})
        right = int(sign - 16)


def _text(parent: Element, text: str, attributes: dict[str, str]) -> None:
    SubElement(parent, "text", attributes).text = safe(text)
