"""Records of one lane as trace columns. Nothing here loops over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cctrace.collectors.spool.layout import (
    COPY_CODES,
    FROM_STAMPS,
    MEMORY_CODES,
    Flag,
    Kind,
    Operation,
)
from cctrace.collectors.spool.spoolfile import Records
from cctrace.trace.schema import KINDS, OPERATIONS, SCHEMA, SOURCES

_INT64_MAX: Final = np.uint64(2**63 - 1)
_KIND_WORDS: Final = pa.array(list(KINDS))
_OPERATION_WORDS: Final = pa.array(list(OPERATIONS))
_SOURCE_WORDS: Final = pa.array(list(SOURCES))
_COPY_WORDS: Final = pa.array(COPY_CODES[1:])
_MEMORY_WORDS: Final = pa.array(MEMORY_CODES)


def _table(words: Sequence[str], meanings: Mapping[int, str], size: int = 256) -> npt.NDArray[np.int32]:
    """Code -> place of its word, −1 for codes without one."""
    places = {word: place for place, word in enumerate(words)}
    table = np.full(size, -1, dtype=np.int32)
    for code, word in meanings.items():
        table[code] = places[word]
    return table


_OPERATION: Final = _table(
    list(OPERATIONS), {int(o): o.name.lower().replace("_", "-") for o in Operation if o is not Operation.NONE}
)
_CALL_KIND: Final = _table(
    list(KINDS),
    {
        **{int(o): "submit" for o in Operation if Operation.KERNEL <= o <= Operation.UNKNOWN},
        **{int(o): "wait" for o in Operation if Operation.STREAM_SYNC <= o <= Operation.QUERY},
        **{int(o): "alloc" for o in Operation if Operation.HOST_ALLOC <= o <= Operation.DEVICE_FREE},
        **{int(o): "capture" for o in Operation if Operation.CAPTURE_BEGIN <= o <= Operation.GRAPH_BUILD},
    },
)
_RECORD_KIND: Final = _table(
    list(KINDS),
    {
        Kind.MARK: "range",
        Kind.KERNEL: "kernel",
        Kind.GRAPH: "graph",
        Kind.COPY: "copy",
        Kind.MEMSET: "memset",
        Kind.SYNC: "sync",
        Kind.OVERHEAD: "overhead",
        Kind.ROTATION: "crypto",
    },
)
_KINDS_PLACE: Final = {word: np.int32(place) for place, word in enumerate(KINDS)}
_SOURCE_PLACE: Final = {word: np.int32(place) for place, word in enumerate(SOURCES)}


def _codes(*members: Operation) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, dtype=bool)
    table[[int(m) for m in members]] = True
    return table


_ON_STREAM: Final = _codes(
    *(o for o in Operation if Operation.KERNEL <= o <= Operation.UNKNOWN),
    Operation.STREAM_SYNC,
    Operation.QUERY,
    Operation.CAPTURE_BEGIN,
    Operation.CAPTURE_END,
)
_SIZED: Final = _codes(Operation.COPY, Operation.MEMSET)
_MAYBE_SIZED: Final = _codes(
    Operation.PREFETCH,
    Operation.STREAM_ALLOC,
    Operation.HOST_ALLOC,
    Operation.HOST_REGISTER,
    Operation.DEVICE_ALLOC,
)
_OF_EVENT: Final = _codes(
    Operation.EVENT_RECORD, Operation.STREAM_WAIT, Operation.EVENT_SYNC, Operation.QUERY
)
_BLOCKING: Final = _codes(Operation.STREAM_SYNC, Operation.EVENT_SYNC, Operation.CONTEXT_SYNC)
_OF_EXECUTABLE: Final = _codes(Operation.GRAPH, Operation.GRAPH_BUILD)


class Texts:
    """The texts of one process's spool by their ids, as dictionaries of Arrow columns."""

    def __init__(self, texts: Mapping[int, str], classes: Sequence[str] = ()) -> None:
        ids = sorted(texts)
        # Ids count up from 1. A damaged one far above must not make the table large.
        limit = 16 * len(ids) + 1024
        ids = [i for i in ids if i <= limit]
        self.words = pa.array([texts[i] for i in ids], pa.string())
        self._place = np.full((ids[-1] if ids else 0) + 2, -1, dtype=np.int32)
        self._place[ids] = np.arange(len(ids), dtype=np.int32)
        self.classes = pa.array(classes, pa.string())

    def places(self, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """Place of each id's text in `words`; −1 if there is none."""
        return self._place[np.minimum(ids, len(self._place) - 1)]


@dataclass(frozen=True)
class LaneRows:
    """What rows of a lane share, and the numbers that were found for each row."""

    pid: int
    lane: int
    tid: int | None
    role: str | None


@dataclass(frozen=True)
class Numbers:
    """Per row: dense numbers, −1 for none. Arrays of int64 as long as the records; None: none at all."""

    stream: npt.NDArray[np.int64] | None = None
    correlation: npt.NDArray[np.int64] | None = None
    graph: npt.NDArray[np.int64] | None = None
    ref: npt.NDArray[np.int64] | None = None


def wants_stream(operations: npt.NDArray[np.uint8], objects: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Calls whose stream means something; a query with an object asks about an event."""
    about_event = (operations == Operation.QUERY) & (objects != 0)
    wanted: npt.NDArray[np.bool_] = _ON_STREAM[operations] & ~about_event
    return wanted


def wants_event(operations: npt.NDArray[np.uint8], objects: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Calls whose object is an event."""
    wanted: npt.NDArray[np.bool_] = _OF_EVENT[operations] & (objects != 0)
    return wanted


def may_be_executable(
    operations: npt.NDArray[np.uint8], objects: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Calls whose object is or may be an executable graph."""
    wanted: npt.NDArray[np.bool_] = _OF_EXECUTABLE[operations] & (objects != 0)
    return wanted


def lane_table(records: Records, shared: LaneRows, texts: Texts, numbers: Numbers) -> pa.Table:
    """Rows of one lane as a table of `SCHEMA`; `records` are sorted by start.

    Call, mark and GPU records may be mixed. For steps, `object` is the number of the step and `bytes` the
    place of its class in `texts.classes`.
    """
    count = len(records)
    columns: dict[str, pa.Array] = {
        "pid": _constant(shared.pid, count, pa.int32()),
        "lane": _constant(shared.lane, count, pa.int32()),
        "tid": _constant(shared.tid, count, pa.int32()),
        "role": _constant_word(shared.role, count),
    }
    kinds = records["kind"]
    is_call = kinds == Kind.CALL
    columns.update(_times(records))
    columns["device"] = _device(records["device"])
    columns["name"] = _words(texts.places(records["name"]), texts.words)
    if bool(is_call.all()):
        columns.update(_call_columns(records, texts))
        columns["source"] = _constant_word("interposer", count)
    else:
        columns.update(_mixed_columns(records, kinds, is_call, texts))
    for name, values in (
        ("stream", numbers.stream),
        ("correlation", numbers.correlation),
        ("graph_id", numbers.graph),
        ("ref", numbers.ref),
    ):
        if values is not None:
            columns[name] = _nullable(values, SCHEMA.field(name).type)
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _times(records: Records) -> dict[str, pa.Array]:
    starts = np.minimum(records["start_ns"], _INT64_MAX).astype(np.int64)
    ends = np.minimum(records["end_ns"], _INT64_MAX).astype(np.int64)
    return {"start_ns": pa.array(starts), "duration_ns": pa.array(np.maximum(ends - starts, 0))}


def _call_columns(records: Records, texts: Texts) -> dict[str, pa.Array]:
    operations, flags = records["operation"].copy(), records["flags"].copy()
    captured = (flags & Flag.CAPTURED) != 0
    kind = _CALL_KIND[operations]
    if captured.any():
        kind = np.where(captured, _KINDS_PLACE["capture"], kind)
    columns = {
        "kind": _words(kind, _KIND_WORDS),
        "operation": _words(_OPERATION[operations], _OPERATION_WORDS),
        "result": pa.array(np.clip(records["result"], -(2**15), 2**15 - 1).astype(np.int16)),
    }
    launches = operations == Operation.KERNEL
    if launches.any():
        symbols = texts.places(np.where(launches, records["link"], 0).astype(np.uint32))
        columns["kernel"] = _words(symbols, texts.words)
    sized = (_SIZED[operations] & ~captured) | (_MAYBE_SIZED[operations] & (records["bytes"] > 0))
    if sized.any():
        columns["bytes"] = _sizes(records["bytes"], sized)
    copies = (operations == Operation.COPY) & ~captured
    if copies.any():
        columns.update(_copy_columns(records, copies))
    waits = _BLOCKING[operations]
    known = (waits | _SIZED[operations] | (operations == Operation.QUERY)) & ~captured
    if known.any():
        blocks = waits | (_SIZED[operations] & ((flags & Flag.SYNCHRONOUS) != 0))
        columns["blocking"] = pa.array(blocks, mask=~known)
    return columns


def _copy_columns(records: Records, copies: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    code = records["copy_kind"]
    direction = np.where(copies & (code < len(COPY_CODES)), code.astype(np.int32) - 1, -1)
    known = copies & (direction >= 0)
    memory = records["memory"]
    columns = {"copy_kind": _words(direction.astype(np.int32), _COPY_WORDS)}
    for name, nibble in (("src_memory", memory & 15), ("dst_memory", memory >> 4)):
        place = np.where(nibble < len(MEMORY_CODES), nibble, 0).astype(np.int32)
        columns[name] = _words(np.where(known, place, np.int32(-1)), _MEMORY_WORDS)
    return columns


def _mixed_columns(
    records: Records, kinds: npt.NDArray[np.uint8], is_call: npt.NDArray[np.bool_], texts: Texts
) -> dict[str, pa.Array]:
    """Columns of a batch that holds more than calls: those of calls where they are calls, and the rest."""
    count = len(records)
    columns: dict[str, Any] = {}
    if is_call.any():
        calls = np.flatnonzero(is_call)
        partial = _call_columns(records[calls], texts)
        spread = np.full(count, -1, dtype=np.int64)
        spread[calls] = np.arange(len(calls))
        places = pa.array(spread, mask=~is_call)
        columns = {name: column.take(places) for name, column in partial.items()}
    others = np.flatnonzero(~is_call)
    part = records[others]
    kind, source = _row_kinds(part)
    all_kinds = np.full(count, -1, dtype=np.int32)
    all_sources = np.full(count, _SOURCE_PLACE["interposer"], dtype=np.int32)
    all_kinds[is_call] = _call_kinds(records[is_call])
    all_kinds[others], all_sources[others] = kind, source
    columns["kind"] = _words(all_kinds, _KIND_WORDS)
    columns["source"] = _words(all_sources, _SOURCE_WORDS)
    _add_steps(columns, records, kinds, texts)
    _add_gpu(columns, records, kinds)
    return columns


def _call_kinds(records: Records) -> npt.NDArray[np.int32]:
    kind = _CALL_KIND[records["operation"]]
    captured = (records["flags"] & Flag.CAPTURED) != 0
    kinds: npt.NDArray[np.int32] = np.where(captured, _KINDS_PLACE["capture"], kind)
    return kinds


def _row_kinds(records: Records) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    kinds, flags = records["kind"], records["flags"]
    kind = _RECORD_KIND[kinds]
    is_mark = kinds == Kind.MARK
    kind = np.where(is_mark & ((flags & Flag.STEP_MARK) != 0), _KINDS_PLACE["step"], kind)
    source = np.full(len(records), _SOURCE_PLACE["cupti"], dtype=np.int32)
    source[is_mark] = _SOURCE_PLACE["hook"]
    source[is_mark & ((flags & Flag.NVTX) != 0)] = _SOURCE_PLACE["nvtx"]
    source[records["reserved"] == FROM_STAMPS] = _SOURCE_PLACE["stamps"]
    return kind, source


def _add_steps(
    columns: dict[str, pa.Array], records: Records, kinds: npt.NDArray[np.uint8], texts: Texts
) -> None:
    steps = (kinds == Kind.MARK) & ((records["flags"] & Flag.STEP_MARK) != 0)
    if steps.any():
        columns["step"] = pa.array(np.where(steps, records["object"], 0).astype(np.int32), mask=~steps)
        place = np.where(steps, records["bytes"].astype(np.int64), -1).astype(np.int32)
        columns["step_class"] = _words(place, texts.classes)


def _add_gpu(columns: dict[str, pa.Array], records: Records, kinds: npt.NDArray[np.uint8]) -> None:
    gpu = (kinds >= Kind.KERNEL) & (kinds <= Kind.SYNC)
    if not gpu.any():
        return
    nodes = gpu & (kinds != Kind.SYNC) & (records["object"] != 0) & (records["reserved"] == 0)
    if nodes.any():
        columns["node_id"] = _sizes(records["object"], nodes)
    sized = (kinds == Kind.COPY) | (kinds == Kind.MEMSET)
    if sized.any():
        columns["bytes"] = _sizes(records["bytes"], sized)
    copies = kinds == Kind.COPY
    if copies.any():
        columns.update(_copy_columns(records, copies))
    syncs = kinds == Kind.SYNC
    if syncs.any():
        operation = np.where(syncs, _OPERATION[records["operation"]], np.int32(-1))
        columns["operation"] = _words(operation, _OPERATION_WORDS)


def _words(places: npt.NDArray[np.int32], words: pa.Array) -> pa.DictionaryArray:
    """A dictionary column of only the words that occur; place −1 is null."""
    missing = places < 0
    any_missing = bool(missing.any())
    if len(words) > 64:  # a process has thousands of kernel symbols: few of them occur in one batch
        used = np.zeros(len(words) + 1, dtype=bool)
        used[places] = True
        used = used[:-1]
        renumbered = np.cumsum(used, dtype=np.int32) - 1
        words = words.take(pa.array(np.flatnonzero(used)))
        places = renumbered[places] if len(words) else np.zeros_like(places)
    indices = pa.array(places, mask=missing) if any_missing else pa.array(places)
    return pa.DictionaryArray.from_arrays(indices, words)


def _constant(value: int | None, count: int, kind: pa.DataType) -> pa.Array:
    if value is None:
        return pa.nulls(count, kind)
    return pa.array(np.full(count, value, dtype=kind.to_pandas_dtype()))


def _constant_word(word: str | None, count: int) -> pa.DictionaryArray:
    if word is None:
        return pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()), pa.array([], pa.string()))
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([word]))


def _device(devices: npt.NDArray[np.uint16]) -> pa.Array:
    unknown = devices > 2**15 - 1  # NO_DEVICE, or damage
    values = np.where(unknown, 0, devices).astype(np.int16)
    return pa.array(values, mask=unknown) if bool(unknown.any()) else pa.array(values)


def _sizes(values: npt.NDArray[np.uint64], known: npt.NDArray[np.bool_]) -> pa.Array:
    known = known & (values <= _INT64_MAX)
    return pa.array(np.where(known, values, 0).astype(np.int64), mask=~known)


def _nullable(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    missing = values < 0
    typed = values.astype(kind.to_pandas_dtype())
    return pa.array(typed, mask=missing) if bool(missing.any()) else pa.array(typed)
