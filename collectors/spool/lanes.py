"""Lanes: numbers for host threads and GPU streams, in the order in which their rows are written."""

from __future__ import annotations

from dataclasses import replace

from cctrace.trace.metadata import Lane


class Lanes:
    """The lanes of a trace so far. Numbers go up in the order of `add`, which is that of (pid, lane)."""

    def __init__(self) -> None:
        self._lanes: list[Lane] = []

    def add(
        self,
        pid: int,
        kind: str,
        *,
        tid: int | None = None,
        role: str | None = None,
        device: int | None = None,
        stream: int | None = None,
        name: str | None = None,
    ) -> int:
        """A new lane; returns its number."""
        number = len(self._lanes)
        self._lanes.append(
            Lane(
                lane=number,
                pid=pid,
                kind=kind,
                tid=tid,
                role=role,
                device=device,
                stream=stream,
                name=name,
                rows=0,
            )
        )
        return number

    def count(self, lane: int, rows: int) -> None:
        """Notes that so many rows were written on a lane."""
        self._lanes[lane] = replace(self._lanes[lane], rows=(self._lanes[lane].rows or 0) + rows)

    def listed(self) -> tuple[Lane, ...]:
        """All lanes with rows, by number."""
        return tuple(lane for lane in self._lanes if lane.rows)
