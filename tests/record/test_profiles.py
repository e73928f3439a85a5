from pathlib import Path

import pytest

from cctrace.errors import UnusableInputError
from cctrace.profiles import load_profile, parse_emulation, profile_names


def test_b200_is_what_the_source_publishes() -> None:
    profile = load_profile("b200-tdx")
    kernel = profile.costs["launch"]["kernel_us"]
    assert kernel.value == pytest.approx(15.7 - 3.45)
    assert profile.values("overlap") == {"pinned_copies_block": 1.0}
    assert profile.values("nvlink") == {}


@pytest.mark.parametrize("name", profile_names())
def test_every_value_of_every_profile_names_its_source_and_range(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.sources
    costs = [cost for table in profile.costs.values() for cost in table.values()]
    assert costs
    for cost in costs:
        assert cost.low <= cost.value <= cost.high
        assert cost.source
        assert cost.note
        first = cost.source.split(";")[0]
        assert any(source.startswith(f"{first}:") for source in profile.sources), (
            "an abbreviation is explained"
        )


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("b200-tdx", (), "kernel_us=12.25,graph_us=12.25,copy_us=12.25,memset_us=12.25,event_us=0,overlap=1"),
        (
            "b200-tdx:overlap,launch",
            (),
            "kernel_us=12.25,graph_us=12.25,copy_us=12.25,memset_us=12.25,event_us=0,overlap=1",
        ),
        (
            "b200-tdx:launch",
            ("kernel_us=6", "event_us=0.5"),
            "kernel_us=6,graph_us=12.25,copy_us=12.25,memset_us=12.25,event_us=0.5",
        ),
        ("b200-tdx:overlap", (), "overlap=1"),
    ],
)
def test_what_the_collector_reads(text: str, overrides: tuple[str, ...], expected: str) -> None:
    assert parse_emulation(text, overrides).environment_value() == expected


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("h100", (), "known: b200-tdx"),
        ("b200-tdx:pcie", (), "pcie cannot be emulated"),
        ("b200-tdx:launch,nvlink", (), "nvlink cannot be emulated"),
        ("b200-tdx:lunch", (), "no cause 'lunch'"),
        ("b200-tdx:", (), "no cause ''"),
        ("b200-tdx", ("kernel=5",), "kernel_us"),
        ("b200-tdx", ("kernel_us",), "key=microseconds"),
        ("b200-tdx", ("kernel_us=-1",), "from 0"),
        ("b200-tdx", ("kernel_us=nan",), "from 0"),
        ("b200-tdx", ("kernel_us=1e9",), "from 0"),
        ("b200-tdx:overlap", ("kernel_us=5",), "launch is not among"),
        ("/no/such/profile.toml:launch", (), "cannot read"),
    ],
)
def test_what_cannot_be_emulated(text: str, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(UnusableInputError, match=said):
        parse_emulation(text, overrides)


COST = '{ value = 3.0, low = 2.0, high = 4.0, source = "me" }'


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'[profile]\nname = "mine"\n[launch]\nkernel_us = {COST}\n')
    emulation = parse_emulation(f"{path}:launch")
    assert emulation.to_json() == {
        "profile": "mine", "causes": ["launch"],
        "values": {"kernel_us": 3.0, "graph_us": 0.0, "copy_us": 0.0, "memset_us": 0.0, "event_us": 0.0},
    }  # fmt: skip
    assert parse_emulation(str(path)).causes == ("launch",)
    with pytest.raises(UnusableInputError, match="no values for the cause overlap"):
        parse_emulation(f"{path}:overlap")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"\[profile\]"),
        ("[profile", "not valid TOML"),
        ('[profile]\nname = "x"\n[lunch]\n', "lunch"),
        ('[profile]\nname = "x"\n[launch]\nkernel_us = 3\n', "not a table"),
        ('[profile]\nname = "x"\n[launch]\nkernel_us = { value = 3 }\n', "low"),
        (
            '[profile]\nname = "x"\n[launch]\nkernel_us = { value = inf, low = 0, high = 1, source = "x" }\n',
            "finite",
        ),
        (
            '[profile]\nname = "x"\n[launch]\nkernel_us = { value = 3, low = 4, high = 5, source = "x" }\n',
            "does not hold",
        ),
        ('[profile]\nname = "x"\n[launch]\nkernel_us = { value = 3, low = 2, high = 5 }\n', "source"),
        ('[profile]\nname = "x"\n', "nothing"),
    ],
)
def test_broken_profiles(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(UnusableInputError, match=said):
        parse_emulation(str(path))
