"""Steps of a process: from the hook's marks, else from the labels that the user or the engine names."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.index import Index, Run
from cctrace.collectors.spool.labels import matches_any, step_classes
from cctrace.collectors.spool.layout import Flag
from cctrace.collectors.spool.spoolfile import Records, joined, take


@dataclass
class Steps:
    """Step rows of one process.

    `rows` by thread: MARK records sorted by start, with the number of the step in `object` and the place of
    its class in `bytes`. `ranges` by thread: the marks that stay ranges.
    """

    classes: list[str] = field(default_factory=list)
    rows: dict[int, Records] = field(default_factory=dict)
    ranges: dict[int, list[Run]] = field(default_factory=dict)


def find_steps(records: Records, index: Index, pattern: str) -> Steps:
    """Step rows of a thread: the hook's marks if it has any, else the outermost ranges that match.

    A range that matches stays a range as well, so that no label is lost.
    """
    steps = Steps()
    wanted = np.array(
        sorted(i for i, text in index.strings.items() if pattern and matches_any(pattern, text)),
        dtype=np.uint32,
    )
    places: dict[str, int] = {}
    for tid, runs in sorted(index.marks.items()):
        marked, matching = [], []
        for run in runs:
            marks = run.gather(records)
            is_step = (marks["flags"] & Flag.STEP_MARK) != 0
            if is_step.any():
                marked.append(take(marks, is_step))
                rest = run.positions()[~is_step]
                run = _run_of(rest, records)  # noqa: PLW2901 - the same run without the steps
            if run.count:
                steps.ranges.setdefault(tid, []).append(run)
            if len(wanted):
                matching.append(take(marks, np.isin(marks["name"], wanted) & ~is_step))
        found = _sorted(marked) if marked else _outermost(_sorted(matching)) if matching else records[:0]
        if len(found):
            steps.rows[tid] = _numbered(found, index, places)
    steps.classes = list(places)
    return steps


def _run_of(positions: npt.NDArray[np.intp], records: Records) -> Run:
    if not len(positions):
        return Run(0, 0, None, 0)
    base = int(positions[0])
    first = int(records["start_ns"][positions].min())
    return Run(base, len(positions), (positions - base).astype(np.uint32), first)


def _sorted(parts: list[Records]) -> Records:
    records = joined(parts)
    return take(records, np.lexsort((~records["end_ns"], records["start_ns"])))


def _outermost(records: Records) -> Records:
    """Without ranges that begin inside the range before."""
    if not len(records):
        return records
    covered = np.maximum.accumulate(records["end_ns"])
    outer = np.concatenate(([True], records["start_ns"][1:] >= covered[:-1]))
    # An instant mark has no length, so it is no step.
    return take(records, outer & (records["end_ns"] > records["start_ns"]))


def _numbered(records: Records, index: Index, places: dict[str, int]) -> Records:
    ids, order = np.unique(records["name"], return_inverse=True)
    labels = [index.strings.get(name, "") for name in ids.tolist()]
    classes = [places.setdefault(text, len(places)) for text in step_classes(labels, order)]
    records = records.copy()
    records["flags"] |= np.uint8(Flag.STEP_MARK)
    records["object"] = np.arange(len(records), dtype=np.uint64)
    records["bytes"] = np.array(classes, dtype=np.uint64)[order]
    return records
