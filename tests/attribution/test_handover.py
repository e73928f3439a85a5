"""Waits between host threads that no row tells."""

from timelines import Call, timeline

from cctrace.analyzers.attribution.handover import wait_places, with_joins
from cctrace.analyzers.attribution.timeline import BOUNDARY, JOIN, Timeline

STEP = 1000.0


def server(work: float, prompt: bool = True, steps: int = 12) -> Timeline:
    """A submitting thread whose worker is done at `work` in each step: it then goes on, or never waited."""
    main: list[Call] = []
    worker: list[Call] = []
    for step in range(steps):
        begin = step * STEP
        main.append(Call("kernel", begin + 100.0, begin + 104.0, step=step, gap=100.0, stream=1))
        main.append(Call("event-record", begin + 110.0, begin + 111.0, step=step, gap=6.0, stream=1))
        end = begin + STEP
        main.append(Call(BOUNDARY, end, end, step=step, gap=end - begin - 111.0))
        wobble = (step % 4) * (0.0 if prompt else 60.0)
        worker.append(
            Call("event-sync", begin + 120.0, begin + work - wobble, thread=1, step=step, refers=3 * step + 1)
        )
    return timeline(main + worker)


def test_a_gap_that_ends_with_a_workers_job_is_a_wait() -> None:
    places = wait_places(server(work=960.0))
    assert [(place.thread, place.category, place.occurrence, place.lag) for place in places] == [
        (1, BOUNDARY, 0, 0)
    ]


def test_a_gap_that_only_happens_to_hold_the_end_of_a_job_is_none() -> None:
    assert wait_places(server(work=600.0, prompt=False)) == ()


def test_joins_part_the_gap_and_keep_its_length() -> None:
    one = server(work=960.0)
    joined = with_joins(one, wait_places(one))
    joins = joined.category == JOIN
    assert joins.sum() == 2 * 12  # the hand-over to the worker, and the wait for it
    ends = joined.category == BOUNDARY
    assert joined.gap[ends].tolist() == [40.0] * 12
    waits = joins & (joined.thread == 0)
    partner = joined.partner[waits]
    assert (joined.thread[partner] == 1).all()
    assert (joined.end[partner] <= joined.start[waits]).all()


def test_without_another_thread_there_is_no_wait() -> None:
    one = timeline([Call("kernel", 100.0 * n, 100.0 * n + 3.0, step=n, gap=97.0) for n in range(20)])
    assert wait_places(one) == ()
    assert with_joins(one, ()) is one
