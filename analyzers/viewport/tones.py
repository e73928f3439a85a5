"""What a row means on a time line: its track, its tone, and the text on it. One of each for every form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.analyzers.attribution.collectives import is_collective
from cctrace.analyzers.columns import MISSING, BoolArray, IntArray, SmallIntArray, codes, words
from cctrace.trace.schema import BLOCKING_WAITS, KINDS, OPERATIONS, SOURCES, SUBMISSION_OPERATIONS

RANGES, CALLS, GPU = "ranges", "calls", "gpu"
TRACKS: Final = {
    RANGES: "steps and ranges",
    CALLS: "calls",
    GPU: "GPU work",
}
"""Tracks of a lane, in the order in which they are drawn, with their titles."""


@dataclass(frozen=True)
class Tone:
    """A meaning that rows are coloured by: its key, that of a cause where a cause fits, and a title."""

    key: str
    title: str


TONES: Final = (
    Tone("launch", "launch of a kernel or graph"),
    Tone("pcie", "copy between host and GPU"),
    Tone("overlap", "wait for the GPU"),
    Tone("nvlink", "collective between GPUs"),
    Tone("copy", "copy within or between GPUs"),
    Tone("memset", "memset"),
    Tone("event", "event, or order between streams"),
    Tone("query", "question whether the GPU is done"),
    Tone("alloc", "memory allocated, freed or registered"),
    Tone("capture", "graph captured or built"),
    Tone("step", "step"),
    Tone("range", "named range"),
    Tone("gpu-kernel", "kernel on the GPU"),
    Tone("gpu-graph", "graph on the GPU"),
    Tone("gpu-copy", "copy on the GPU"),
    Tone("gpu-memset", "memset on the GPU"),
    Tone("gpu-range", "sampled step on the GPU"),
    Tone("gpu-sync", "synchronization, as CUPTI saw it"),
    Tone("overhead", "profiler or driver at work"),
    Tone("crypto", "change of keys"),
    Tone("other", "other"),
)
"""Every tone, by number."""
_NUMBER: Final = {tone.key: number for number, tone in enumerate(TONES)}

_KIND_WORDS: Final = tuple(KINDS)
_KIND: Final = {word: number for number, word in enumerate(_KIND_WORDS)}
_OPERATION_WORDS: Final = tuple(OPERATIONS)
_HOST_KINDS: Final = ("submit", "wait", "alloc", "capture")
_TONE_OF_KIND: Final = {
    "submit": "event",
    "wait": "query",
    "alloc": "alloc",
    "capture": "capture",
    "kernel": "gpu-kernel",
    "graph": "gpu-graph",
    "copy": "gpu-copy",
    "memset": "gpu-memset",
    "sync": "gpu-sync",
    "overhead": "overhead",
    "collective": "nvlink",
    "range": "range",
    "step": "step",
    "crypto": "crypto",
}
_TONE_OF_SUBMISSION: Final = {"kernel": "launch", "graph": "launch", "copy": "pcie", "memset": "memset"}
_WITHIN_GPUS: Final = ("d2d", "p2p")
_TRACK_OF_KIND: Final = {
    **dict.fromkeys((*_HOST_KINDS, "collective", "overhead"), CALLS),
    **dict.fromkeys(("range", "step"), RANGES),
    **dict.fromkeys(("kernel", "graph", "copy", "memset", "sync", "crypto"), GPU),
}
"""Kinds that are drawn; counters and clock readings are none."""


def tracks_of(forms: pa.Table) -> SmallIntArray:
    """The track of each form, position in TRACKS; MISSING for rows that are not drawn."""
    names = list(TRACKS)
    kind = codes(forms, "kind", _KIND_WORDS)
    of_kind = np.full(len(_KIND_WORDS) + 1, MISSING, np.int8)
    for word, name in _TRACK_OF_KIND.items():
        of_kind[_KIND[word]] = names.index(name)
    track: SmallIntArray = of_kind[kind]
    stamped = codes(forms, "source", tuple(SOURCES)) == tuple(SOURCES).index("stamps")
    track[(kind == _KIND["range"]) & stamped] = names.index(GPU)
    return track


def tones_of(forms: pa.Table) -> SmallIntArray:
    """The tone of each form, position in TONES."""
    kind = codes(forms, "kind", _KIND_WORDS)
    of_kind = np.full(len(_KIND_WORDS) + 1, _NUMBER["other"], np.int8)
    for word, key in _TONE_OF_KIND.items():
        of_kind[_KIND[word]] = _NUMBER[key]
    tone: SmallIntArray = of_kind[kind]
    operation = codes(forms, "operation", _OPERATION_WORDS)
    for word, key in _TONE_OF_SUBMISSION.items():
        tone[(kind == _KIND["submit"]) & _is(operation, word)] = _NUMBER[key]
    within = codes(forms, "copy_kind", _WITHIN_GPUS) >= 0
    tone[within & (tone == _NUMBER["pcie"])] = _NUMBER["copy"]
    tone[(kind == _KIND["wait"]) & _is(operation, *BLOCKING_WAITS)] = _NUMBER["overlap"]
    tone[(kind == _KIND["range"]) & (tracks_of(forms) == list(TRACKS).index(GPU))] = _NUMBER["gpu-range"]
    tone[_collective_kernels(forms)] = _NUMBER["nvlink"]
    return tone


def submissions_of(forms: pa.Table) -> BoolArray:
    """Forms that hand anything to the GPU."""
    operation = codes(forms, "operation", _OPERATION_WORDS)
    is_submission: BoolArray = (codes(forms, "kind", ("submit",)) == 0) & _is(
        operation, *SUBMISSION_OPERATIONS
    )
    return is_submission


def labels_of(forms: pa.Table) -> pa.Array:
    """The text of each form: the kernel that it launches, else its name, else what it does."""
    kind, operation, copy_kind, kernel = (
        _text(forms, column) for column in ("kind", "operation", "copy_kind", "kernel")
    )
    plain = pc.binary_join_element_wise(pc.coalesce(operation, kind), copy_kind, " ", null_handling="skip")
    return pc.coalesce(_some(kernel), _some(names_of(forms)), plain)


def names_of(forms: pa.Table) -> pa.Array:
    """The name of each form, null where it has none."""
    return _text(forms, "name")


def _text(forms: pa.Table, column: str) -> pa.Array:
    return forms[column].cast(pa.string()).combine_chunks()


def _some(text: pa.Array) -> pa.Array:
    """The texts; empty ones are null."""
    return pc.if_else(pc.equal(text, ""), None, text)


def _is(operation: IntArray, *names: str) -> BoolArray:
    mask: BoolArray = np.isin(operation, [_OPERATION_WORDS.index(name) for name in names])
    return mask


def _collective_kernels(forms: pa.Table) -> BoolArray:
    """Kernels with the name of a collective; other rows can have as many names as there are rows."""
    name, vocabulary = words(forms, "name")
    kernels = codes(forms, "kind", ("kernel",)) == 0
    named = np.unique(name[kernels & (name >= 0)])
    collectives = [number for number in named.tolist() if is_collective(vocabulary[number])]
    mask: BoolArray = kernels & np.isin(name, collectives)
    return mask
