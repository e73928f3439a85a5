"""What CC adds: on − off."""

from pathlib import Path

import pytest

from cctrace.errors import UnusableInputError
from cctrace.profiles.difference import tolls
from cctrace.profiles.emulation import parse_emulation
from cctrace.profiles.files import load_profile, write_profile
from cctrace.profiles.model import Entry, Head, Launch, Nvlink, Overlap, Pcie, Profile, Rule, SizeTable


def entry(value: float, spread: float = 0.1) -> Entry:
    return Entry(value=value, low=value - spread, high=value + spread, source="here")


def rule(value: float) -> Rule:
    return Rule(value=value, low=value, high=value, source="here")


def by_size(*values: float, sizes: tuple[int, ...] = (1024, 2**20)) -> SizeTable:
    low, high = (tuple(value * factor for value in values) for factor in (0.9, 1.1))
    return SizeTable(bytes=sizes, value=values, low=low, high=high, source="here")


def head(cc: str, gpu: str = "NVIDIA B200") -> Head:
    return Head.model_validate(
        {
            "name": cc,
            "kind": "measured",
            "gpu": gpu,
            "tee": "tdx",
            "sources": ["here: this machine"],
            "cc": cc,
        }
    )


ON = Profile(
    profile=head("on"),
    launch=Launch(kernel_us=entry(15.7), copy_us=entry(16.3), sync_us=entry(1.5), memset_us=entry(3.0)),
    pcie=Pcie(h2d_us=by_size(30.0, 150.0), host_alloc_us=by_size(100.0, 900.0)),
    overlap=Overlap(pinned_copies_block=rule(1), host_register_works=rule(0)),
    nvlink=Nvlink(encrypted=rule(1), all_reduce_us=by_size(30.0, 250.0), peer_latency_us=entry(14.5)),
)
OFF = Profile(
    profile=head("off"),
    launch=Launch(kernel_us=entry(3.45), copy_us=entry(4.3), sync_us=entry(1.6), graph_us=entry(4.0)),
    pcie=Pcie(h2d_us=by_size(10.0, 30.0), host_alloc_us=by_size(20.0, 200.0)),
    overlap=Overlap(pinned_copies_block=rule(0), host_register_works=rule(1)),
    nvlink=Nvlink(encrypted=rule(0), all_reduce_us=by_size(20.0, 200.0), peer_latency_us=entry(3.7)),
)


def test_times_are_subtracted() -> None:
    launch = tolls(ON, OFF, "mine").launch
    assert launch.kernel_us is not None
    assert launch.kernel_us.value == pytest.approx(12.25)
    assert launch.kernel_us.low == pytest.approx(12.05)
    assert launch.kernel_us.high == pytest.approx(12.45)
    assert (launch.kernel_us.on, launch.kernel_us.off) == (15.7, 3.45)
    assert launch.sync_us is not None
    assert launch.sync_us.value == launch.sync_us.low == 0.0, "CC makes nothing faster"
    assert launch.sync_us.high == pytest.approx(0.1)
    assert launch.memset_us is None, "only one of the two has it"
    assert launch.graph_us is None


def test_a_copy_does_not_pay_its_launch_twice() -> None:
    pcie = tolls(ON, OFF, "mine").pcie
    assert pcie.h2d_us is not None
    assert pcie.h2d_us.value == pytest.approx((30 - 10 - 12, 150 - 30 - 12))
    assert pcie.h2d_us.on == (30.0, 150.0)
    assert pcie.host_alloc_us is not None
    assert pcie.host_alloc_us.value == pytest.approx((80.0, 700.0)), "an allocation is no submission"


def test_tables_of_different_sizes_meet_at_those_with_cc_on() -> None:
    off = OFF.model_copy(update={"pcie": Pcie(h2d_us=by_size(1.0, 4.0, sizes=(512, 2**21)))})
    table = tolls(ON, off, "mine").pcie.h2d_us
    assert table is not None
    assert table.bytes == (1024, 2**20)
    assert table.off is not None
    assert 1.0 < table.off[0] < table.off[1] < 4.0


def test_transfers_between_gpus_are_divided_at_the_largest_size() -> None:
    nvlink = tolls(ON, OFF, "mine").nvlink
    assert nvlink.collective_factor is not None
    assert nvlink.collective_factor.value == pytest.approx(1.25)
    assert nvlink.collective_factor.low == pytest.approx(max(1.0, 225 / 220))
    assert nvlink.collective_factor.high == pytest.approx(275 / 180)
    assert nvlink.peer_latency_us is not None
    assert nvlink.peer_latency_us.value == pytest.approx(10.8)
    assert nvlink.all_to_all_factor is None


def test_rules_are_those_of_cc_on() -> None:
    made = tolls(ON, OFF, "mine")
    assert made.overlap.pinned_copies_block is not None
    assert made.overlap.pinned_copies_block.value == 1
    assert made.overlap.host_register_works is not None
    assert made.overlap.host_register_works.value == 0
    assert made.nvlink.encrypted is not None
    assert made.nvlink.encrypted.value == 1
    always = OFF.model_copy(update={"overlap": Overlap(pinned_copies_block=rule(1))})
    blocks = tolls(ON, always, "mine").overlap.pinned_copies_block
    assert blocks is not None
    assert blocks.value == 0, "copies that block anyway are not due to CC"


def test_the_result_can_be_emulated(tmp_path: Path) -> None:
    made = tolls(ON, OFF, "mine")
    write_profile(made, tmp_path / "mine.toml")
    assert load_profile(str(tmp_path / "mine.toml")) == made
    emulation = parse_emulation(str(tmp_path / "mine.toml"))
    assert emulation.causes == ("launch", "pcie", "overlap", "nvlink")
    assert emulation.charges["kernel_us"] == pytest.approx(12.25)


@pytest.mark.parametrize(
    ("on", "off", "said"),
    [
        (OFF, ON, "with CC on first"),
        (ON, ON, "with CC on first"),
        (OFF, OFF, "with CC on first"),
        (load_profile("b200-tdx"), OFF, "b200-tdx holds tolls"),
        (ON, load_profile("b200-tdx"), "b200-tdx holds tolls"),
        (ON, OFF.model_copy(update={"profile": head("off", "NVIDIA H100")}), "that of the GPUs"),
    ],
)
def test_what_cannot_be_compared(on: Profile, off: Profile, said: str) -> None:
    with pytest.raises(UnusableInputError, match=said):
        tolls(on, off, "mine")


@pytest.mark.parametrize(
    ("text", "name"), [("mine", "mine"), ("my profile (2)", "my-profile-2"), ("../x", "x"), ("µ", "mine")]
)
def test_any_text_makes_a_name(text: str, name: str) -> None:
    assert tolls(ON, OFF, text).name == name


def test_extreme_measurements_make_a_profile_too() -> None:
    long = head("on", "G" * 500), head("off", "G" * 500)
    slow = Profile(
        profile=long[0], nvlink=Nvlink(all_reduce_us=by_size(1e6, 1e7), peer_copy_us=by_size(1.0, 2.0))
    )
    fast = Profile(
        profile=long[1], nvlink=Nvlink(all_reduce_us=by_size(1.0, 2.0), peer_copy_us=by_size(0.0, 0.0))
    )
    nvlink = tolls(slow, fast, "mine").nvlink
    assert nvlink.collective_factor is not None
    assert nvlink.collective_factor.value == nvlink.collective_factor.high == 100.0
    assert nvlink.peer_copy_factor is None, "nothing can be divided by a time of zero"
