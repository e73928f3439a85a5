"""Waits between host threads that no row tells."""

from collections.abc import Collection

import pytest
from timelines import Call, timeline

from cctrace.analyzers.attribution.handover import common_places, wait_places, with_joins
from cctrace.analyzers.attribution.timeline import BOUNDARY, JOIN, Timeline

STEP = 1000.0
LATE = 1108.0
"""End of a job after the step's last call, and in no gap of the next step."""


def server(
    work: float, prompt: bool = True, steps: int = 12, late: Collection[int] = (), jobs: bool = True
) -> Timeline:
    """A submitting thread whose worker is done at `work` in each step: it then goes on, or never waited.

    In the `late` steps it goes on before the worker is done. Without `jobs` there is no worker.
    """
    main: list[Call] = []
    worker: list[Call] = []
    for step in range(steps):
        begin = step * STEP
        main.append(Call("kernel", begin + 100.0, begin + 104.0, step=step, gap=100.0, stream=1))
        main.append(Call("event-record", begin + 110.0, begin + 111.0, step=step, gap=6.0, stream=1))
        end = begin + STEP
        main.append(Call(BOUNDARY, end, end, step=step, gap=end - begin - 111.0))
        wobble = (step % 4) * (0.0 if prompt else 60.0)
        done = begin + (LATE if step in late else work - wobble)
        worker.append(Call("event-sync", begin + 120.0, done, thread=1, step=step, refers=3 * step + 1))
    return timeline(main + worker if jobs else main)


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


@pytest.mark.parametrize("other_first", [False, True])
def test_a_wait_that_the_other_arm_merely_does_not_show_is_in_both(other_first: bool) -> None:
    shows = server(work=960.0)
    for other in (server(work=600.0, prompt=False), server(work=960.0, jobs=False)):
        assert wait_places(other) == ()
        arms = (other, shows) if other_first else (shows, other)
        assert common_places(*arms) == wait_places(shows)


@pytest.mark.parametrize("other_first", [False, True])
@pytest.mark.parametrize("late", [range(12), (2, 5, 9)])
def test_where_a_thread_of_one_arm_goes_on_before_the_job_is_done_no_arm_waits(
    other_first: bool, late: Collection[int]
) -> None:
    shows, other = server(work=960.0), server(work=960.0, late=late)
    assert len(wait_places(shows)) == 1
    assert common_places(*((other, shows) if other_first else (shows, other))) == ()


def test_few_late_jobs_contradict_no_wait() -> None:
    shows = server(work=960.0)
    assert common_places(shows, server(work=960.0, late=(2, 9))) == wait_places(shows)


def test_a_wait_that_both_arms_show_is_one() -> None:
    shows = server(work=960.0)
    assert common_places(shows, server(work=955.0)) == wait_places(shows)
