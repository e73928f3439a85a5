"""`counters.jsonl` as trace rows: one row per counter and sample."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeGuard

import pyarrow as pa

from cctrace.collectors.spool.lanes import Lanes
from cctrace.trace.schema import SCHEMA

COUNTERS_NAME: Final = "counters.jsonl"

MACHINE_PID: Final = 0
"""Counters belong to the machine, to no process."""

MAX_BYTES: Final = 256 << 20
"""Read at most: 10 samples a second of 8 GPUs make 20 MB an hour."""

MAX_LINE_CHARACTERS: Final = 64 << 10


def counter_tables(folder: Path, lanes: Lanes) -> tuple[list[pa.Table], int]:
    """Tables in the order of lane and time, one lane a GPU, and how many lines could not be read.

    The last line of a killed recorder may be torn.
    """
    path = folder / COUNTERS_NAME
    if not path.is_file():
        return [], 0
    samples: dict[int, list[tuple[int, str, float]]] = {}
    unreadable = 0
    for line in _lines(path):
        sample = _sample(line)
        if sample is None:
            unreadable += 1
            continue
        time_ns, device, values = sample
        samples.setdefault(device, []).extend((time_ns, name, value) for name, value in values.items())
    tables = []
    for device, rows in sorted(samples.items()):
        if not rows:
            continue
        lane = lanes.add(MACHINE_PID, "counter", device=device if device >= 0 else None, name=_name(device))
        lanes.count(lane, len(rows))
        tables.append(_table(sorted(rows), device, lane))
    return tables, unreadable


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            read = 0
            while (line := file.readline(MAX_LINE_CHARACTERS)) and read < MAX_BYTES:
                read += len(line)
                yield line
    except OSError:
        yield ""  # counts as a line that cannot be read


def _sample(line: str) -> tuple[int, int, dict[str, float]] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    time_ns, device, values = (document.get(key) for key in ("monotonic_ns", "device", "values"))
    if not _is_int(time_ns, 2**63) or not isinstance(values, dict):
        return None
    numbers = {name: float(value) for name, value in values.items() if _is_number(value)}
    return time_ns, device if _is_int(device, 2**15) else -1, numbers


def _is_int(value: Any, limit: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)


def _name(device: int) -> str:
    return f"counters of GPU {device}" if device >= 0 else "counters"


def _table(rows: list[tuple[int, str, float]], device: int, lane: int) -> pa.Table:
    count = len(rows)
    columns: dict[str, Any] = {
        "kind": ["counter"] * count,
        "name": [name for _, name, _ in rows],
        "source": ["nvml"] * count,
        "start_ns": [time for time, _, _ in rows],
        "duration_ns": [0] * count,
        "pid": [MACHINE_PID] * count,
        "lane": [lane] * count,
        "device": [device if device >= 0 else None] * count,
        "value": [value for _, _, value in rows],
    }
    arrays = []
    for field in SCHEMA:
        if field.name not in columns:
            arrays.append(pa.nulls(count, field.type))
        elif pa.types.is_dictionary(field.type):
            arrays.append(pa.array(columns[field.name], pa.string()).dictionary_encode().cast(field.type))
        else:
            arrays.append(pa.array(columns[field.name], field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
