"""Step marks: rows that the engine, or a pattern over its ranges, declared to be one scheduler iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, IntArray, codes, integers, words

MARK_COLUMNS: Final = ("kind", "name", "start_ns", "duration_ns", "pid", "tid", "step_class")


@dataclass(frozen=True, eq=False)
class Marks:
    """Step marks in order of (pid, tid, start); `label` is a position in `labels`."""

    start_ns: IntArray
    duration_ns: IntArray
    pid: IntArray
    tid: IntArray
    label: IntArray
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def pick(self, rows: BoolArray | IntArray) -> Marks:
        """The marks that a mask or a list of positions selects."""
        return Marks(
            self.start_ns[rows],
            self.duration_ns[rows],
            self.pid[rows],
            self.tid[rows],
            self.label[rows],
            self.labels,
        )


def marks_from(table: pa.Table) -> Marks:
    """The step marks of a table with MARK_COLUMNS; the label is the step class, else the name."""
    is_step = codes(table, "kind", ("step",)) == 0
    if not is_step.all():
        table = table.filter(pa.array(is_step))
    step_class, classes = words(table, "step_class")
    name, names = words(table, "name")
    marks = Marks(
        start_ns=integers(table, "start_ns"),
        duration_ns=integers(table, "duration_ns"),
        pid=integers(table, "pid"),
        tid=integers(table, "tid"),
        label=np.where(step_class >= 0, step_class + len(names), name),
        labels=names + classes,
    )
    return marks.pick(np.lexsort((marks.start_ns, marks.tid, marks.pid)))
