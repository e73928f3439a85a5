"""Millions of rows held in few bytes each: when each one was, and which of a few forms it has.

A program does the same things over and over. Apart from their times, ten million rows are some hundred
different ones: *forms*. What a form is stands in a table once; a row holds the number of its form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.analyzers.columns import BoolArray, IntArray

TIMES: Final = ("start_ns", "duration_ns")
"""Columns that no form holds."""
BLOCK: Final = 1 << 16
"""Rows that are looked up or counted together: numpy widens their numbers to 64 bits, which fit the cache."""
_MAX_SHORT_KEY, _MAX_KEY = np.iinfo(np.int32).max, 1 << 62
_FEW: Final = 1 << 12
"""Integers from a range of so many are codes as they are; looking for different ones takes longer."""


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows of a trace in the order in which they were read.

    Attributes:
        start_ns: begin, CLOCK_MONOTONIC.
        duration_ns: end − begin; 32 bits wide where all of them fit.
        form: position in `forms`.
        forms: the different rows, all columns but TIMES.
    """

    start_ns: IntArray
    duration_ns: IntArray
    form: IntArray
    forms: pa.Table

    def __len__(self) -> int:
        return len(self.start_ns)

    def of_forms(self, chosen: BoolArray) -> Packed:
        """The rows whose form is chosen; the table of forms stays as it is."""
        if chosen.all():
            return self
        mask = looked_up(chosen, self.form)
        start, duration, form = masked(mask, self.start_ns, self.duration_ns, self.form)
        return Packed(start, duration, form, self.forms)


def packed(batches: Iterable[pa.RecordBatch], names: Sequence[str], most: int) -> Packed:
    """The rows of batches; one batch at a time is in memory as the trace stores it.

    Args:
        batches: rows with TIMES and those of the columns `names` that they have.
        names: what makes a form.
        most: how many rows there may be at most.
    """
    # Memory that no row is written to is never taken.
    start, duration, form = (np.empty(most, kind) for kind in (np.int64, np.int32, np.int32))
    forms: list[pa.RecordBatch] = []
    rows = count = 0
    for batch in batches:
        columns = [name for name in names if name in batch.schema.names]
        number, examples = numbered([batch.column(name) for name in columns])
        place = slice(rows, rows + batch.num_rows)
        start[place] = batch.column("start_ns").to_numpy()
        length = batch.column("duration_ns").to_numpy()
        duration = _wide_enough(duration, length)
        duration[place] = length
        np.add(number, count, out=form[place])
        forms.append(batch.select(columns).take(pa.array(examples)))
        rows, count = place.stop, count + len(examples)
    return _of_few_forms(start[:rows], duration[:rows], form[:rows], forms)


def _of_few_forms(
    start: IntArray, duration: IntArray, form: IntArray, forms: Sequence[pa.RecordBatch]
) -> Packed:
    """Each batch has brought its forms: equal ones become one."""
    if not forms:
        return Packed(start, duration, form, pa.table({}))
    every = pa.Table.from_batches(forms).unify_dictionaries().combine_chunks()
    number, examples = numbered([column.chunk(0) for column in every.columns])
    number = number.astype(np.int16 if len(examples) <= np.iinfo(np.int16).max else np.int32)
    return Packed(start, duration, looked_up(number, form), every.take(pa.array(examples)))


def looked_up(values: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`values[numbers]`, of many numbers from 0 to `len(values) − 1`."""
    found = np.empty(len(numbers), values.dtype)
    for begin in range(0, len(numbers), BLOCK):
        # All numbers are in range: "clip" only spares numpy a copy of the output.
        np.take(values, numbers[begin : begin + BLOCK], out=found[begin : begin + BLOCK], mode="clip")
    return found


def masked(mask: npt.NDArray[Any], *columns: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Of each column the elements that a mask selects; the positions of all of them are never in memory."""
    count = np.count_nonzero(mask)
    found = [np.empty(count, column.dtype) for column in columns]
    end = 0
    for begin in range(0, len(mask), BLOCK):
        block = slice(begin, begin + BLOCK)
        rows = np.flatnonzero(mask[block])
        place = slice(end, end := end + len(rows))
        for column, some in zip(columns, found, strict=True):
            np.take(column[block], rows, out=some[place], mode="clip")
    return found


def counted(numbers: IntArray, kinds: int) -> IntArray:
    """How often each number from 0 to `kinds` − 1 occurs."""
    counts = np.zeros(kinds, np.int64)
    block = max(BLOCK, kinds)
    for begin in range(0, len(numbers), block):
        counts += np.bincount(numbers[begin : begin + block], minlength=kinds)
    return counts


def numbered(columns: Sequence[pa.Array]) -> tuple[IntArray, IntArray]:
    """Numbers rows by what they hold.

    Returns:
        (numbers, examples): equal rows have equal numbers, from 0 on; `examples[n]` is a row with number n.
        Both int32.
    """
    key: IntArray = np.zeros(len(columns[0]) if columns else 0, np.int32)
    room = 1
    for column in columns:
        codes, kinds = _codes(column)
        if kinds == 1:
            continue
        if room > _MAX_SHORT_KEY // kinds and key.dtype == np.int32:
            key = key.astype(np.int64)
        if room > _MAX_KEY // kinds:
            # Numbers of what was seen so far take less room.
            encoded = pa.array(key).dictionary_encode()
            key, room = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
        key *= kinds
        key += codes
        room *= kinds
    encoded = pa.array(key).dictionary_encode()
    number: IntArray = encoded.indices.to_numpy()
    examples = np.empty(len(encoded.dictionary), np.int32)
    examples[number] = np.arange(len(number), dtype=np.int32)
    return number, examples


def _codes(column: pa.Array) -> tuple[IntArray, int]:
    """(a code per row from 0 on, how many codes there may be): equal codes are equal values, or nulls.

    A column whose rows are all the same has one code, and no array of it.
    """
    same: tuple[IntArray, int] = np.zeros(0, np.int32), 1
    if column.null_count == len(column):
        return same
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type):
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low == high and not column.null_count:
            return same
        if high - low < _FEW and high < np.iinfo(column.type.to_pandas_dtype()).max:
            filled = column.fill_null(high + 1).to_numpy()
            wide = np.promote_types(filled.dtype, np.int32)
            return np.subtract(filled, low, dtype=wide).astype(np.int32, copy=False), high - low + 2
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices, kinds = column.indices, len(column.dictionary)
    if indices.null_count:
        indices, kinds = indices.fill_null(kinds), kinds + 1
    elif kinds == 1:
        return same
    codes: IntArray = indices.to_numpy()
    return codes, kinds


def _wide_enough(array: IntArray, values: IntArray) -> IntArray:
    """The array, in 64 bits if 32 do not hold the values."""
    limits = np.iinfo(array.dtype)
    if not len(values) or (limits.min <= values.min() and values.max() <= limits.max):
        return array
    return array.astype(np.int64)
