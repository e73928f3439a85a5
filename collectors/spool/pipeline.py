"""Writing on a thread of its own: rows are made while the batch before is encoded."""

from __future__ import annotations

import queue
import threading
from types import TracebackType
from typing import Final

import pyarrow as pa

from cctrace.trace.writer import TraceWriter

DEPTH: Final = 4
"""Batches under way: enough to keep both sides busy, at most some 100 MB."""


class BackgroundWriter:
    """Hands tables to a writer from another thread. Leave the context before the writer's `finish`."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._queue: queue.Queue[pa.Table | None] = queue.Queue(DEPTH)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="cctrace-writer", daemon=True)

    def __enter__(self) -> BackgroundWriter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def write(self, table: pa.Table) -> None:
        """Queues a table. Raises what an earlier one raised in the other thread."""
        if self._error is not None:
            raise self._error
        self._queue.put(table)

    def _run(self) -> None:
        while (table := self._queue.get()) is not None:
            if self._error is not None:
                continue  # keep the queue moving until the other side notices
            try:
                self._writer.write(table)
            except BaseException as error:
                self._error = error
