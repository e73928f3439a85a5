"""Copies described by structures and lists (2D, 3D, batches), and allocations in stream order."""

from __future__ import annotations

from typing import Any

import pytest

from cctrace.collectors.spool.layout import COPY_CODES, MEMORY_CODES, Flag, Kind, Operation

STRUCTURES = """
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
def end_fields(prefix, depth):
    three = [("LOD", c_size_t)] if depth else []
    last = [("reserved", c_void_p)] if depth else []
    height = [("Height", c_size_t)] if depth else []
    z = [("Z", c_size_t)] if depth else []
    fields = [("XInBytes", c_size_t), ("Y", c_size_t), *z, *three, ("MemoryType", c_int), ("Host", c_void_p),
              ("Device", c_uint64), ("Array", c_void_p), *last, ("Pitch", c_size_t), *height]
    return [(prefix + name, kind) for name, kind in fields]
def structure(depth):
    extent = [("WidthInBytes", c_size_t), ("Height", c_size_t)] + ([("Depth", c_size_t)] if depth else [])
    fields = end_fields("src", depth) + end_fields("dst", depth) + extent
    return type("Copy", (ctypes.Structure,), {"_fields_": fields})
start(); s = stream(); h = pinned(4096); d = device(4096)
block = ctypes.create_string_buffer(4096); p = ctypes.addressof(block)
def copy(depth=0, **fields):
    c = structure(depth)(WidthInBytes=100, Height=6)
    if depth: c.Depth = depth
    for name, value in fields.items(): setattr(c, name, value)
    return byref(c)
"""
TO_DEVICE = "srcMemoryType=HOST, srcHost=h.value, dstMemoryType=DEVICE, dstDevice=d.value"
TO_HOST = "srcMemoryType=DEVICE, srcDevice=d.value, dstMemoryType=HOST, dstHost=p"


def only(spool: Any, operation: Operation) -> Any:
    """The only call of an operation."""
    (record,) = (r for r in spool.of(Kind.CALL) if r["operation"] == operation)
    return record


def ends(record: Any) -> tuple[str, str, str]:
    """Source, destination and direction of a copy."""
    memory = int(record["memory"])
    return MEMORY_CODES[memory & 15], MEMORY_CODES[memory >> 4], COPY_CODES[int(record["copy_kind"])]


@pytest.mark.parametrize(
    ("call", "size", "expected"),
    [
        (f"cuda.cuMemcpy2DAsync_v2(copy({TO_DEVICE}), s)", 600, ("pinned", "device", "h2d")),
        (f"cuda.cuMemcpy2DAsync_v2(copy({TO_HOST}), s)", 600, ("device", "pageable", "d2h")),
        (f"cuda.cuMemcpy2D_v2(copy({TO_HOST}))", 600, ("device", "pageable", "d2h")),
        (f"cuda.cuMemcpy2DUnaligned_v2(copy({TO_DEVICE}))", 600, ("pinned", "device", "h2d")),
        (f"cuda.cuMemcpy3DAsync_v2(copy(5, {TO_DEVICE}), s)", 3000, ("pinned", "device", "h2d")),
        (f"cuda.cuMemcpy3D_v2(copy(5, {TO_HOST}))", 3000, ("device", "pageable", "d2h")),
        (
            "cuda.cuMemcpy2DAsync_v2(copy(srcMemoryType=UNIFIED, srcDevice=h.value, "
            "dstMemoryType=UNIFIED, dstDevice=d.value), s)",
            600,
            ("pinned", "device", "h2d"),
        ),
        (
            "cuda.cuMemcpy2DAsync_v2(copy(srcMemoryType=ARRAY, dstMemoryType=DEVICE, dstDevice=d.value), s)",
            600,
            ("array", "device", "d2d"),
        ),
    ],
)
def test_strided_copies(recorder: Any, call: str, size: int, expected: tuple[str, str, str]) -> None:
    spool = recorder.python(STRUCTURES + f"check({call})").spool
    record = only(spool, Operation.COPY)
    assert record["bytes"] == size
    assert ends(record) == expected
    assert bool(record["flags"] & Flag.SYNCHRONOUS) == ("Async" not in call)


@pytest.mark.parametrize(
    ("symbol", "arguments"),
    [
        (
            "cuMemcpyBatchAsync",
            "to, source, sizes, c_size_t(3), None, None, c_size_t(0), byref(c_size_t()), s",
        ),
        ("cuMemcpyBatchAsync_v2", "to, source, sizes, c_size_t(3), None, None, c_size_t(0), s"),
    ],
)
def test_batches_add_their_sizes(recorder: Any, symbol: str, arguments: str) -> None:
    code = f"""
to = (c_uint64 * 3)(d.value, d.value + 64, d.value + 128)
source = (c_uint64 * 3)(h.value, h.value + 64, h.value + 128)
sizes = (c_size_t * 3)(10, 20, 30)
check(cuda.{symbol}({arguments}))
"""
    record = only(recorder.python(STRUCTURES + code).spool, Operation.COPY)
    assert record["bytes"] == 60
    assert ends(record) == ("pinned", "device", "h2d")


def test_an_absurd_extent_does_not_wrap_around(recorder: Any) -> None:
    code = f"cuda.cuMemcpy3DAsync_v2(copy(5, WidthInBytes=1 << 60, Height=1 << 60, {TO_DEVICE}), s)"
    record = only(recorder.python(STRUCTURES + code).spool, Operation.COPY)
    assert record["bytes"] == 2**64 - 1


def test_allocations_in_stream_order_are_submissions(recorder: Any) -> None:
    code = """
start(); s = stream(); p = c_uint64()
check(cuda.cuMemAllocAsync(byref(p), c_size_t(777), s)); check(cuda.cuMemFreeAsync(p, s))
check(cuda.cuMemAllocFromPoolAsync(byref(p), c_size_t(888), None, s))
print(s.value)
"""
    recording = recorder.python(code)
    records = [r for r in recording.spool.of(Kind.CALL) if r["operation"] == Operation.STREAM_ALLOC]
    assert [int(r["bytes"]) for r in records] == [777, 0, 888]
    assert {int(r["stream"]) for r in records} == {int(recording.out)}


def test_pitched_memory_counts_width_times_height(recorder: Any) -> None:
    code = """
start(); p, q = c_uint64(), c_size_t()
check(cuda.cuMemAllocPitch_v2(byref(p), byref(q), c_size_t(100), c_size_t(7), 4))
"""
    assert only(recorder.python(code).spool, Operation.DEVICE_ALLOC)["bytes"] == 700
