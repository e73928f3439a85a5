"""Arrow types of trace columns: what can be read as what, and dictionaries without unused words."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SMALL_DICTIONARY: Final = 64
"""Words that may stay in a dictionary unused: they cost less than finding out."""


def is_readable_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of type `found`, from this or another writer, can stand for one of type `wanted`."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        found = found.value_type
    text = pa.types.is_string(found) or pa.types.is_large_string(found)
    if pa.types.is_dictionary(wanted) or pa.types.is_string(wanted):
        return bool(text)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found))
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(found) or pa.types.is_integer(found))
    return bool(found == wanted)


def cast_column(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column in type `wanted`. Raises ArrowInvalid if a number does not fit."""
    if column.type == wanted:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    if not pa.types.is_dictionary(wanted):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column.cast(wanted)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        column.indices.cast(pa.int32()), column.dictionary.cast(pa.string())
    )


def compact_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same words with a dictionary of only those that occur.

    A row group stores its whole dictionary; a process has thousands of kernel symbols, a row group uses few
    of them.
    """
    indices, words = column.indices, column.dictionary
    used = np.zeros(len(words), dtype=bool)
    used[np.asarray(indices.drop_null() if indices.null_count else indices)] = True
    if used.all():
        return column
    renumbered = pa.array((np.cumsum(used) - 1).astype(np.int32))
    return pa.DictionaryArray.from_arrays(pc.take(renumbered, indices), words.filter(pa.array(used)))
