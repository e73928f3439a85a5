"""The table of copies by size: medians of both arms side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from dash import html
from dash.development.base_component import Component

from cctrace.analyzers.copy_law import MIN_COPIES, SIZES_PER_OCTAVE, SizeRow
from cctrace.analyzers.sentences import bytes_text, plural, signed_time, time_text
from cctrace.app.viewer.copy_choice import ArmCopies, Choice, groups_by_kind, kind_text
from cctrace.app.viewer.grid import grid, table
from cctrace.app.viewer.view import OFF, ON

LONG: Final = 20
"""More lines are a grid that scrolls and sorts."""
_DASH: Final = "–"
_Line = tuple[str, Mapping[str, SizeRow]]
"""Kind of copies, and for each arm its line of one size."""


def size_table(arms: Sequence[ArmCopies], choice: Choice) -> list[Component]:
    """The median of each size, with its spread; of a pair side by side with the difference."""
    lines = _lines(arms, choice)
    often = [line for line in lines if any(row.copies + row.waited >= MIN_COPIES for row in line[1].values())]
    shown = often or lines
    made = _table(arms, shown) if len(shown) <= LONG else _grid(arms, shown)
    left = len(lines) - len(shown)
    if not left:
        return [made]
    text = f"Left out: {plural(left, 'size')} with fewer than {MIN_COPIES} copies in each arm."
    return [made, html.P(text, className="faint")]


def _lines(arms: Sequence[ArmCopies], choice: Choice) -> list[_Line]:
    """One line for each kind and size; sizes that are binned in one arm are binned in all."""
    found: list[_Line] = []
    for of_kind in groups_by_kind(arms, choice):
        binned = any(group.binned for _, group in of_kind)
        sizes: dict[int, dict[str, SizeRow]] = {}
        for one, group in of_kind:
            for row in group.sizes:
                lines = sizes.setdefault(_bin(row.bytes) if binned else row.bytes, {})
                # Of an arm whose sizes were not binned, the size with most copies stands for its bin.
                lines[one.arm] = max(row, lines.get(one.arm, row), key=lambda line: line.copies + line.waited)
        group = of_kind[0][1]
        kind = kind_text(group.direction, group.host_memory)
        found += [(kind, sizes[key]) for key in sorted(sizes)]
    return found


def _bin(size: int) -> int:
    return int(np.floor(SIZES_PER_OCTAVE * np.log2(max(size, 1)) + 0.5))


def _size(of_arm: Mapping[str, SizeRow]) -> int:
    return max(row.bytes for row in of_arm.values())


def _difference(of_arm: Mapping[str, SizeRow]) -> float | None:
    off, on = (of_arm[arm].median_us if arm in of_arm else None for arm in (OFF, ON))
    return None if off is None or on is None else on - off


def _table(arms: Sequence[ArmCopies], lines: Sequence[_Line]) -> Component:
    several = len(arms) > 1
    columns = ["copies", "size"]
    for one in arms:
        columns += [f"{one.prefix}median [10–90 %]", f"{one.prefix}copies"]
    columns += [*(["on − off"] if several else []), *(f"{one.prefix}waited" for one in arms)]
    rows = []
    for kind, of_arm in lines:
        row: list[Any] = [kind, bytes_text(float(_size(of_arm)))]
        for one in arms:
            line = of_arm.get(one.arm)
            row += [_median(line), f"{line.copies:,}" if line and line.copies else _DASH]
        difference = _difference(of_arm)
        row += [_DASH if difference is None else signed_time(difference)] if several else []
        rows.append([*row, *(_waited(of_arm.get(one.arm)) for one in arms)])
    return table(columns, rows, numbers_from=1, label="Median time of a copy by size")


def _median(line: SizeRow | None) -> str:
    if line is None or line.median_us is None or line.p10_us is None or line.p90_us is None:
        return _DASH
    spread = "" if line.copies == 1 else f" [{time_text(line.p10_us)} – {time_text(line.p90_us)}]"
    return f"{time_text(line.median_us)}{spread}"


def _waited(line: SizeRow | None) -> str:
    if line is None or line.waited_median_us is None:
        return _DASH
    return f"{line.waited:,} × {time_text(line.waited_median_us)}"


def _grid(arms: Sequence[ArmCopies], lines: Sequence[_Line]) -> Component:
    """The same with plain numbers, which can be sorted."""
    columns: list[dict[str, Any]] = [{"field": "kind", "headerName": "copies", "minWidth": 190}]
    columns.append(_number("bytes", "bytes"))
    for one in arms:
        columns.append(_number(f"median_{one.arm}", f"{one.prefix}median, µs"))
        columns.append(_number(f"copies_{one.arm}", f"{one.prefix}copies"))
    if len(arms) > 1:
        columns.append(_number("difference", "on − off, µs"))
    columns += [_number(f"waited_{one.arm}", f"{one.prefix}waited") for one in arms]
    return grid(
        "copies-sizes", columns, [_cells(*line) for line in lines], label="Median time of a copy by size"
    )


def _number(field: str, title: str) -> dict[str, Any]:
    return {"field": field, "headerName": title, "type": "numericColumn", "minWidth": 120, "filter": False}


def _cells(kind: str, of_arm: Mapping[str, SizeRow]) -> dict[str, Any]:
    cells: dict[str, Any] = {
        "kind": kind,
        "bytes": _size(of_arm),
        "difference": _rounded(_difference(of_arm)),
    }
    for arm, line in of_arm.items():
        cells[f"median_{arm}"] = _rounded(line.median_us)
        cells[f"copies_{arm}"], cells[f"waited_{arm}"] = line.copies, line.waited
    return cells


def _rounded(us: float | None) -> float | None:
    return None if us is None else round(us, 2)
