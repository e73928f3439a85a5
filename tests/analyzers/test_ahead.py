"""Items that a thread asks for before they are wanted."""

import threading
from collections.abc import Iterator

import pytest

from cctrace.analyzers.ahead import ahead


def test_items_come_in_order() -> None:
    assert list(ahead(iter(range(100)))) == list(range(100))
    assert list(ahead(iter(()))) == []


def test_the_next_item_is_made_meanwhile() -> None:
    second = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    wanted = ahead(items())
    assert next(wanted) == 1

    assert second.wait(60)
    assert list(wanted) == [2]


def test_an_error_comes_in_the_place_of_its_item() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    wanted = ahead(items())

    assert next(wanted) == 1
    with pytest.raises(ValueError, match="broken"):
        next(wanted)


def test_who_stops_early_leaves_nothing_behind() -> None:
    ended = []

    def items() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.append(True)

    source = items()
    wanted = ahead(source)
    assert next(wanted) == 0
    wanted.close()
    source.close()

    assert ended == [True]
