"""Tables of collectives: off and on side by side, the wait for the latest rank, and what kernels they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import dcc, html
from dash.development.base_component import Component

from cctrace.analyzers.collective_table import CollectiveRow, bus_factor
from cctrace.analyzers.comparability.kernels import MULTICAST, compared_kernels, short_name
from cctrace.analyzers.sentences import bytes_text, count_text, percent, time_text
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import TIMELINE, Address
from cctrace.app.viewer.collective_rows import ArmCollectives, Cell, Line
from cctrace.app.viewer.copy_charts import rate_text
from cctrace.app.viewer.copy_tables import arm_name
from cctrace.app.viewer.grid import table
from cctrace.app.viewer.timeline_request import MAX_TEXT
from cctrace.app.viewer.view import OFF, ON

_DASH: Final = "–"
MAX_KERNELS: Final = 2
"""Kernels of a row that are named."""
ONE_RANK: Final = " *"
"""Marks a time that holds the wait for the latest rank."""
_NCCL: Final = re.compile(
    r"_(?P<algorithm>RING|TREE|NVLS_TREE|NVLS|COLLNET_[A-Z]+|PAT)_(?P<protocol>LL128|LL|SIMPLE)$"
)
"""End of the names of NCCL's kernels: algorithm and protocol."""


def name_of(row: CollectiveRow) -> str:
    """`all-reduce`."""
    return row.operation if row.of_nccl else f"{row.operation} †"


def size_of(row: CollectiveRow) -> str:
    """`128 KiB`, the median of the bucket."""
    return _DASH if row.bytes is None else bytes_text(float(row.bytes))


def main_table(arms: Sequence[ArmCollectives], lines: Sequence[Line]) -> Component:
    """Each operation and size: how often, how long, how fast; of a pair with the ratio of times."""
    rows = []
    for line in lines:
        cells = [line.cells.get(one.arm) for one in arms]
        quantities = [[_quantity(cell, number) for cell in cells] for number in range(len(_QUANTITIES))]
        flat = [text for quantity in quantities for text in quantity]
        ratio = [_ratio(line)] if len(arms) > 1 else []
        ranks = str(line.some.ranks or _DASH)
        rows.append([name_of(line.some), ranks, size_of(line.some), *flat, *ratio])
    titles = [f"{one.prefix}{quantity}" for quantity in _QUANTITIES for one in arms]
    columns = ["operation", "ranks", "bytes", *titles, *(["time on ÷ off"] if len(arms) > 1 else [])]
    return table(columns, rows, numbers_from=1, label="Collectives per step")


_QUANTITIES: Final = ("a step", "time", "bus bandwidth")


def _quantity(cell: Cell | None, number: int) -> str:
    if cell is None:
        return _DASH
    if number == 0:
        return _DASH if cell.row.per_step is None else count_text(cell.row.per_step)
    if number == 1:
        return _time(cell)
    found = cell.bandwidth.bus_gb_per_s
    return _DASH if found is None else rate_text(found)


def _time(cell: Cell) -> str:
    if cell.us is None:
        return _DASH
    return time_text(cell.us) + ("" if cell.joined else ONE_RANK)


def _ratio(line: Line) -> str:
    return _DASH if line.ratio is None else f"{line.ratio:.2f}"


def detail_table(arms: Sequence[ArmCollectives], lines: Sequence[Line], state: Address) -> Component:
    """The rest of what is known of each row, a line for each arm; its kernels lead into the timeline."""
    rows: list[list[Any]] = []
    for line in lines:
        for one in arms:
            cell = line.cells.get(one.arm)
            if cell is not None:
                name = [name_of(cell.row), size_of(cell.row)]
                rows.append([*name, *([arm_name(one.arm)] if one.prefix else []), *_details(cell, state)])
    columns = [
        *("operation", "bytes", *(["arm"] if len(arms) > 1 else [])),
        *(
            "runs",
            "bytes a step",
            "p95 of the time",
            "algorithm bandwidth",
            "factor",
            "host call",
            "type",
            "kernel",
        ),
    ]
    return table(columns, rows, numbers_from=len(columns), label="Collectives in detail")


def _details(cell: Cell, state: Address) -> list[str | Component]:
    row, found = cell.row, cell.bandwidth
    factor = bus_factor(row.operation, row.ranks)
    timed = f"{row.runs:,}" if row.timed in (0, row.runs) else f"{row.runs:,}, {row.timed:,} timed"
    return [
        timed,
        _DASH if row.bytes_per_step is None else bytes_text(row.bytes_per_step),
        _DASH if cell.p95_us is None else time_text(cell.p95_us) + ("" if cell.joined else ONE_RANK),
        _DASH if found.algorithm_gb_per_s is None else rate_text(found.algorithm_gb_per_s),
        _DASH if factor is None else f"{factor:.3g}",
        _DASH if row.call_median_us is None else time_text(row.call_median_us),
        ", ".join(row.datatypes) or _DASH,
        html.Span(_kernel_links(row.kernels, state)),
    ]


def _kernel_links(symbols: Sequence[str], state: Address) -> list[str | Component]:
    """The first kernels; each leads to where the timeline looks for it."""
    parts: list[str | Component] = []
    for symbol in symbols[:MAX_KERNELS]:
        found = state.elsewhere(TIMELINE).with_(q=_name(symbol)[:MAX_TEXT])
        title = f"{safe(_name(symbol))}: in the timeline"
        link = dcc.Link(safe(kernel_words(symbol)), href=str(found), title=title)
        parts += [", ", link] if parts else [link]
    return [*parts, " …"] if len(symbols) > MAX_KERNELS else parts


def kernel_words(symbol: str) -> str:
    """`ring, LL` of NCCL's kernels; the short name of others."""
    found = _NCCL.search(_name(symbol))
    if found is None:
        return _name(symbol)
    protocol = found["protocol"]
    algorithm = found["algorithm"]
    words = algorithm if algorithm.startswith("NVLS") else algorithm.lower().replace("_", " ")
    return f"{words}, {protocol if protocol.startswith('LL') else protocol.lower()}"


def _name(symbol: str) -> str:
    """The name of a kernel without its arguments."""
    return short_name(symbol.split("(", maxsplit=1)[0] or symbol)


def reasons(arms: Sequence[ArmCollectives], lines: Sequence[Line]) -> list[str]:
    """Why a time or a bandwidth of a row cannot be told; equal reasons once."""
    found: dict[str, list[str]] = {}
    for line in lines:
        for one in arms:
            cell = line.cells.get(one.arm)
            reason = cell.bandwidth.cannot_tell_because if cell else None
            if reason and not (one.table.no_times_because and cell and cell.us is None):
                found.setdefault(f"{one.prefix}{reason}", []).append(_what(line))
    return [
        f"{', '.join(dict.fromkeys(rows))}: cannot tell a bandwidth, because {reason}."
        for reason, rows in _merged(found)
    ]


def _what(line: Line) -> str:
    size = "" if line.some.bytes is None else f" of {size_of(line.some)}"
    return f"{name_of(line.some)}{size}"


def _merged(found: dict[str, list[str]]) -> Iterable[tuple[str, list[str]]]:
    """Reasons of both arms that are the same are one."""
    merged: dict[str, list[str]] = {}
    for reason, rows in found.items():
        merged.setdefault(reason.removeprefix(f"{OFF}: ").removeprefix(f"{ON}: "), []).extend(rows)
    return merged.items()


# ---- the latest rank


def rank_table(arms: Sequence[ArmCollectives], lines: Sequence[Line]) -> Component | None:
    """Transfer and waiting of the rows that were seen on several ranks; None if there are none."""
    rows: list[list[Any]] = []
    for line in lines:
        for one in arms:
            cell = line.cells.get(one.arm)
            if cell is None or cell.joined is None:
                continue
            joined = cell.joined
            rows.append(
                [
                    name_of(cell.row),
                    size_of(cell.row),
                    *([arm_name(one.arm)] if one.prefix else []),
                    str(joined.ranks),
                    f"{joined.runs:,}",
                    time_text(joined.wire_median_us),
                    time_text(joined.skew_median_us),
                    time_text(joined.skew_p95_us),
                    f"process {joined.late_pid}: {percent(joined.late_share)}",
                ]
            )
    if not rows:
        return None
    columns = ["operation", "bytes", *(["arm"] if len(arms) > 1 else []), "ranks", "collectives"]
    columns += ["transfer, median", "wait, median", "wait, p95", "latest rank"]
    return table(columns, rows, numbers_from=3 if len(arms) > 1 else 2, label="Waiting for the latest rank")


# ---- kernels


def kernel_changes(arms: Sequence[ArmCollectives]) -> list[Component]:
    """Kernels of collectives that one arm alone runs, and what that means."""
    by_arm = {one.arm: one.table.kernels for one in arms}
    found = compared_kernels([set(by_arm[OFF])], [set(by_arm[ON])])
    if not found.known:
        missing = " and ".join(arm for arm in (OFF, ON) if not by_arm[arm])
        return [html.P(f"Cannot tell, because no kernel of a collective is known of: {missing}.")]
    if not found.only_off and not found.only_on:
        return [html.P(f"Both arms run the same kernels ({found.common}).")]
    rows = [[arm_name(OFF), _kernel(symbol)] for symbol in found.only_off]
    rows += [[arm_name(ON), _kernel(symbol)] for symbol in found.only_on]
    symbols = (*found.only_off, *found.only_on)
    meaning = (
        "One arm reaches other GPUs by multicast or through symmetric memory, which CC blocks: the arms "
        "compare algorithms, not encryption. Repeat the off arm without them (NCCL_NVLS_ENABLE=0)."
        if any(MULTICAST.search(symbol) for symbol in symbols)
        else "Another algorithm was chosen: the difference of its collectives is not encryption alone."
    )
    return [
        html.P(meaning, className="warning"),
        table(["only", "kernel"], rows, numbers_from=2, label="Kernels that one arm alone runs"),
    ]


def _kernel(symbol: str) -> str:
    words, name = kernel_words(symbol), _name(symbol)
    return name if words == name else f"{name} ({words})"
