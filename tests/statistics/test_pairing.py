"""Which runs belong together."""

from cctrace.analyzers.statistics.pairing import paired_in_order

TIMES = {"off1": 10.0, "on1": 20.0, "off2": 30.0, "on2": 40.0, "off3": 50.0, "on3": 60.0}


def test_runs_are_paired_in_recorded_order_whatever_the_order_given() -> None:
    pairing = paired_in_order(["off3", "off1", "off2"], ["on2", "on3", "on1"], TIMES.get)
    assert pairing.pairs == (("off1", "on1"), ("off2", "on2"), ("off3", "on3"))
    assert pairing.by_time
    assert pairing.unpaired == pairing.notes == ()


def test_runs_without_a_time_are_paired_as_given_and_it_is_said() -> None:
    pairing = paired_in_order(["off3", "off1"], ["on2", "unknown"], TIMES.get)
    assert pairing.pairs == (("off3", "on2"), ("off1", "unknown"))
    assert not pairing.by_time
    assert "paired in the order given" in pairing.notes[0]


def test_runs_without_a_partner_are_named() -> None:
    pairing = paired_in_order(["off1", "off2", "off3"], ["on1"], TIMES.get)
    assert pairing.pairs == (("off1", "on1"),)
    assert pairing.unpaired == ("off2", "off3")
    assert pairing.notes == ("2 runs of one arm have no partner and have no part in the result",)
    assert "1 run of one arm has" in paired_in_order(["off1"], ["on1", "on2"], TIMES.get).notes[0]


def test_arms_recorded_one_after_the_other_are_a_warning() -> None:
    blocks = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert "one arm was recorded before the other" in paired_in_order("ab", "cd", blocks.get).notes[0]
    assert "one arm was recorded before the other" in paired_in_order("cd", "ab", blocks.get).notes[0]
    assert paired_in_order("ad", "bc", blocks.get).notes == ()


def test_equal_recordings_are_different_runs() -> None:
    pairing = paired_in_order(["same", "same"], ["other", "other"], lambda name: 0.0)
    assert pairing.pairs == (("same", "other"),) * 2
