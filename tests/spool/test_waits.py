"""Which launch each wait of the host waited for."""

import numpy as np
import pytest

from cctrace.collectors.spool.layout import RECORD, Flag, Operation
from cctrace.collectors.spool.spoolfile import Records
from cctrace.collectors.spool.waits import waited_for

ONE, OTHER, SIDE = 0x7F1000, 0x7F2000, 0x7F3000
EVENT, SECOND_EVENT = 0x7F9000, 0x7F9100
LEGACY, LEGACY_HANDLE, PER_THREAD = 0, 1, 2


def call(
    operation: Operation,
    start: int,
    end: int | None = None,
    *,
    stream: int = 0,
    event: int = 0,
    result: int = 0,
    flags: int = 0,
) -> Records:
    record = np.zeros(1, dtype=RECORD)
    record["operation"], record["flags"], record["result"] = operation, flags, result
    record["start_ns"], record["end_ns"] = start, start + 5 if end is None else end
    record["stream"], record["object"] = stream, event
    return record


def launches(*at: int, stream: int = ONE) -> list[Records]:
    return [call(Operation.GRAPH, start, stream=stream) for start in at]


def found(calls: list[Records], graphs: list[Records], *, one_device: bool = True) -> list[tuple[int, int]]:
    """(place of the wait, place of the launch), in order."""
    waits, runs = waited_for(np.concatenate(calls), np.concatenate(graphs), one_device=one_device)
    return sorted(zip(waits.tolist(), runs.tolist(), strict=True))


def test_a_stream_is_waited_for_up_to_its_last_launch_before() -> None:
    graphs = [*launches(100, 200), *launches(250, stream=OTHER), *launches(300)]
    calls = [call(Operation.STREAM_SYNC, at, stream=ONE) for at in (50, 150, 290, 400)]
    assert found(calls, graphs) == [(1, 0), (2, 1), (3, 3)]
    assert found(calls, graphs, one_device=False) == [(1, 0), (2, 1), (3, 3)]


def test_a_wait_does_not_count_a_launch_whose_call_has_not_returned() -> None:
    """Another thread is still in it: nobody knows whether the wait was for it."""
    graphs = [call(Operation.GRAPH, 200, 310, stream=ONE), *launches(250)]
    calls = [call(Operation.STREAM_SYNC, at, stream=ONE) for at in (300, 311)]
    assert found(calls, graphs) == [(1, 1)]


@pytest.mark.parametrize("launched", [LEGACY, LEGACY_HANDLE])
@pytest.mark.parametrize("waited", [LEGACY, LEGACY_HANDLE])
def test_the_legacy_stream_is_one_of_each_device(launched: int, waited: int) -> None:
    graphs = launches(100, stream=launched)
    calls = [call(Operation.STREAM_SYNC, 200, stream=waited)]
    assert found(calls, graphs) == [(0, 0)]
    assert found(calls, graphs, one_device=False) == []


def test_streams_of_threads_are_told_apart_or_left_alone() -> None:
    assert (
        found([call(Operation.STREAM_SYNC, 200, stream=PER_THREAD)], launches(100, stream=PER_THREAD)) == []
    )
    mine, others = (PER_THREAD | thread << 32 for thread in (7, 8))
    calls = [call(Operation.STREAM_SYNC, 300, stream=mine)]
    assert found(calls, [*launches(100, stream=mine), *launches(200, stream=others)]) == [(0, 0)]


def test_a_context_is_waited_for_if_it_has_all_launches() -> None:
    graphs = [*launches(100), *launches(200, stream=OTHER)]
    calls = [call(Operation.CONTEXT_SYNC, at) for at in (150, 300)]
    assert found(calls, graphs) == [(0, 0), (1, 1)]
    assert found(calls, graphs, one_device=False) == []


def test_an_event_stands_for_what_its_stream_had_when_it_was_recorded() -> None:
    graphs = launches(100, 200, 300)
    calls = [
        call(Operation.EVENT_SYNC, 50, event=EVENT),  # before any record
        call(Operation.EVENT_RECORD, 250, stream=ONE, event=EVENT),
        call(Operation.EVENT_SYNC, 400, event=EVENT),
        call(Operation.EVENT_SYNC, 410, event=SECOND_EVENT),  # never recorded
    ]
    assert found(calls, graphs) == [(2, 1)]


def test_an_event_that_is_recorded_again_stands_for_its_last_record() -> None:
    graphs = [*launches(100), *launches(200, stream=OTHER), *launches(300)]
    calls = [
        call(Operation.EVENT_RECORD, 150, stream=ONE, event=EVENT),
        call(Operation.EVENT_SYNC, 160, event=EVENT),
        call(Operation.EVENT_RECORD, 250, stream=OTHER, event=EVENT),
        call(Operation.EVENT_SYNC, 400, event=EVENT),
        call(Operation.EVENT_RECORD, 500, stream=ONE, event=EVENT),  # too late for both waits
    ]
    assert found(calls, graphs) == [(1, 0), (3, 1)]


def test_a_stream_that_was_made_to_wait_hands_that_on() -> None:
    graphs = launches(100, 200, 300)
    beside = [
        call(Operation.EVENT_RECORD, 150, stream=ONE, event=EVENT),
        call(Operation.STREAM_WAIT, 160, stream=SIDE, event=EVENT),
        call(Operation.EVENT_RECORD, 170, stream=SIDE, event=SECOND_EVENT),
    ]
    assert found([*beside, call(Operation.EVENT_SYNC, 400, event=SECOND_EVENT)], graphs) == [(3, 0)]
    assert found([*beside, call(Operation.STREAM_SYNC, 400, stream=SIDE)], graphs) == [(3, 0)]
    early = [call(Operation.EVENT_RECORD, 155, stream=SIDE, event=SECOND_EVENT), *beside[1:2]]
    assert found([beside[0], *early, call(Operation.EVENT_SYNC, 400, event=SECOND_EVENT)], graphs) == []


def test_the_last_event_that_a_stream_was_made_to_wait_for_counts() -> None:
    graphs = launches(100, 200, 300)
    calls = [
        call(Operation.EVENT_RECORD, 150, stream=ONE, event=EVENT),
        call(Operation.STREAM_WAIT, 160, stream=SIDE, event=EVENT),
        call(Operation.EVENT_RECORD, 250, stream=ONE, event=EVENT),
        call(Operation.STREAM_WAIT, 260, stream=SIDE, event=EVENT),
        call(Operation.STREAM_SYNC, 400, stream=SIDE),
    ]
    assert found(calls, graphs) == [(4, 1)]


@pytest.mark.parametrize("wrong", [{"result": 700}, {"flags": Flag.CAPTURED}], ids=["failed", "captured"])
def test_failed_and_captured_calls_are_no_waits(wrong: dict[str, int]) -> None:
    graphs = [*launches(100, 200), *launches(210, stream=OTHER)]
    assert found([call(Operation.STREAM_SYNC, 300, stream=ONE, **wrong)], graphs) == []
    calls = [
        call(Operation.EVENT_RECORD, 150, stream=ONE, event=EVENT),
        call(Operation.EVENT_RECORD, 250, stream=ONE, event=EVENT, **wrong),
        call(Operation.EVENT_RECORD, 260, stream=OTHER, event=SECOND_EVENT),
        call(Operation.STREAM_WAIT, 270, stream=SIDE, event=SECOND_EVENT, **wrong),
        call(Operation.EVENT_SYNC, 280, event=EVENT),
        call(Operation.STREAM_SYNC, 290, stream=SIDE),
    ]
    assert found(calls, graphs) == [(4, 0)]


def test_nothing_to_wait_for() -> None:
    nothing = np.zeros(0, dtype=RECORD)
    assert found([nothing], [nothing]) == []
    assert found([call(Operation.STREAM_SYNC, 10, stream=ONE)], [nothing]) == []
    assert found([nothing], launches(100)) == []
