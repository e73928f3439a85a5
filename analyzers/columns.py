"""Arrow columns as numpy arrays: the only place where the analysis touches Arrow types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.signedinteger[Any]]
"""Integers in the width in which the trace stores them: 32 bits for identities, 64 for times and sizes."""
SmallIntArray = npt.NDArray[np.int8]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

MISSING = -1
"""What a null becomes in an integer array, and what an unknown word becomes in a code array."""


def words(table: pa.Table, name: str) -> tuple[IntArray, tuple[str, ...]]:
    """A text column as codes and the words they stand for.

    Returns:
        (codes, words): `words[codes[i]]` is row i's text; a null, or a column the table lacks, has code
        MISSING.
    """
    if name not in table.column_names or table.num_rows == 0:
        return np.full(table.num_rows, MISSING, np.int32), ()
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    chunks = [_codes_of(chunk) for chunk in column.chunks]
    vocabulary = tuple(str(word) for word in column.chunk(0).dictionary.to_pylist())
    return np.concatenate(chunks), vocabulary


def _codes_of(chunk: Any) -> IntArray:
    indices: IntArray = chunk.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
    return indices


def codes(table: pa.Table, name: str, vocabulary: Sequence[str]) -> SmallIntArray:
    """A text column as positions in a fixed vocabulary; words outside it, and nulls, are MISSING.

    Args:
        table: any table.
        name: the column.
        vocabulary: at most 127 words.

    Returns:
        One int8 per row.
    """
    own, own_words = words(table, name)
    position = {word: index for index, word in enumerate(vocabulary)}
    # One slot more than there are words: code MISSING (−1) then picks the last slot.
    translation = np.array([position.get(word, MISSING) for word in own_words] + [MISSING], np.int8)
    return translation[own]


def integers(table: pa.Table, name: str) -> IntArray:
    """An integer or boolean column; nulls, or a column the table lacks, are MISSING."""
    if name not in table.column_names:
        return np.full(table.num_rows, MISSING, np.int32)
    column = table.column(name)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.null_count:
        column = column.fill_null(MISSING)
    values: IntArray = column.to_numpy()
    return values
