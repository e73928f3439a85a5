"""What `record --emulate` and `--emulate-set` charge."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.errors import UnusableInputError
from cctrace.profiles.charges import Table, charge_text
from cctrace.profiles.emulation import parse_emulation
from cctrace.profiles.files import load_profile
from cctrace.profiles.overrides import KEYS, parse_override
from cctrace.profiles.shipped import profile_names

LAUNCH = "kernel_us=12.25,graph_us=12.25,copy_us=12.25,memset_us=12.25,event_us=0"


def wire(text: str, *overrides: str) -> dict[str, str]:
    """Returns key → text of what the collector reads."""
    value = parse_emulation(text, overrides).environment_value()
    pairs = [pair.split("=") for pair in value.split(",")]
    assert all(len(pair) == 2 for pair in pairs)
    return dict(pairs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("b200-tdx:launch", (), LAUNCH),
        ("b200-tdx:overlap,launch", (), f"{LAUNCH},overlap=1"),
        ("b200-tdx:overlap", (), "overlap=1"),
        ("b200-tdx:overlap", ("overlap.pinned_copies_block=0",), "overlap=0"),
        (
            "b200-tdx:launch",
            ("kernel_us=6", "launch.event_us=0.5"),
            "kernel_us=6,graph_us=12.25,copy_us=12.25,memset_us=12.25,event_us=0.5",
        ),
        (
            "b200-tdx:launch",
            ("launch.toll_us=20", "launch.graph_us=1"),
            "kernel_us=20,graph_us=1,copy_us=20,memset_us=20,event_us=0",
        ),
        ("b200-tdx:launch", ("toll_us=0",), "kernel_us=0,graph_us=0,copy_us=0,memset_us=0,event_us=0"),
        (
            "b200-tdx:nvlink",
            ("nvlink.collective_factor=1.2", "peer_latency_us=2"),
            "collective_factor=1.2,all_to_all_factor=1.146,peer_copy_factor=1.123,peer_latency_us=2",
        ),
        ("h100-tdx:nvlink", ("nvlink.collective_factor=1.5",), "collective_factor=1.5"),
        (
            "zero",
            (),
            "kernel_us=0,graph_us=0,copy_us=0,memset_us=0,event_us=0,h2d_us=1:0,d2h_us=1:0,h2d_pageable_us=1:0,"
            "d2h_pageable_us=1:0,host_alloc_us=1:0,collective_factor=1,all_to_all_factor=1,peer_copy_factor=1,"
            "peer_latency_us=0",
        ),
    ],
)
def test_what_the_collector_reads(text: str, overrides: tuple[str, ...], expected: str) -> None:
    assert parse_emulation(text, overrides).environment_value() == expected


@pytest.mark.parametrize("name", profile_names())
def test_everything_that_a_profile_charges_is_in_the_trace(name: str) -> None:
    emulation = parse_emulation(name)
    document = emulation.to_json()
    assert document["profile"] == name
    assert document["causes"] == list(emulation.causes)
    written = wire(name)
    assert {
        key: str(value) if isinstance(value, str) else charge_text(value)
        for key, value in document["values"].items()
    } == written


@pytest.mark.parametrize("name", profile_names())
def test_a_table_comes_through_as_it_is_in_the_profile(name: str) -> None:
    profile, charges = load_profile(name), parse_emulation(f"{name}:pcie").charges
    table = profile.pcie.h2d_us
    assert table is not None
    assert charges["h2d_us"] == charges["h2d_pageable_us"] == Table(table.bytes, table.value)
    again = parse_override(f"pcie.h2d_us={wire(f'{name}:pcie')['h2d_us']}")
    assert again.value == charges["h2d_us"]


def test_causes_without_values() -> None:
    assert parse_emulation("h100-tdx").causes == ("launch", "pcie", "overlap")
    assert parse_emulation("b200-tdx").causes == ("launch", "pcie", "overlap", "nvlink")
    assert parse_emulation("h100-tdx:nvlink,launch", ("nvlink.peer_latency_us=1",)).causes == (
        "launch",
        "nvlink",
    )


def test_tables_are_scaled_and_replaced_in_the_order_given() -> None:
    table = "64:4.5/1048576:140"
    assert wire("b200-tdx:pcie", f"pcie.h2d_us={table}", "pcie.scale=0.5")["h2d_us"] == "64:2.25/1048576:70"
    assert wire("b200-tdx:pcie", "pcie.scale=0.5", f"pcie.h2d_us={table}")["h2d_us"] == table
    both = wire("b200-tdx:pcie", f"h2d_us={table}")
    assert both["h2d_pageable_us"] == table, "pageable memory has the table of pinned memory"
    assert both["d2h_us"] != table
    apart = wire("b200-tdx:pcie", f"h2d_us={table}", "h2d_pageable_us=1:3")
    assert (apart["h2d_us"], apart["h2d_pageable_us"]) == (table, "1:3")


NODES = st.lists(
    st.tuples(st.integers(1, 2**40), st.floats(0, 1e8)),
    min_size=1,
    max_size=32,
    unique_by=lambda node: node[0],
)


@given(NODES.map(sorted))
def test_a_table_reads_again_as_it_was_written(nodes: list[tuple[int, float]]) -> None:
    sizes, costs = zip(*nodes, strict=True)
    text = charge_text(Table(sizes, costs))
    read = parse_override(f"pcie.d2h_us={text}").value
    assert isinstance(read, Table)
    assert read.bytes == sizes
    assert read.us == pytest.approx(costs, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("h100", (), "known: b200-tdx"),
        ("h100-tdx:nvlink", (), "NVLink is not encrypted.*--emulate-set nvlink.KEY=VALUE"),
        ("b200-tdx:lunch", (), "no cause 'lunch'; causes are launch, pcie, overlap, nvlink"),
        ("b200-tdx:", (), "no cause ''"),
        ("zero:overlap", (), "zero has no values for the cause overlap"),
        ("b200-tdx", ("kernel=5",), "no key 'kernel'.*kernel_us"),
        ("b200-tdx", ("launch.h2d_us=1:5",), "no key 'h2d_us' of launch.*toll_us"),
        ("b200-tdx", ("lunch.toll_us=5",), "no cause 'lunch'"),
        ("b200-tdx", ("kernel_us",), "launch.kernel_us=VALUE"),
        ("b200-tdx", ("kernel_us=-1",), "from 0 to 1e"),
        ("b200-tdx", ("kernel_us=nan",), "from 0"),
        ("b200-tdx", ("kernel_us=1e9",), "from 0"),
        ("b200-tdx", ("kernel_us=",), "from 0"),
        (
            "b200-tdx:overlap",
            ("kernel_us=5",),
            "launch is not among those emulated; name it: .*overlap,launch",
        ),
        ("h100-tdx", ("nvlink.collective_factor=2",), "nvlink is not among .*launch,pcie,overlap,nvlink"),
        ("b200-tdx", ("nvlink.collective_factor=0.5",), "from 1 to 100"),
        ("b200-tdx", ("pcie.scale=-1",), "from 0 to 100"),
        ("b200-tdx", ("pcie.d2h_us=1:2e6", "pcie.scale=60"), "d2h_us would cost more than 1e\\+08 µs"),
        ("b200-tdx", ("overlap.pinned_copies_block=0.5",), "a rule, give 0 or 1"),
        ("b200-tdx", ("pcie.h2d_us=5",), "give a table"),
        ("b200-tdx", ("pcie.h2d_us=64:4/128",), "give a table"),
        ("b200-tdx", ("pcie.h2d_us=64:4/128:x",), "give a table"),
        ("b200-tdx", ("pcie.h2d_us=64:4/128:inf",), "give a table"),
        ("b200-tdx", ("pcie.h2d_us=-64:4",), "give a table"),
        ("b200-tdx", ("pcie.h2d_us=",), "give a table"),
        ("b200-tdx", ("pcie.h2d_us=128:4/64:4",), "must ascend"),
        ("b200-tdx", ("pcie.h2d_us=0:4",), "must ascend, from 1"),
        ("b200-tdx", ("pcie.h2d_us=" + "/".join(f"{size}:1" for size in range(1, 40)),), "at most 32 sizes"),
        ("/no/such/profile.toml:launch", (), "cannot read"),
    ],
)
def test_what_cannot_be_emulated(text: str, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(UnusableInputError, match=said) as caught:
        parse_emulation(text, overrides)
    assert len(str(caught.value)) < 350


def test_no_key_belongs_to_two_causes() -> None:
    keys = [key for keys in KEYS.values() for key in keys]
    assert len(keys) == len(set(keys))


HEAD = '[profile]\nname = "mine"\nkind = "tolls"\ngpu = "g"\ntee = "none"\nsources = ["me: myself"]\n'
COST = '{ value = 3.0, low = 2.0, high = 4.0, source = "me" }'


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{HEAD}[launch]\nkernel_us = {COST}\n")
    emulation = parse_emulation(f"{path}:launch")
    assert emulation.to_json() == {
        "profile": "mine", "causes": ["launch"],
        "values": {"kernel_us": 3.0, "graph_us": 0.0, "copy_us": 0.0, "memset_us": 0.0, "event_us": 0.0},
    }  # fmt: skip
    assert parse_emulation(str(path)).causes == ("launch",)
    with pytest.raises(UnusableInputError, match="no values for the cause overlap"):
        parse_emulation(f"{path}:overlap")
    with pytest.raises(UnusableInputError, match="no table to scale"):
        parse_emulation(f"{path}:pcie", ("pcie.scale=2",))


def test_a_profile_that_cannot_be_charged(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD)
    with pytest.raises(UnusableInputError, match="nothing that can be emulated"):
        parse_emulation(str(path))
    path.write_text(HEAD.replace("tolls", "measured") + f'cc = "on"\n[launch]\nkernel_us = {COST}\n')
    with pytest.raises(UnusableInputError, match=r"not what CC adds.*calibrate --compare"):
        parse_emulation(str(path))
