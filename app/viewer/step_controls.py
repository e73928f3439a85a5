"""The controls of the page of steps, and the parameters of the address that they stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from cctrace.analyzers.sentences import plural
from cctrace.analyzers.step_series import METRICS
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.elements import attributes
from cctrace.app.viewer.step_choice import (
    BY_STEP,
    BY_TIME,
    FITTED,
    FROM_ZERO,
    LEFT_OUT_HIDDEN,
    LOGARITHMIC,
    ArmSteps,
    Choice,
    Group,
    known_metrics,
)

CONTROLS: Final = {
    "metrics": ("steps-metrics", "value"),
    "x": ("steps-x", "value"),
    "y": ("steps-y", "value"),
    "steps": ("steps-group", "value"),
    "left_out": ("steps-left-out", "checked"),
    "metric": ("steps-metric", "value"),
    "x0": ("steps-from", "value"),
    "x1": ("steps-to", "value"),
}
"""Parameter of the address → id and property of the control that shows it."""
PROCESS: Final = "steps-process"
"""Type of the selects of a process, one for each arm with several."""
CHIP: Final = "blue.9"
"""Colour of a chosen metric: white on the usual blue is hard to read."""
DIGITS: Final = 3
"""Of the ends of a range: a thousandth of it is about a pixel."""
WHOLE: Final = "steps-whole"
"""Id of the button that shows all steps again."""
_GROUP_KINDS: Final = {"all": "All", "phase": "Phases", "class": "Classes"}


def control_values(choice: Choice) -> dict[str, Any]:
    """What the controls show for a choice, by parameter."""
    first, last = choice.span or ("", "")
    return {
        "metrics": [one.key for one in choice.metrics],
        "x": choice.x,
        "y": choice.y,
        "steps": choice.group.key,
        "left_out": choice.left_out,
        "metric": choice.metric.key,
        "x0": first,
        "x1": last,
    }


def address_of(state: Address, values: Mapping[str, Any], usual: Choice) -> Address:
    """The address that says what the controls show; what is usual is left out.

    Args:
        state: the address as it is.
        values: of the controls, by parameter.
        usual: what is shown unless an address asks for something else.
    """
    metrics = [one.key for one in METRICS if one.key in (values["metrics"] or ())]
    # A range of steps is none of seconds.
    same_axis = values["x"] == state.get("x", usual.x)
    span = (values["x0"], values["x1"]) if same_axis else ("", "")
    wanted = {**values, "metrics": metrics, **_ends(*span)}
    changes = {
        key: None if wanted[key] == value else wanted[key] for key, value in control_values(usual).items()
    }
    changes["metrics"] = ",".join(changes["metrics"] or ()) or None
    changes["left_out"] = None if values["left_out"] else LEFT_OUT_HIDDEN
    return state.with_(**changes)


def zoomed(
    values: Mapping[str, Any], moved: Mapping[str, Any] | None, whole: tuple[float, float]
) -> dict[str, Any]:
    """The values after a chart was zoomed or moved.

    Args:
        values: of the controls, by parameter.
        moved: what Plotly says of it.
        whole: the range that shows all.
    """
    moved = moved or {}
    span: Any = moved.get("xaxis.range") or (moved.get("xaxis.range[0]"), moved.get("xaxis.range[1]"))
    known = all(isinstance(end, int | float) for end in span)
    if moved.get("xaxis.autorange") or (known and span[0] <= whole[0] and span[1] >= whole[1]):
        return {**values, "x0": "", "x1": ""}
    return {**values, "x0": span[0], "x1": span[1]} if known else dict(values)


def _ends(first: Any, last: Any) -> dict[str, str]:
    """Begin and end of a range with as many digits as a screen has pixels for."""
    if not (isinstance(first, int | float) and isinstance(last, int | float) and first < last):
        return {"x0": "", "x1": ""}
    digits = max(DIGITS - math.floor(math.log10(last - first)), 0)
    return {"x0": f"{round(first, digits):.12g}", "x1": f"{round(last, digits):.12g}"}


def over_time_controls(arms: Sequence[ArmSteps], groups: Sequence[Group], choice: Choice) -> Component:
    """What chooses steps and numbers over time."""
    return html.Div(
        [
            _labelled("Numbers", _metrics(arms, choice)),
            _labelled("Steps", _groups(arms, groups, choice)),
            *[_labelled(f"{one.prefix}process", _processes(one)) for one in arms if len(one.others) > 1],
            _labelled("Across", _segments("steps-x", "Horizontal axis", _ACROSS, choice.x)),
            _labelled("Up", _segments("steps-y", "Vertical axis", _UP, choice.y)),
            _labelled("Range", _span(choice)),
            dmc.Switch(
                id="steps-left-out",
                label="also steps that do not count",
                checked=choice.left_out,
            ),
        ],
        className="step-controls",
    )


_ACROSS: Final = {BY_STEP: "step number", BY_TIME: "time"}
_UP: Final = {FROM_ZERO: "from 0", FITTED: "fitted", LOGARITHMIC: "logarithmic"}


def _labelled(text: str, control: Component) -> Component:
    return html.Div(
        [html.Span(text, className="step-control-name"), control],
        className="step-control",
        role="group",
        **attributes(aria_label=text),
    )


def _segments(name: str, label: str, words: Mapping[str, str], value: str) -> Component:
    data = [{"value": key, "label": word} for key, word in words.items()]
    made: Component = dmc.SegmentedControl(
        id=name, data=data, value=value, size="sm", **attributes(aria_label=label)
    )
    return made


def _metrics(arms: Sequence[ArmSteps], choice: Choice) -> Component:
    chips = [dmc.Chip(one.title, value=one.key, size="sm", color=CHIP) for one in known_metrics(arms)]
    made: Component = dmc.ChipGroup(
        dmc.Group(chips, gap="xs"),
        id="steps-metrics",
        multiple=True,
        value=[one.key for one in choice.metrics],
    )
    return made


def metric_control(arms: Sequence[ArmSteps], choice: Choice) -> Component:
    """What chooses the metric whose distribution is shown."""
    data = [{"value": one.key, "label": one.title} for one in known_metrics(arms)]
    made: Component = dmc.Select(
        id="steps-metric",
        data=data,
        value=choice.metric.key,
        allowDeselect=False,
        size="sm",
        className="step-chooser",
        **attributes(aria_label="Distribution of"),
    )
    return made


def _groups(arms: Sequence[ArmSteps], groups: Sequence[Group], choice: Choice) -> Component:
    data = [
        {
            "group": title,
            "items": [
                {"value": one.key, "label": f"{one.title} ({_counts(arms, one)})"}
                for one in groups
                if one.kind == kind
            ],
        }
        for kind, title in _GROUP_KINDS.items()
    ]
    made: Component = dmc.Select(
        id="steps-group",
        data=data,
        value=choice.group.key,
        allowDeselect=False,
        size="sm",
        className="step-chooser",
        **attributes(aria_label="Phase or class of steps"),
    )
    return made


def _counts(arms: Sequence[ArmSteps], group: Group) -> str:
    return ", ".join(f"{one.prefix}{int(group.mask(one).sum()):,}" for one in arms)


def _processes(steps: ArmSteps) -> Component:
    data = [
        {"value": str(one.pid), "label": f"{one.pid} {safe(one.name or '')} ({plural(len(one), 'step')})"}
        for one in steps.others
    ]
    made: Component = dmc.Select(
        id={"type": PROCESS, "arm": steps.arm},
        data=data,
        value=str(steps.process.pid),
        allowDeselect=False,
        size="sm",
        className="step-chooser",
        **attributes(aria_label=f"{steps.prefix}process"),
    )
    return made


def _span(choice: Choice) -> Component:
    first, last = choice.span or ("", "")

    def end(name: str, label: str, value: Any) -> Component:
        made: Component = dmc.NumberInput(
            id=name,
            value=value,
            placeholder=label,
            debounce=True,
            hideControls=True,
            size="sm",
            w=96,
            decimalScale=6,
            **attributes(aria_label=f"{label} of the shown range"),
        )
        return made

    made: Component = dmc.Group(
        [
            end("steps-from", "begin", first),
            html.Span("to"),
            end("steps-to", "end", last),
            dmc.Button("Show all", id=WHOLE, variant="default", size="sm"),
        ],
        gap="xs",
    )
    return made
