"""Pairing of sequences."""

import numpy as np
import pytest

from cctrace.analyzers.attribution.align import NOT_THERE, Aligner, align, common_subsequence

KINDS = {"k": 1, "K": 1, "c": 2, "m": 3}


def pairs(first: str, second: str) -> list[tuple[str, str]]:
    """The alignment of two words: a letter is a key, and KINDS says what kind it is ('k' and 'K' are one)."""
    keys = [np.array([ord(letter) for letter in word], np.int64) for word in (first, second)]
    kinds = [np.array([KINDS[letter] for letter in word], np.int64) for word in (first, second)]
    left, right = align(keys[0], keys[1], kinds[0], kinds[1])
    assert sorted(left[left >= 0].tolist()) == list(range(len(first)))
    assert sorted(right[right >= 0].tolist()) == list(range(len(second)))
    return [
        (first[i] if i != NOT_THERE else "-", second[j] if j != NOT_THERE else "-")
        for i, j in zip(left.tolist(), right.tolist(), strict=True)
    ]


def test_equal_sequences_are_paired_one_by_one() -> None:
    assert pairs("kckm", "kckm") == [("k", "k"), ("c", "c"), ("k", "k"), ("m", "m")]


def test_what_one_side_has_more_stands_alone_in_its_place() -> None:
    assert pairs("kcm", "kccm") == [("k", "k"), ("c", "c"), ("-", "c"), ("m", "m")]
    assert pairs("kccm", "km") == [("k", "k"), ("c", "-"), ("c", "-"), ("m", "m")]


def test_another_kernel_in_the_same_place_is_the_same_submission() -> None:
    assert pairs("ckm", "cKm") == [("c", "c"), ("k", "K"), ("m", "m")]


def test_equal_operations_in_another_order_are_paired() -> None:
    found = pairs("kckkm", "kkckm")
    assert all(first == second for first, second in found)


@pytest.mark.parametrize(("first", "second"), [("", ""), ("", "km"), ("km", "")])
def test_sequences_without_an_element(first: str, second: str) -> None:
    assert len(pairs(first, second)) == max(len(first), len(second))


def test_the_longest_common_subsequence_is_found() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        first, second = random.integers(0, 4, 14), random.integers(0, 4, 11)
        left, right = common_subsequence(first, second)
        assert (first[left] == second[right]).all()
        assert (np.diff(left) > 0).all()
        assert (np.diff(right) > 0).all()
        assert len(left) == _longest(first.tolist(), second.tolist())


def _longest(first: list[int], second: list[int]) -> int:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_an_aligner_gives_the_same_answer_again() -> None:
    aligner = Aligner()
    first, second = np.array([1, 2, 3], np.int64), np.array([1, 3], np.int64)
    once = aligner.pairs(first, second, first, second)
    again = aligner.pairs(first.copy(), second.copy(), first, second)
    assert [part.tolist() for part in once] == [part.tolist() for part in again] == [[0, 1, 2], [0, -1, 1]]
