"""What rows of collectives hold beyond the columns of other host calls."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.collectors.spool.handles import Births
from cctrace.collectors.spool.index import Index
from cctrace.collectors.spool.layout import COMMUNICATOR, DATA_TYPES, Flag
from cctrace.collectors.spool.merge import Batch
from cctrace.collectors.spool.spoolfile import Records, joined, take

_TYPES: Final = pa.array([*DATA_TYPES, "unknown"])
_ENDS: Final = pa.array(['"}', '", "captured": true}'])


def collective_attributes(batch: Batch) -> pa.Array:
    """JSON, null for other rows.

    `ranks` of the communicator, `sequence`: calls of it before this one, `datatype` of the elements, and
    `captured` if the call was recorded into a graph.
    """
    where = np.flatnonzero(batch.is_collective)
    ranks = batch["memory"][where].astype(np.uint16) | batch["copy_kind"][where].astype(np.uint16) << 8
    types = np.minimum(batch["operation"][where], len(DATA_TYPES))
    captured = (batch["flags"][where] & Flag.CAPTURED) != 0
    texts = pc.binary_join_element_wise(
        '{"ranks": ',
        pa.array(ranks).cast(pa.string()),
        ', "sequence": ',
        pa.array(batch["link"][where]).cast(pa.string()),
        ', "datatype": "',
        _TYPES.take(pa.array(types)),
        _ENDS.take(pa.array(captured.astype(np.uint8))),
        "",
    )
    places = np.zeros(len(batch), dtype=np.int64)
    places[where] = np.arange(len(where))
    return texts.take(pa.array(places, mask=~batch.is_collective))


def communicator_keys(handles: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Handles of communicators as keys that no event has."""
    keys: npt.NDArray[np.uint64] = handles | np.uint64(COMMUNICATOR)
    return keys


def communicator_births(records: Records, index: Index) -> Births:
    """When each communicator was first used: its calls are counted from 0."""
    parts = []
    for runs in index.collectives.values():
        for run in runs:
            calls = run.gather(records)
            parts.append(take(calls, calls["link"] == 0))
    first = joined(parts)
    return Births(communicator_keys(first["object"]), first["start_ns"])
