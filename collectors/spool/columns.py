"""Records of one lane as trace columns. Nothing here loops over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cctrace.collectors.spool.collectives import collective_attributes
from cctrace.collectors.spool.layout import (
    COPY_CODES,
    FROM_STAMPS,
    MEMORY_CODES,
    Flag,
    Kind,
    Operation,
)
from cctrace.collectors.spool.merge import Batch
from cctrace.trace.schema import KINDS, OPERATIONS, SCHEMA, SOURCES

_INT64_MAX: Final = np.uint64(2**63 - 1)
_KIND_WORDS: Final = pa.array(list(KINDS))
_OPERATION_WORDS: Final = pa.array(list(OPERATIONS))
_SOURCE_WORDS: Final = pa.array(list(SOURCES))
_COPY_WORDS: Final = pa.array(COPY_CODES[1:])
_MEMORY_WORDS: Final = pa.array(MEMORY_CODES)

Codes: TypeAlias = npt.NDArray[np.uint8]
_NO_WORD: Final = np.uint8(255)
"""Place of a word where there is none, in the vocabularies of this page: none has so many words."""


def _look_up(table: Codes, codes: Codes) -> Codes:
    """`table[codes]`, in a third of the time."""
    return np.frombuffer(codes.tobytes().translate(table.tobytes()), dtype=np.uint8)


def _table(words: Sequence[str], meanings: Mapping[int, str]) -> Codes:
    """Code of a record -> place of its word."""
    places = {word: place for place, word in enumerate(words)}
    table = np.full(256, _NO_WORD)
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
        Kind.COLLECTIVE: "collective",
        Kind.KERNEL: "kernel",
        Kind.GRAPH: "graph",
        Kind.COPY: "copy",
        Kind.MEMSET: "memset",
        Kind.SYNC: "sync",
        Kind.OVERHEAD: "overhead",
        Kind.ROTATION: "crypto",
    },
)
_KIND_PLACE: Final = {word: np.uint8(place) for place, word in enumerate(KINDS)}
_SOURCE_PLACE: Final = {word: np.uint8(place) for place, word in enumerate(SOURCES)}


def _codes(*members: Operation) -> Codes:
    """Operation -> 1 if it is one of the members."""
    table = np.zeros(256, dtype=np.uint8)
    table[[int(m) for m in members]] = 1
    return table


def _is_in(batch: Batch, members: Codes) -> npt.NDArray[np.bool_]:
    """Which records are calls of an operation among the members."""
    return _look_up(members, batch.operations).view(np.bool_)


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


def wants_stream(batch: Batch) -> npt.NDArray[np.bool_]:
    """Calls whose stream means something; a query with an object asks about an event."""
    wanted = _is_in(batch, _ON_STREAM) | batch.is_collective
    queries = batch.operations == Operation.QUERY
    return wanted & ~(queries & (batch["object"] != 0)) if queries.any() else wanted


def wants_event(batch: Batch) -> npt.NDArray[np.bool_]:
    """Calls whose object is an event."""
    wanted = _is_in(batch, _OF_EVENT)
    return wanted & (batch["object"] != 0) if wanted.any() else wanted


def may_be_executable(batch: Batch) -> npt.NDArray[np.bool_]:
    """Calls whose object is or may be an executable graph."""
    wanted = _is_in(batch, _OF_EXECUTABLE)
    return wanted & (batch["object"] != 0) if wanted.any() else wanted


def lane_table(batch: Batch, shared: LaneRows, texts: Texts, numbers: Numbers) -> pa.Table:
    """Rows of one lane as a table of `SCHEMA`.

    Call, mark and GPU records may be mixed. For steps, `object` is the number of the step and `bytes` the
    place of its class in `texts.classes`.
    """
    count = len(batch)
    calls = int(np.count_nonzero(batch.is_call))
    collectives = calls < count and bool(batch.is_collective.any())
    columns: dict[str, pa.Array] = {
        "pid": _constant(shared.pid, count, pa.int32()),
        "lane": _constant(shared.lane, count, pa.int32()),
        "tid": _constant(shared.tid, count, pa.int32()),
        "role": _constant_word(shared.role, count),
        "device": _device(batch["device"]),
        "name": _words(texts.places(batch["name"]), texts.words),
    }
    starts, ends = _bounded(batch["start_ns"]), _bounded(batch["end_ns"])
    columns["start_ns"], columns["duration_ns"] = pa.array(starts), pa.array(np.maximum(ends - starts, 0))
    if calls or collectives:
        columns.update(_call_columns(batch, texts))
    if collectives:
        columns["attributes"] = collective_attributes(batch)
    if calls == count:
        columns["kind"] = _coded(_call_kinds(batch), _KIND_WORDS)
        columns["source"] = _constant_word("interposer", count)
    else:
        kinds, sources = _kinds_and_sources(batch)
        columns["kind"], columns["source"] = _coded(kinds, _KIND_WORDS), _coded(sources, _SOURCE_WORDS)
        columns.update(_step_columns(batch, texts))
        columns.update(_gpu_columns(batch))
    for name, values in (
        ("stream", numbers.stream),
        ("correlation", numbers.correlation),
        ("graph_id", numbers.graph),
        ("ref", numbers.ref),
    ):
        if values is not None:
            columns[name] = _nullable(values, SCHEMA.field(name).type)
    arrays = [columns[field.name] if field.name in columns else _nulls(count, field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _captured(batch: Batch) -> npt.NDArray[np.bool_]:
    captured: npt.NDArray[np.bool_] = (batch["flags"] & Flag.CAPTURED) != 0
    return captured


def _call_columns(batch: Batch, texts: Texts) -> dict[str, pa.Array]:
    """Columns that only host calls fill, NCCL's included.

    The operation of other rows than the driver's calls is 0, which none of the tables knows.
    """
    operations, captured = batch.operations, _captured(batch)
    result = np.clip(batch["result"], -(2**15), 2**15 - 1).astype(np.int16)
    columns = {
        "operation": _coded(_look_up(_OPERATION, operations), _OPERATION_WORDS),
        "result": _masked(result, batch.is_call | batch.is_collective),
    }
    launches = operations == Operation.KERNEL
    if launches.any():
        symbols = np.where(launches, batch["link"], np.uint32(0))
        columns["kernel"] = _words(texts.places(symbols), texts.words)
    sizes = _is_in(batch, _SIZED)
    sized = sizes & ~captured | batch.is_collective
    maybe_sized = _is_in(batch, _MAYBE_SIZED)
    if maybe_sized.any():
        sized = sized | maybe_sized & (batch["bytes"] > 0)
    if sized.any():
        columns["bytes"] = _sizes(batch["bytes"], sized)
    copies = (operations == Operation.COPY) & ~captured
    if copies.any():
        columns.update(_copy_columns(batch, copies))
    waits = _is_in(batch, _BLOCKING)
    known = (waits | sizes | (operations == Operation.QUERY)) & ~captured
    if known.any():
        blocks = waits | (sizes & ((batch["flags"] & Flag.SYNCHRONOUS) != 0))
        columns["blocking"] = pa.array(blocks, mask=~known)
    return columns


def _copy_columns(batch: Batch, copies: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    code, memory = batch["copy_kind"], batch["memory"]
    known = copies & (code > 0) & (code < len(COPY_CODES))
    columns = {"copy_kind": _coded(np.where(known, code - np.uint8(1), _NO_WORD), _COPY_WORDS)}
    for name, nibble in (("src_memory", memory & np.uint8(15)), ("dst_memory", memory >> np.uint8(4))):
        place = np.where(nibble < len(MEMORY_CODES), nibble, np.uint8(0))
        columns[name] = _coded(np.where(known, place, _NO_WORD), _MEMORY_WORDS)
    return columns


def _call_kinds(batch: Batch) -> Codes:
    kinds = _look_up(_CALL_KIND, batch.operations)
    captured = _captured(batch)
    return np.where(captured, _KIND_PLACE["capture"], kinds) if captured.any() else kinds


def _kinds_and_sources(batch: Batch) -> tuple[Codes, Codes]:
    record_kinds, flags, is_call = batch["kind"], batch["flags"], batch.is_call
    is_mark = record_kinds == Kind.MARK
    kinds = np.where(is_call, _call_kinds(batch), _look_up(_RECORD_KIND, record_kinds))
    kinds = np.where(_is_step(batch), _KIND_PLACE["step"], kinds)
    sources = np.where(is_call | batch.is_collective, _SOURCE_PLACE["interposer"], _SOURCE_PLACE["cupti"])
    marks = np.where((flags & Flag.NVTX) != 0, _SOURCE_PLACE["nvtx"], _SOURCE_PLACE["hook"])
    sources = np.where(is_mark, marks, sources)
    return kinds, np.where(batch["reserved"] == FROM_STAMPS, _SOURCE_PLACE["stamps"], sources)


def _is_step(batch: Batch) -> npt.NDArray[np.bool_]:
    steps: npt.NDArray[np.bool_] = (batch["kind"] == Kind.MARK) & ((batch["flags"] & Flag.STEP_MARK) != 0)
    return steps


def _step_columns(batch: Batch, texts: Texts) -> dict[str, pa.Array]:
    steps = _is_step(batch)
    if not steps.any():
        return {}
    numbers = np.where(steps, batch["object"], np.uint64(0)).astype(np.int32)
    return {
        "step": _masked(numbers, steps),
        "step_class": _words(np.where(steps, batch["bytes"].astype(np.int32), np.int32(-1)), texts.classes),
    }


def _gpu_columns(batch: Batch) -> dict[str, pa.Array]:
    kinds = batch["kind"]
    gpu = (kinds >= Kind.KERNEL) & (kinds <= Kind.SYNC)
    columns: dict[str, pa.Array] = {}
    if not gpu.any():
        return columns
    nodes = gpu & (kinds != Kind.SYNC) & (batch["object"] != 0) & (batch["reserved"] == 0)
    if nodes.any():
        columns["node_id"] = _sizes(batch["object"], nodes)
    sized = (kinds == Kind.COPY) | (kinds == Kind.MEMSET)
    if sized.any():
        columns["bytes"] = _sizes(batch["bytes"], sized)
    copies = kinds == Kind.COPY
    if copies.any():
        columns.update(_copy_columns(batch, copies))
    syncs = kinds == Kind.SYNC
    if syncs.any():
        operations = np.where(syncs, _look_up(_OPERATION, batch["operation"]), _NO_WORD)
        columns["operation"] = _coded(operations, _OPERATION_WORDS)
    return columns


def _bounded(times: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Times as signed numbers; only damage is larger."""
    bounded: npt.NDArray[np.int64] = np.minimum(times, _INT64_MAX).view(np.int64)
    return bounded


def _coded(places: Codes, words: pa.Array) -> pa.DictionaryArray:
    """A dictionary column of a vocabulary; it always holds the whole vocabulary."""
    indices = places.astype(np.int32)
    known = places != _NO_WORD
    return _dictionary(pa.array(indices) if bool(known.all()) else _masked(indices, known), words)


def _words(places: npt.NDArray[np.int32], words: pa.Array) -> pa.DictionaryArray:
    """A dictionary column of only the words that occur in the batch; place −1 is null."""
    used = np.bincount(places + 1, minlength=len(words) + 1) > 0
    missing = bool(used[0])
    renumbered = np.cumsum(used[1:], dtype=np.int32) - 1
    indices = np.take(np.concatenate((np.zeros(1, np.int32), renumbered)), places + 1)
    column = _masked(indices, places >= 0) if missing else pa.array(indices)
    return _dictionary(column, words.take(pa.array(np.flatnonzero(used[1:]))))


def _dictionary(indices: pa.Array, words: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(indices, words, safe=False)  # the indices are ours


def _masked(values: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> pa.Array:
    """Values that are null where they are not known, without Arrow's copy."""
    valid = pa.py_buffer(np.packbits(known, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, data])


def _constant(value: int | None, count: int, kind: pa.DataType) -> pa.Array:
    if value is None:
        return _nulls(count, kind)
    return _repeated(value, 1 << (count - 1).bit_length(), kind).slice(0, count)


def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return _all_null(1 << (count - 1).bit_length(), kind).slice(0, count)


@lru_cache(maxsize=64)
def _all_null(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


@lru_cache(maxsize=32)
def _repeated(value: int, count: int, kind: pa.DataType) -> pa.Array:
    """The batches of a lane share one array of their common values."""
    return pa.array(np.full(count, value, dtype=kind.to_pandas_dtype()))


def _constant_word(word: str | None, count: int) -> pa.DictionaryArray:
    if word is None:
        return _nulls(count, pa.dictionary(pa.int32(), pa.string()))
    return _dictionary(_constant(0, count, pa.int32()), pa.array([word]))


def _device(devices: npt.NDArray[np.uint16]) -> pa.Array:
    unknown = devices > 2**15 - 1  # NO_DEVICE, or damage
    values = np.where(unknown, 0, devices).astype(np.int16)
    return _masked(values, ~unknown) if bool(unknown.any()) else pa.array(values)


def _sizes(values: npt.NDArray[np.uint64], known: npt.NDArray[np.bool_]) -> pa.Array:
    known = known & (values <= _INT64_MAX)
    return _masked(np.where(known, values, np.uint64(0)).view(np.int64), known)


def _nullable(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    known = values >= 0
    typed = values.astype(kind.to_pandas_dtype())
    return pa.array(typed) if bool(known.all()) else _masked(typed, known)
