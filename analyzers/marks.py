"""Step marks: rows that the engine, or a pattern over its ranges, declared to be one scheduler iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, IntArray, codes, integers, words
from cctrace.analyzers.forms import TIMES, Packed, looked_up, packed

MARK_COLUMNS: Final = ("kind", "name", "start_ns", "duration_ns", "pid", "tid", "step_class")
MARK_FORM_COLUMNS: Final = tuple(name for name in MARK_COLUMNS if name not in TIMES)


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
    """The step marks of a table with MARK_COLUMNS, in any row order."""
    return marks_of(packed(table.to_batches(), MARK_FORM_COLUMNS, table.num_rows))


def marks_of(rows: Packed) -> Marks:
    """The step marks among rows whose forms have MARK_FORM_COLUMNS.

    The label is the step class, else the name.
    """
    table = rows.forms
    rows = rows.of_forms(codes(table, "kind", ("step",)) == 0)
    step_class, classes = words(table, "step_class")
    name, names = words(table, "name")
    label = np.where(step_class >= 0, step_class + len(names), name)
    marks = Marks(
        start_ns=rows.start_ns,
        duration_ns=rows.duration_ns,
        pid=looked_up(integers(table, "pid"), rows.form),
        tid=looked_up(integers(table, "tid"), rows.form),
        label=looked_up(label, rows.form),
        labels=names + classes,
    )
    return marks.pick(np.lexsort((marks.start_ns, marks.tid, marks.pid)))
