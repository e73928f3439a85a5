"""What the recorder and the emulator say about one recording: processes, losses, clocks, what was charged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from cctrace.analyzers.acceptance_table import text_of
from cctrace.analyzers.sentences import plural
from cctrace.app.recorder_view import injected_facts
from cctrace.app.state_view import check_facts
from cctrace.app.terminal import safe
from cctrace.app.viewer.field_table import NOT_KNOWN, value
from cctrace.app.viewer.grid import table
from cctrace.trace import Emulation, GpuClock, Metadata, Process

MAX_PROCESSES: Final = 64
"""Processes listed: the workers of the largest hosts; the whole document has all."""


def recorder_parts(metadata: Metadata) -> list[Component]:
    """All that is said about recording it."""
    collector = metadata.collector
    labels = [html.P(f"This recording is {safe(label)}.", className="warning") for label in metadata.labels]
    notes = [html.P(f"- {safe(note)}") for note in collector.notes]
    return [
        *labels,
        *notes,
        *_processes(collector.processes),
        *_clocks(metadata.clock.gpu),
        *_emulation(metadata.emulation),
        html.H4("State of the GPUs before"),
        *_state(metadata),
    ]


def _processes(processes: tuple[Process, ...]) -> Iterable[Component]:
    yield html.H4("Recorded processes")
    if not processes:
        yield html.P("No process made a call of the CUDA driver.")
        return
    rows = [
        [
            str(one.pid),
            value(one.name),
            f"{one.records:,}",
            _counts(one.lost),
            _counts(one.unmatched),
            f"{one.torn_bytes:,} B" if one.torn_bytes else "none",
            _tax(one.tax_ns),
            _pairs(one.state),
        ]
        for one in processes[:MAX_PROCESSES]
    ]
    columns = ("pid", "name", "rows", "lost", "not joined", "torn", "cost of recording", "collector")
    yield table(columns, rows, numbers_from=len(columns), label="Recorded processes")
    if len(processes) > MAX_PROCESSES:
        yield html.P(f"{plural(len(processes) - MAX_PROCESSES, 'more process')}: see the whole document.")


def _counts(counts: Mapping[str, int]) -> str | Component:
    return value(", ".join(f"{count:,} ({reason})" for reason, count in counts.items() if count) or "none")


def _tax(tax_ns: Mapping[str, float]) -> str | Component:
    return value(
        ", ".join(f"{cost:.0f} ns a {what.replace('_', ' ')}" for what, cost in tax_ns.items()) or None
    )


def _pairs(mapping: Mapping[str, Any]) -> str | Component:
    return value(", ".join(f"{key}: {text_of(entry)}" for key, entry in mapping.items()) or None)


def _clocks(clocks: tuple[GpuClock, ...]) -> Iterable[Component]:
    yield html.H4("GPU clocks mapped to the host's")
    if not clocks:
        yield html.P("None: no GPU times were recorded, or they come from CUPTI.")
        return
    rows = [
        [
            str(one.pid),
            _known(one.device),
            f"{one.kept} of {one.readings}",
            f"{_known(one.drift_ppm, ' ppm')} ({safe(one.drift_source or 'source not known')})",
            _known(one.residual_ns, " ns"),
            f"{one.moved_ns:,} ns",
        ]
        for one in clocks[:MAX_PROCESSES]
    ]
    columns = ("pid", "GPU", "readings kept", "drift", "residual", "moved by")
    yield table(columns, rows, numbers_from=len(columns), label="GPU clocks")


def _emulation(emulation: Emulation | None) -> Iterable[Component]:
    yield html.H4("Emulation")
    if emulation is None:
        yield html.P("Nothing was emulated.")
        return
    causes = ", ".join(emulation.causes) or "no cause"
    profile = emulation.profile or "a profile that is not known"
    yield html.P(safe(f"Costs of {profile} were charged: {causes}."))
    charged = [[value(key), value(text_of(entry))] for key, entry in emulation.values.items()]
    if charged:
        yield table(("setting", "to be charged"), charged, numbers_from=2, label="What was to be charged")
    if emulation.injected is None:
        yield html.P("What was really charged: not known; the recorder did not count it.")
        return
    rows = [[value(cause), value(text)] for cause, text in injected_facts(emulation.injected)]
    if rows:
        yield table(("cause", "really charged"), rows, numbers_from=2, label="What was really charged")
    else:
        yield html.P("Really charged: nothing.")


def _state(metadata: Metadata) -> Iterable[Component]:
    if metadata.state_check is None:
        yield html.P("Not checked: nothing says whether the GPUs were fresh and idle.")
        return
    rows = [[value(name), value(text)] for name, text in check_facts(metadata.state_check)]
    yield table(("", "found"), rows, numbers_from=2, label="State of the GPUs before")


def _known(number: float | None, unit: str = "") -> str:
    return NOT_KNOWN if number is None else f"{number:g}{unit}"
