"""Pairs the operations of two steps: what both arms do, what only one does, in the order of both.

Nearly all steps of a class hold the same calls, so equal sequences are paired one by one. Where they differ, the
longest common subsequence decides. Standard difflib gives no longest subsequence and is quadratic in Python
for sequences that repeat one kernel a hundred times; one row of the table per numpy operation takes 2 ms for
600 calls.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import BoolArray, IntArray

NOT_THERE: Final = -1
"""Position in the arm that lacks the operation."""
MAX_TABLE: Final = 16_000_000
"""Cells of the table (64 MB); what is longer in its unequal middle part is not paired there."""

Pairs = tuple[IntArray, IntArray]
"""Positions in the first and in the second sequence, NOT_THERE where one lacks the element."""


class Aligner:
    """Aligns sequences of keys and remembers the answer: steps repeat a few patterns."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Pairs] = {}
        self.unpaired_middles = 0
        """Pairs of sequences whose unequal part was too long to be aligned."""

    def pairs(self, first: IntArray, second: IntArray) -> Pairs:
        """The alignment of two sequences of int64 keys."""
        key = (first.tobytes(), second.tobytes())
        if key not in self._known:
            self._known[key] = self._align(first, second)
        return self._known[key]

    def _align(self, first: IntArray, second: IntArray) -> Pairs:
        shorter = min(len(first), len(second))
        unequal = np.flatnonzero(first[:shorter] != second[:shorter])
        head = int(unequal[0]) if len(unequal) else shorter
        rest = shorter - head
        unequal = np.flatnonzero(first[len(first) - rest :] != second[len(second) - rest :])
        tail = rest - 1 - int(unequal[-1]) if len(unequal) else rest
        first_middle, second_middle = first[head : len(first) - tail], second[head : len(second) - tail]
        if len(first_middle) * len(second_middle) > MAX_TABLE:
            self.unpaired_middles += 1
            common = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        else:
            common = _common_subsequence(first_middle, second_middle)
        return _in_order(
            np.concatenate((np.arange(head), common[0] + head, np.arange(len(first) - tail, len(first)))),
            np.concatenate((np.arange(head), common[1] + head, np.arange(len(second) - tail, len(second)))),
            len(first),
            len(second),
        )


def _common_subsequence(first: IntArray, second: IntArray) -> Pairs:
    """Positions of a longest common subsequence in both sequences."""
    table = np.zeros((len(first) + 1, len(second) + 1), np.int32)
    for row, key in enumerate(first):
        longer = np.maximum(table[row, 1:], table[row, :-1] + (second == key))
        np.maximum.accumulate(longer, out=table[row + 1, 1:])
    matches: list[tuple[int, int]] = []
    row, column = len(first), len(second)
    while row and column and table[row, column]:
        if table[row - 1, column] == table[row, column]:
            row -= 1
        elif table[row, column - 1] == table[row, column]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            matches.append((row, column))
    found = np.array(matches[::-1], np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _in_order(first: IntArray, second: IntArray, first_length: int, second_length: int) -> Pairs:
    """The common elements with the others between them: first those of the first sequence, then the rest."""
    first_only = np.setdiff1d(np.arange(first_length), first)
    second_only = np.setdiff1d(np.arange(second_length), second)
    # Place of an element = number of the next common one; a common one comes behind those before it.
    place = np.concatenate(
        (np.arange(len(first)), np.searchsorted(first, first_only), np.searchsorted(second, second_only))
    )
    kind = np.repeat((2, 0, 1), (len(first), len(first_only), len(second_only)))
    missing_first = np.full(len(second_only), NOT_THERE, np.int64)
    missing_second = np.full(len(first_only), NOT_THERE, np.int64)
    left = np.concatenate((first, first_only, missing_first))
    right = np.concatenate((second, missing_second, second_only))
    order = np.lexsort((np.arange(len(place)), kind, place))
    return left[order], right[order]


def in_replaced_blocks(pairs: Pairs) -> BoolArray:
    """Which elements lie in a stretch where both sequences have elements of their own."""
    left, right = pairs
    alone = (left == NOT_THERE) | (right == NOT_THERE)
    block = np.cumsum(~alone) + 1
    has_left = np.zeros(len(left) + 2, np.bool_)
    has_right = np.zeros(len(left) + 2, np.bool_)
    has_left[block[alone & (left != NOT_THERE)]] = True
    has_right[block[alone & (right != NOT_THERE)]] = True
    inside: BoolArray = alone & has_left[block] & has_right[block]
    return inside
