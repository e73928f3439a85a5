"""The next batch of a file is read while the last one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, none of which is None; a thread asks for the next one before it is wanted.

    Arrow and numpy let other threads run for most of their time. Errors are raised where the item would have
    come.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="cctrace-read") as reader:
        coming = reader.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = reader.submit(next, items, None)
            yield item
