"""What the page of collectives shows: rows of both arms side by side, and the time that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cctrace.analyzers.collective_ranks import JoinedRanks, JoinedRow, joined_ranks
from cctrace.analyzers.collective_table import (
    Bandwidth,
    CollectiveRow,
    CollectiveTable,
    RowKey,
    bandwidth,
    collective_table,
)
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.view import ON, ONE, Arm, Run, View


@dataclass(frozen=True, eq=False)
class ArmCollectives:
    """The collectives of one arm.

    Attributes:
        arm: "on", "off" or "one".
        run: the recording that is shown.
        table: its collectives.
        joined: what it and the recordings of other ranks show together.
        files: how many recordings of ranks were joined.
    """

    arm: str
    run: Run
    table: CollectiveTable
    joined: JoinedRanks
    files: int

    @property
    def prefix(self) -> str:
        """What names of the arm's lines begin with: nothing if there is one arm."""
        return "" if self.arm == ONE else f"{self.arm}: "


@dataclass(frozen=True)
class Cell:
    """A row of the table in one arm.

    Attributes:
        row: the row.
        joined: the same, joined over ranks; None if it is not known.
    """

    row: CollectiveRow
    joined: JoinedRow | None

    @property
    def us(self) -> float | None:
        """The time that counts: of the transfer where ranks were joined, else that on one rank."""
        return self.joined.wire_median_us if self.joined else self.row.gpu_median_us

    @property
    def p95_us(self) -> float | None:
        """95th percentile of it."""
        return self.joined.wire_p95_us if self.joined else self.row.gpu_p95_us

    @property
    def bandwidth(self) -> Bandwidth:
        """How fast it was."""
        return bandwidth(self.row, self.us)


@dataclass(frozen=True)
class Line:
    """The same collectives in all arms that have them: arm → its cell."""

    key: RowKey
    cells: dict[str, Cell]

    @property
    def some(self) -> CollectiveRow:
        """The row of an arm: what does not differ."""
        return next(iter(self.cells.values())).row

    @property
    def ratio(self) -> float | None:
        """Time on ÷ off; None if one is not known, or holds waiting that the other does not."""
        if len(self.cells) < 2:
            return None
        (off, on) = (self.cells[name] for name in ("off", ON))
        if off.us is None or on.us is None or (off.joined is None) != (on.joined is None):
            return None
        return on.us / off.us


def arms_of(view: View, state: Address) -> list[ArmCollectives]:
    """The collectives of each arm, the off arm first. Raises Pending."""
    # All are asked for before one is waited for: they are computed at the same time.
    asked = [_asked(view, arm, state) for arm in view.arms]
    for one in asked:
        if isinstance(one, Pending):
            raise one
    found = [one for one in asked if isinstance(one, ArmCollectives)]
    return sorted(found, key=lambda one: one.arm == ON)


def _asked(view: View, arm: Arm, state: Address) -> ArmCollectives | Pending:
    try:
        return _arm(view, arm, state)
    except Pending as pending:
        return pending


def _arm(view: View, arm: Arm, state: Address) -> ArmCollectives:
    run = view.run_of(arm, state)
    others = [one for one in arm.runs if one is not run and _at_the_same_time(one, run)]
    table = view.of_run(collective_table, run)
    tables = [table, *(view.of_run(collective_table, one) for one in others)]
    return ArmCollectives(arm.name, run, table, joined_ranks(tables), len(tables))


def _at_the_same_time(one: Run, other: Run) -> bool:
    """Whether two recordings may be of ranks of one program: of one host, and made at the same time."""
    first, second = one.trace.metadata.recording, other.trace.metadata.recording
    if None in (first.start_ns, first.stop_ns, second.start_ns, second.stop_ns) or first.host != second.host:
        return False
    return bool(
        (first.start_ns or 0) < (second.stop_ns or 0) and (second.start_ns or 0) < (first.stop_ns or 0)
    )


def lines_of(arms: Sequence[ArmCollectives]) -> list[Line]:
    """The rows of all arms, equal ones together, most time first."""
    found: dict[RowKey, dict[str, Cell]] = {}
    for one in arms:
        for row in one.table.rows:
            found.setdefault(row.key, {})[one.arm] = Cell(row, one.joined.rows.get(row.key))
    lines = [Line(key, cells) for key, cells in found.items()]
    return sorted(lines, key=lambda line: -max(_weight(cell.row) for cell in line.cells.values()))


def _weight(row: CollectiveRow) -> float:
    """Time a step; where it is not known, bytes a step count instead, far below any time."""
    return (row.gpu_median_us or 0.0) * (row.per_step or row.runs) or (row.bytes_per_step or 0.0) * 1e-12
