"""What the emulator charged goes from the spools into the metadata, and nowhere else."""

from pathlib import Path

import pytest
from converted import Convert
from spool_builder import SpoolBuilder

from cctrace.collectors.spool import convert
from cctrace.collectors.spool.layout import Kind, Operation

T = 10**12
EMULATION = {"profile": "b200-tdx", "causes": ["launch", "pcie"], "values": {"kernel_us": 12.25}}


def charged(pid: int, **totals: int) -> SpoolBuilder:
    """A process that wrote each total three times, growing."""
    spool = SpoolBuilder(pid=pid)
    spool.call(Operation.KERNEL, T + 1000)
    for part in (3, 2, 1):
        for name, number in totals.items():
            spool.named(Kind.STATE, f"emulated.{name.replace('__', '.')}", number=number // part)
    return spool


def test_the_last_totals_of_all_processes_are_added(to_trace: Convert) -> None:
    first = charged(10, launch__count=300, launch__ns=3_600_000, pcie__count=9, pcie__ns=90)
    second = charged(20, launch__count=6, launch__ns=72_000, overlap__count=3, overlap__ns=900)
    metadata = to_trace(first, second, recording={"emulation": EMULATION}).metadata
    assert metadata.emulation is not None
    assert metadata.emulation.injected == {
        "launch": {"count": 306, "sum_ns": 3_672_000},
        "pcie": {"count": 9, "sum_ns": 90},
        "overlap": {"count": 3, "sum_ns": 900},
    }
    assert metadata.emulation.values == {"kernel_us": 12.25}
    assert all(not process.state for process in metadata.collector.processes)


def test_waiting_for_other_copies_is_kept_apart(to_trace: Convert) -> None:
    spools = [charged(pid, pcie__count=3, pcie__ns=30, pcie__queued_ns=12) for pid in (10, 20)]
    metadata = to_trace(*spools, recording={"emulation": EMULATION}).metadata
    assert metadata.emulation is not None
    assert metadata.emulation.injected == {
        "launch": {"count": 0, "sum_ns": 0},
        "pcie": {"count": 6, "sum_ns": 60, "queued_ns": 24},
    }


def test_an_emulation_that_charged_nothing_says_so(to_trace: Convert) -> None:
    metadata = to_trace(SpoolBuilder(), recording={"emulation": EMULATION}).metadata
    assert metadata.emulation is not None
    nothing = {"count": 0, "sum_ns": 0}
    assert metadata.emulation.injected == {"launch": nothing, "pcie": nothing}


def test_without_emulation_there_is_none(to_trace: Convert) -> None:
    assert to_trace(charged(10), recording={}).metadata.emulation is None


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_charges_label_a_trace_whose_description_is_lost(folder: Path, tmp_path: Path, damage: str) -> None:
    charged(10, launch__count=30, launch__ns=360_000).write(folder)
    if damage == "damaged":
        (folder / "recording.json").write_text("{")
    metadata = convert(folder, tmp_path / "t.parquet").metadata
    assert metadata.labels == ("emulated",)
    assert metadata.emulation is not None
    assert metadata.emulation.injected == {"launch": {"count": 30, "sum_ns": 360_000}}
    assert metadata.emulation.profile is None
