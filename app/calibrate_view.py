"""`cctrace calibrate` in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from cctrace.analyzers.calibration import (
    LAUNCH,
    PATHS,
    RULES,
    TRANSFERS,
    Comparison,
    Line,
    Range,
    blocking,
    bus_share,
    node,
    published,
    rate,
)
from cctrace.analyzers.sentences import percent
from cctrace.app.palette import FAINT_STYLE, WARNING_COLOUR
from cctrace.app.terminal import line, notes, section, table
from cctrace.profiles.model import Entry, Profile, Rule, SizeTable

_DASH: Final = "–"
_LIKE: Final = "≈"
_BLOCKS: Final = "■"
_IDLE: Final = ", GPU idle"
_BYTES: Final = ("B", "KiB", "MiB")
_MEMORIES: Final = (
    ("Copies of pinned memory", "h2d", "d2h"),
    ("Copies of pageable memory", "h2d_pageable", "d2h_pageable"),
)


def show_calibration(out: Console, here: Profile, platform: Profile, remarks: Sequence[str]) -> None:
    """Prints what was measured on a machine beside what a platform's profile says."""
    head = here.profile
    line(out, f"{head.gpu}, CC {head.cc}, driver {head.driver or 'not known'}", style="bold")
    line(out, head.machine or "", style=FAINT_STYLE)
    line(out, f"Beside it: {platform.name}, {platform.profile.title}.", style=FAINT_STYLE)
    if head.cc == "emulated":
        line(out, "Tolls were emulated meanwhile.", style=f"bold {WARNING_COLOUR}")
    _show_launch(out, here, platform)
    for title, *paths in _MEMORIES:
        _show_copies(out, title, here, platform, paths)
    _show_rest(out, here, platform)
    _show_transfers(out, here, platform)
    _show_rules(out, here)
    notes(out, remarks)


def show_comparison(out: Console, found: Comparison) -> None:
    """Prints two measured profiles: launch, copies, NVLink, rules."""
    on, off = found.on.profile, found.off.profile
    line(out, f"{on.gpu}: {on.name} (CC {on.cc}) and {off.name} (CC {off.cc})", style="bold")
    if found.null_test:
        text = f"Null test: both were measured with CC {on.cc}. What differs is noise."
        line(out, text, style=f"bold {WARNING_COLOUR}")
    for warning in found.warnings:
        line(out, f"! {warning}", style=WARNING_COLOUR)
    times = [one for one in found.lines if one.unit]
    apart = sum(not one.within_spread for one in times)
    line(
        out, f"{apart} of {len(times)} quantities differ by more than their spread; {_LIKE} marks the others."
    )
    launch = found.of("launch")
    _show_launch_lines(out, "Submissions", [one for one in launch if not one.name.endswith(_IDLE)])
    _show_launch_lines(out, "Submissions, GPU idle", [one for one in launch if one.name.endswith(_IDLE)])
    _show_copy_lines(out, found.of("pcie"))
    _show_transfer_lines(out, found.of("nvlink"))
    rules = [[one.name, _holds(one.off), _holds(one.on)] for one in found.of("rules")]
    if rules:
        section(out, "Rules")
        out.print(table(("", "off", "on"), rows=rules))


def _show_launch(out: Console, here: Profile, platform: Profile) -> None:
    rows = []
    for key, name in LAUNCH.items():
        entry = here.entries("launch").get(key)
        idle = here.entries("launch").get(key.replace("_us", "_isolated_us"))
        if isinstance(entry, Entry):
            other = published(platform, "launch", key)
            alone = _time(idle) if isinstance(idle, Entry) else _DASH
            theirs = [_us(other.off), _us(other.on), _us(other.toll)]
            rows.append([name, _time(entry), _span(entry), alone, *theirs])
    if rows:
        section(out, "Submissions, µs a call")
        columns = ("back to back", "here", "p10–p90", "GPU idle", "off", "on", "toll")
        out.print(table(columns, rows))


def _show_copies(out: Console, title: str, here: Profile, platform: Profile, paths: Sequence[str]) -> None:
    tables = [here.entries("pcie").get(f"{path}_us") for path in paths]
    known = [found for found in tables if isinstance(found, SizeTable)]
    if not known:
        return
    sizes = known[0].bytes
    rows = []
    for size in sizes:
        row = [_size(size)]
        for path in paths:
            toll = published(platform, "pcie", f"{path}_us", size).toll
            row += [*_copy_cells(here, path, size), _us(toll)]
        rows.append(row)
    section(out, f"{title}, from the call to the end")
    columns = ("", "H2D µs", "GB/s", "call", "toll", "D2H µs", "GB/s", "call", "toll")
    out.print(table(columns, rows, numbers_from=0))
    if any(any(blocking(here, path).values()) for path in paths):
        line(out, f"{_BLOCKS} the call blocks: it returns when the copy is done.", style=FAINT_STYLE)


def _copy_cells(here: Profile, path: str, size: int) -> list[str]:
    """Time, rate and time of the call."""
    whole, call = (here.entries("pcie").get(f"{path}_{key}") for key in ("us", "call_us"))
    if not isinstance(whole, SizeTable) or size not in whole.bytes:
        return [_DASH] * 3
    us = node(whole, size)
    taken = _time(node(call, size)) if isinstance(call, SizeTable) else _DASH
    mark = _BLOCKS if blocking(here, path).get(size) else " "
    return [_time(us), _rate(rate(us, size).value), f"{taken} {mark}"]


def _show_rest(out: Console, here: Profile, platform: Profile) -> None:
    kinds = (("d2d", "copy inside the device"), ("host_alloc", "page-locked allocation"))
    rows = []
    for key, name in kinds:
        found = here.entries("pcie").get(f"{key}_us")
        if isinstance(found, SizeTable):
            for size in found.bytes:
                us = node(found, size)
                toll = published(platform, "pcie", f"{key}_us", size).toll
                rows.append([f"{name}, {_size(size)}", _time(us), _span(us), _us(toll)])
    if rows:
        section(out, "Copies inside the device, allocations, µs")
        out.print(table(("", "here", "p10–p90", "toll"), rows))


def _show_transfers(out: Console, here: Profile, platform: Profile) -> None:
    factors = {
        "peer_copy_us": "peer_copy_factor",
        "peer_read_us": "peer_copy_factor",
        "all_reduce_us": "collective_factor",
        "all_to_all_us": "all_to_all_factor",
    }
    rows = []
    ranks = here.profile.gpus or 1
    for key, name in TRANSFERS.items():
        found = here.entries("nvlink").get(key)
        if isinstance(found, SizeTable):
            size = found.bytes[-1]
            speed = rate(node(found, size), size, bus_share(key, ranks))
            factor = published(platform, "nvlink", factors.get(key, "")).toll
            least = f"{_time(node(found, found.bytes[0]))} µs" if len(found.bytes) > 1 else _DASH
            times = f"{factor:.3f}" if factor else _DASH
            rows.append([name, _size(size), _rate(speed.value), _span(speed), least, times])
    latency = here.nvlink.peer_latency_us
    if rows:
        section(out, "Between GPUs")
        columns = ("", "size", "GB/s", "p10–p90", "smallest", "time on ÷ off")
        out.print(table(columns, rows))
    if latency is not None:
        toll = published(platform, "nvlink", "peer_latency_us").toll
        more = f"; {platform.name} adds {_us(toll)} µs" if toll is not None else ""
        line(out, f"Small P2P write: {_time(latency)} µs ({_span(latency)}){more}.")


def _show_rules(out: Console, here: Profile) -> None:
    rows = []
    for (cause, key), name in RULES.items():
        rule = here.entries(cause).get(key)
        if isinstance(rule, Rule):
            rows.append([name, _holds(Range(rule.value, rule.low, rule.high)), rule.note])
    if rows:
        section(out, "Rules")
        out.print(table(("", "holds", ""), rows, numbers_from=3))


def _show_launch_lines(out: Console, title: str, lines: Sequence[Line]) -> None:
    if not lines:
        return
    rows = []
    for one in lines:
        both = [_time(one.off), _time(one.on)]
        changes = [_signed(one.difference), _times(one), _doubt(one)]
        rows.append([one.name.removesuffix(_IDLE), *both, *changes])
    section(out, f"{title}, µs a call")
    out.print(table(("operation", "off", "on", "on − off", "on ÷ off", ""), rows))


def _show_copy_lines(out: Console, lines: Sequence[Line]) -> None:
    for name in dict.fromkeys(one.name for one in lines):
        section(out, f"{name[:1].upper()}{name[1:]}, from the call to the end")
        rows = []
        for one in lines:
            if one.name == name and one.bytes is not None:
                speeds = [_speed(one, us) for us in (one.off, one.on)]
                times = [_time(one.off), _time(one.on)]
                changes = [_signed(one.difference), _times(one), _doubt(one)]
                rows.append([_size(one.bytes), *times, *speeds, *changes])
        columns = ("", "off µs", "on µs", "off GB/s", "on GB/s", "on − off µs", "on ÷ off", "")
        out.print(table(columns, rows, numbers_from=0))


def _show_transfer_lines(out: Console, lines: Sequence[Line]) -> None:
    rates = [one for one in lines if one.unit == "GB/s"]
    if rates:
        section(out, "NVLink, GB/s between one pair of GPUs; collectives over all")
        rows = []
        for one in rates:
            reduction = _DASH if one.ratio is None else percent(1 - one.ratio)
            both = [_rate(one.on.value), _rate(one.off.value)]
            rows.append([one.name, _size(one.bytes or 0), *both, reduction, _doubt(one)])
        out.print(table(("metric", "size", "on", "off", "1 − on ÷ off", ""), rows))
    for one in lines:
        if one.unit == "µs":
            change = f"{_time(one.off)} → {_time(one.on)} µs ({_signed(one.difference)} µs)"
            line(out, f"Median latency of a {one.name}: {change}.")


def _us(us: float | None) -> str:
    if us is None:
        return _DASH
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def _size(size: int) -> str:
    """A size in bytes; those that are measured are powers of two."""
    unit = 0
    while size >= 1024 and size % 1024 == 0 and unit < len(_BYTES) - 1:
        size //= 1024
        unit += 1
    return f"{size} {_BYTES[unit]}"


def _speed(one: Line, us: Range) -> str:
    """GB/s of a copy; an allocation moves nothing."""
    moves = one.bytes is not None and one.name in PATHS.values()
    return _rate(rate(us, one.bytes or 0).value) if moves else _DASH


def _rate(speed: float) -> str:
    if not speed:  # the time was too short to be told from none
        return _DASH
    return f"{speed:.1f}" if speed >= 10 else f"{speed:.2f}" if speed >= 0.1 else f"{speed:.3f}"


def _time(one: Range | Entry) -> str:
    """Microseconds; of what cannot be told from nothing, what it is at most."""
    return _us(one.value) if one.low else f"≤ {_us(one.high)}"


def _span(one: Range | Entry) -> str:
    if not one.low:
        return _DASH
    return f"{_us(one.low)}–{_us(one.high)}"


def _signed(us: float) -> str:
    text = _us(abs(us))
    if not float(text):
        return "0"
    return f"+{text}" if us > 0 else f"−{text}"


def _times(one: Line) -> str:
    return _DASH if one.ratio is None else f"{one.ratio:.2f}"


def _doubt(one: Line) -> str:
    return _LIKE if one.within_spread else ""


def _holds(rule: Range) -> str:
    if rule.low != rule.high:
        return "in part"
    return "yes" if rule.value else "no"
