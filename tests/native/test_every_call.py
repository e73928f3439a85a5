"""Every entry point of the table, through every door: one record a call, of the right kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cctrace.collectors.spool.layout import Flag, Kind, Operation

DOORS = ("dlsym", "lookup", "linked")
PER_THREAD_STREAM = 2


def calls_of(recording: Any, symbol: str) -> tuple[int, Any]:
    """How often the program called a symbol, and the records of that."""
    assert recording.code == 0, recording.err
    made = sum(line.split()[0] == symbol for line in recording.out.splitlines())
    return made, recording.spool.named(symbol)


@pytest.mark.parametrize("door", DOORS)
def test_each_call_is_one_record_with_its_operation(
    every_call: Callable[[str], Any], row: Any, door: str
) -> None:
    made, records = calls_of(every_call(door), row.symbol)
    assert made >= 1
    if row.operation == "none":
        assert len(records) == 0
        return
    assert len(records) == made
    assert set(records["operation"]) == {Operation[row.operation.upper()]}
    synchronous = row.flags == "kSynchronous"
    assert all(bool(r["flags"] & Flag.SYNCHRONOUS) == synchronous for r in records)
    assert all(r["end_ns"] >= r["start_ns"] > 0 for r in records)
    assert not (records["flags"] & Flag.CAPTURED).any()


@pytest.mark.parametrize("door", DOORS)
def test_per_thread_flavour_has_a_stream_of_its_own(
    every_call: Callable[[str], Any], per_thread_row: Any, door: str
) -> None:
    made, records = calls_of(every_call(f"{door}_pt"), per_thread_row.symbol)
    assert len(records) == made >= 1
    assert set(records["operation"]) == {Operation[per_thread_row.operation.upper()]}
    assert set(records["stream"]) == {PER_THREAD_STREAM | int(records["tid"][0]) << 32}


def test_nothing_else_is_a_call(every_call: Callable[[str], Any]) -> None:
    recording = every_call("dlsym")
    made = {line.split()[0] for line in recording.out.splitlines()}
    assert "missing" not in made
    assert set(recording.spool.names(Kind.CALL)) <= made
