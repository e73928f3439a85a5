"""Pairs the operations of two steps: what both arms do, what only one does, in the order of both.

Nearly all steps of a class hold the same calls, so equal sequences are paired one by one. Where they differ,
three rules follow each other: the longest common subsequence; where both arms put something else in the same
place, operations of the same category (another kernel is still one submission); and last, equal operations
that come in another order. difflib finds no longest subsequence and is slow on sequences that repeat one
kernel a hundred times; with one vector operation for each row of the table, 600 calls take 2 ms.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from cctrace.analyzers.columns import BoolArray, IntArray

NOT_THERE: Final = -1
"""Position in the arm that lacks the operation."""
MAX_TABLE: Final = 16_000_000
"""Cells of the table (64 MB); of longer unequal parts only the order-free rule pairs anything."""

Pairs = tuple[IntArray, IntArray]
"""Positions in the first and in the second sequence, NOT_THERE where one lacks the element."""


class Aligner:
    """Aligns sequences of keys and remembers the answer: steps repeat a few patterns."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Pairs] = {}

    def pairs(self, first: IntArray, second: IntArray, first_kind: IntArray, second_kind: IntArray) -> Pairs:
        """The alignment of two sequences.

        Args:
            first: int64 keys: equal keys are the same operation.
            second: the same of the other sequence.
            first_kind: what kind of operation each one is; a key belongs to one kind only.
            second_kind: the same of the other sequence.
        """
        key = (first.tobytes(), second.tobytes())
        if key not in self._known:
            self._known[key] = align(first, second, first_kind, second_kind)
        return self._known[key]


def align(first: IntArray, second: IntArray, first_kind: IntArray, second_kind: IntArray) -> Pairs:
    """As `Aligner.pairs`, without a memory."""
    left, right = common_subsequence(first, second)
    pairs = in_order(left, right, len(first), len(second))
    if len(left) == len(first) or len(right) == len(second):
        return pairs
    if in_replaced_blocks(pairs).any():
        # Pairs that were found stay: their keys become unique, the others those of their kind.
        first_key, second_key = first_kind.astype(np.int64), second_kind.astype(np.int64)
        first_key[left] = second_key[right] = -1 - np.arange(len(left))
        left, right = common_subsequence(first_key, second_key)
    left, right = _order_free(first, second, left, right)
    return in_order(left, right, len(first), len(second))


def common_subsequence(first: IntArray, second: IntArray) -> Pairs:
    """Positions of a longest common subsequence in both sequences."""
    head, tail = _equal_ends(first, second)
    first_middle, second_middle = first[head : len(first) - tail], second[head : len(second) - tail]
    if len(first_middle) * len(second_middle) > MAX_TABLE:
        middle = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    else:
        middle = _from_table(first_middle, second_middle)
    before = np.arange(head)
    return (
        np.concatenate((before, middle[0] + head, np.arange(len(first) - tail, len(first)))),
        np.concatenate((before, middle[1] + head, np.arange(len(second) - tail, len(second)))),
    )


def _equal_ends(first: IntArray, second: IntArray) -> tuple[int, int]:
    """How many elements are equal at the begin, and how many of the others at the end."""
    shorter = min(len(first), len(second))
    unequal = np.flatnonzero(first[:shorter] != second[:shorter])
    head = int(unequal[0]) if len(unequal) else shorter
    rest = shorter - head
    unequal = np.flatnonzero(first[len(first) - rest :] != second[len(second) - rest :])
    return head, rest - 1 - int(unequal[-1]) if len(unequal) else rest


def _from_table(first: IntArray, second: IntArray) -> Pairs:
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


def in_order(left: IntArray, right: IntArray, first_length: int, second_length: int) -> Pairs:
    """Pairs in the order of the first sequence, with the unpaired elements of both among them.

    An unpaired element of the second sequence comes before the next paired one of the second sequence.
    """
    first_only = np.setdiff1d(np.arange(first_length), left)
    second_only = np.setdiff1d(np.arange(second_length), right)
    by_right = np.argsort(right)
    follower = np.searchsorted(right[by_right], second_only)
    place_of_pair = np.append(left[by_right], first_length)
    place = np.concatenate((left, first_only, place_of_pair[follower])) + np.repeat(
        (0.0, 0.0, -0.5), (len(left), len(first_only), len(second_only))
    )
    missing_first = np.full(len(second_only), NOT_THERE, np.int64)
    missing_second = np.full(len(first_only), NOT_THERE, np.int64)
    both_left = np.concatenate((left, first_only, missing_first))
    both_right = np.concatenate((right, missing_second, second_only))
    order = np.lexsort((both_right, place))
    return both_left[order], both_right[order]


def in_replaced_blocks(pairs: Pairs) -> BoolArray:
    """Which elements lie in a stretch where both sequences have elements of their own."""
    left, right = pairs
    alone = (left == NOT_THERE) | (right == NOT_THERE)
    block = np.cumsum(~alone)
    has_left, has_right = np.zeros(len(left) + 1, np.bool_), np.zeros(len(left) + 1, np.bool_)
    has_left[block[alone & (left != NOT_THERE)]] = True
    has_right[block[alone & (right != NOT_THERE)]] = True
    inside: BoolArray = alone & has_left[block] & has_right[block]
    return inside


def _order_free(first: IntArray, second: IntArray, left: IntArray, right: IntArray) -> Pairs:
    """Adds pairs of equal keys among what is left, in order of occurrence."""
    waiting: dict[int, list[int]] = defaultdict(list)
    for position in np.setdiff1d(np.arange(len(second)), right)[::-1].tolist():
        waiting[int(second[position])].append(position)
    added = [
        (position, waiting[int(first[position])].pop())
        for position in np.setdiff1d(np.arange(len(first)), left).tolist()
        if waiting[int(first[position])]
    ]
    more = np.array(added, np.int64).reshape(-1, 2)
    left, right = np.concatenate((left, more[:, 0])), np.concatenate((right, more[:, 1]))
    order = np.argsort(left)
    return left[order], right[order]
