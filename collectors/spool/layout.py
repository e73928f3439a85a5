"""Layout of a spool's 64-byte records: `native/record.h` for numpy. A change there is a change here."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

MAGIC: Final = 0x50534343
VERSION: Final = 1
NO_DEVICE: Final = 0xFFFF

RECORD: Final = np.dtype(
    {
        "names": [
            "kind",
            "flags",
            "operation",
            "reserved",
            "tid",
            "start_ns",
            "end_ns",
            "stream",
            "bytes",
            "object",
            "link",
            "name",
            "device",
            "memory",
            "copy_kind",
            "result",
        ],
        "formats": [
            "u1",
            "u1",
            "u1",
            "u1",
            "<u4",
            "<u8",
            "<u8",
            "<u8",
            "<u8",
            "<u8",
            "<u4",
            "<u4",
            "<u2",
            "u1",
            "u1",
            "<i4",
        ],
    }
)
RECORD_BYTES: Final = RECORD.itemsize


class Kind(IntEnum):
    """What a record is."""

    CALL = 1
    MARK = 2
    STAMP = 3
    BINDING = 4
    STREAM = 5
    COLLECTIVE = 6
    KERNEL = 32
    GRAPH = 33
    COPY = 34
    MEMSET = 35
    SYNC = 36
    OVERHEAD = 37
    ROTATION = 38
    HOST_CALL = 39
    CLOCK = 200
    GPU_CLOCK = 201
    LOSS = 202
    STATE = 203
    TAX = 204
    HEADER = 254
    STRING = 255


class Operation(IntEnum):
    """What a host call does."""

    NONE = 0
    KERNEL = 1
    GRAPH = 2
    COPY = 3
    MEMSET = 4
    EVENT_RECORD = 5
    STREAM_WAIT = 6
    HOST_FUNCTION = 7
    MEMORY_OPERATION = 8
    PREFETCH = 9
    STREAM_ALLOC = 10
    UNKNOWN = 11
    STREAM_SYNC = 16
    EVENT_SYNC = 17
    CONTEXT_SYNC = 18
    QUERY = 19
    HOST_ALLOC = 24
    HOST_FREE = 25
    HOST_REGISTER = 26
    HOST_UNREGISTER = 27
    DEVICE_ALLOC = 28
    DEVICE_FREE = 29
    CAPTURE_BEGIN = 40
    CAPTURE_END = 41
    GRAPH_BUILD = 42


class Flag(IntFlag):
    """Bits of `flags`."""

    CAPTURED = 1
    SYNCHRONOUS = 2
    STEP_MARK = 4
    NVTX = 8
    STAMP_END = 16
    EAGER_STAMP = 32
    ASYNC = 64


MEMORY_CODES: Final = ("unknown", "pageable", "pinned", "device", "array", "managed")
"""Kind of memory by code: the low four bits of `memory` are the source, the high four the destination."""

COPY_CODES: Final = ("", "h2d", "d2h", "d2d", "h2h", "p2p", "other")
"""Direction of a copy by code; code 0 is no copy."""

DATA_TYPES: Final = (
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8e4m3",
    "float8e5m2",
)
"""Type of a collective's elements by NCCL's code (ncclDataType_t)."""

COMMUNICATOR: Final = 1 << 63
"""Set in the handle of a communicator where handles of events are numbered too: addresses lack the bit."""

FROM_STAMPS: Final = 1
"""Value of `reserved` in the rows that the conversion itself makes out of stamps; the collector writes 0."""
