"""A calibration of a GPU with known costs finds these costs."""

from dataclasses import replace
from datetime import date

import pytest
from fake_gpu import OFF, ON, Costs, FakeMachine, measure, measured_profile

from cctrace.collectors.calibrate.profile import to_profile
from cctrace.collectors.calibrate.sampling import Quantity
from cctrace.collectors.cuda import CudaError
from cctrace.errors import UnusableInputError
from cctrace.profiles.difference import tolls
from cctrace.profiles.model import Entry, SizeTable


def close(us: float) -> object:
    return pytest.approx(us, abs=1e-3)


def test_every_kind_of_submission_is_found_without_the_binding() -> None:
    found = measured_profile(OFF, "off")
    expected = {
        "kernel_us": OFF.kernel,
        "graph_us": OFF.graph,
        "graph_64_us": OFF.graph,
        "graph_512_us": OFF.graph,
        "copy_us": OFF.copy,
        "memset_us": OFF.memset,
        "event_us": OFF.event,
        "sync_us": OFF.sync,
        "kernel_isolated_us": OFF.kernel,
        "event_isolated_us": OFF.event,
    }
    launch = found.entries("launch")
    for key, us in expected.items():
        entry = launch[key]
        assert isinstance(entry, Entry)
        assert entry.value == close(us), key


def test_raw_times_and_what_was_taken_off_are_reported() -> None:
    one = measure(FakeMachine()).measured()[Quantity("launch", "kernel_us")]
    assert one.raw.value == close(OFF.kernel + OFF.binding)
    assert one.bare is not None
    assert one.bare.value == close(OFF.binding)
    assert one.us.value == close(one.raw.value - one.bare.value)


def test_what_cannot_be_told_from_nothing_has_a_range_from_zero() -> None:
    profile = to_profile(measure(FakeMachine(replace(OFF, event=0.0))), "x", date(2026, 11, 30))
    event = profile.launch.event_us
    assert event is not None
    assert (event.low, event.value) == (0.0, 0.0)
    assert event.high > 0.0
    assert "cannot be told from nothing" in event.note


def test_copies_are_timed_to_their_end() -> None:
    table = measured_profile(OFF, "off").pcie.h2d_us
    assert isinstance(table, SizeTable)
    size = table.bytes[-1]
    assert size == 64 << 20
    transfer = OFF.copy + OFF.latency + size / OFF.bytes_per_us
    assert table.value[-1] == close(transfer + OFF.sync)
    assert size / table.value[-1] / 1e3 == pytest.approx(54.6, rel=0.01)


def test_no_burst_fills_the_queue_of_the_driver() -> None:
    machine = FakeMachine(replace(OFF, node_on_gpu=20.0))  # the GPU is far slower than the host
    measure(machine)
    assert machine.devices[0].deepest <= 34


def test_with_cc_off_pinned_copies_do_not_wait() -> None:
    profile = measured_profile(OFF, "off")
    assert profile.overlap.pinned_copies_block is not None
    assert profile.overlap.pinned_copies_block.value == 0.0
    assert "d2h_pageable" in profile.overlap.pinned_copies_block.note


def test_with_cc_on_the_rules_turn_round() -> None:
    profile = measured_profile(ON, "on", cc="on")
    rules = {key: rule.value for key, rule in profile.entries("overlap").items()}
    assert rules == {"pinned_copies_block": 1.0, "pinned_reported_pinned": 0.0, "host_register_works": 0.0}
    assert profile.overlap.host_register_works is not None
    assert "801" in profile.overlap.host_register_works.note
    assert profile.nvlink.multicast is not None
    assert profile.nvlink.multicast.value == 0.0
    assert profile.nvlink.encrypted is not None
    assert profile.nvlink.encrypted.value == 1.0


def test_the_tolls_of_the_published_platform_are_recovered() -> None:
    found = tolls(measured_profile(ON, "on", 2, "on"), measured_profile(OFF, "off", 2), "mine")
    for key in ("kernel_us", "graph_us", "copy_us", "memset_us"):
        entry = found.entries("launch")[key]
        assert isinstance(entry, Entry)
        assert entry.value == pytest.approx(12.25, abs=0.01), key
    assert found.launch.event_us is not None
    assert found.launch.event_us.value == pytest.approx(0.0, abs=0.01)
    table = found.pcie.h2d_us
    assert table is not None
    crypto = [size / ON.encryption_bytes_per_us for size in table.bytes]
    assert table.value == pytest.approx(crypto, abs=0.5)
    assert found.overlap.pinned_copies_block is not None
    assert found.overlap.pinned_copies_block.value == 1.0
    assert found.nvlink.peer_latency_us is not None
    assert found.nvlink.peer_latency_us.value == pytest.approx(10.8, abs=0.01)
    assert found.nvlink.peer_copy_factor is not None
    size = 64 << 20
    on_us, off_us = (one.peer + size / one.peer_bytes_per_us for one in (ON, OFF))
    assert found.nvlink.peer_copy_factor.value == pytest.approx(on_us / off_us, abs=0.001)
    assert found.nvlink.collective_factor is not None
    assert found.nvlink.collective_factor.value == pytest.approx(300 / 260, abs=0.001)


def test_latency_between_gpus_holds_no_submission() -> None:
    latency = measured_profile(OFF, "off", 2).nvlink.peer_latency_us
    assert latency is not None
    assert latency.value == pytest.approx(OFF.peer, abs=0.02)


@pytest.mark.parametrize(
    ("device", "count", "alone", "collectives"),
    [(None, 1, [0], []), (None, 3, [0], [[0, 1, 2]]), ("1", 3, [1], []), ("all", 2, [0, 1], [[0, 1]])],
)
def test_which_gpus_are_measured(
    device: str | None, count: int, alone: list[int], collectives: list[list[int]]
) -> None:
    machine = FakeMachine(count=count)
    found = measure(machine, device)
    assert [gpu.index for gpu in found.gpus] == alone
    assert machine.collectives_of == collectives
    assert bool(found.linked) == bool(collectives)


def test_all_gpus_are_pooled() -> None:
    machine = FakeMachine(count=2)
    machine.devices[1].costs = replace(OFF, kernel=9.0)
    kernel = measure(machine, "all").measured()[Quantity("launch", "kernel_us")]
    assert kernel.us.low == close(OFF.kernel)
    assert kernel.us.high == close(9.0)


def test_gpus_that_do_not_reach_each_other_are_said_and_collectives_still_measured() -> None:
    found = measure(FakeMachine(count=2, peers=()))
    assert any("reaches no other" in note for note in found.notes)
    quantities = {quantity.key for quantity in found.samples if quantity.cause == "nvlink"}
    assert quantities == {"all_reduce_us", "all_to_all_us"}


def test_copies_between_gpus_that_fail_leave_the_rest() -> None:
    found = measure(FakeMachine(count=2, fails="peer"))
    assert any("between GPUs: not measured" in note and "719" in note for note in found.notes)
    assert Quantity("launch", "kernel_us") in found.samples
    assert Quantity("nvlink", "all_reduce_us", 256 << 20) in found.samples


@pytest.mark.parametrize(
    ("device", "count", "why"), [(None, 1, "one GPU is visible"), ("1", 2, "--device names one GPU")]
)
def test_why_nothing_between_gpus_is_measured(device: str | None, count: int, why: str) -> None:
    assert any(why in note for note in measure(FakeMachine(count=count), device).notes)


@pytest.mark.parametrize("device", ["2", "-1", "one", ""])
def test_a_gpu_that_is_not_there(device: str) -> None:
    with pytest.raises(UnusableInputError, match=r"--device .*, or all"):
        measure(FakeMachine(count=2), device)


@pytest.mark.parametrize("kind", ["kernel", "graph", "memset", "copy"])
def test_a_submission_that_fails_ends_the_calibration(kind: str) -> None:
    with pytest.raises(CudaError, match="719"):
        measure(FakeMachine(fails=kind))


@pytest.mark.parametrize(
    ("nvml", "said", "environment", "state"),
    [
        ("off", None, {}, "off"),
        ("devtools", None, {}, "devtools"),
        (None, None, {}, "unknown"),
        (None, "on", {}, "on"),
        ("on", "on", {}, "on"),
        ("off", None, {"CCTRACE_EMULATE": "kernel_us=12"}, "emulated"),
    ],
)
def test_state_of_cc(nvml: str | None, said: str | None, environment: dict[str, str], state: str) -> None:
    found = measure(FakeMachine(), cc=nvml, said=said, environment=environment)
    profile = to_profile(found, "x", date(2026, 11, 30))
    assert profile.profile.cc == state
    charged = any("kernel_us=12" in source for source in profile.profile.sources)
    assert charged == bool(environment)


@pytest.mark.parametrize(
    ("nvml", "environment", "words"),
    [("off", {}, "NVML says that CC is off"), (None, {"CCTRACE_EMULATE": "kernel_us=1"}, "emulated")],
)
def test_a_state_that_cannot_be_true(nvml: str | None, environment: dict[str, str], words: str) -> None:
    with pytest.raises(UnusableInputError, match=words):
        measure(FakeMachine(), cc=nvml, said="on", environment=environment)


def test_head_of_the_profile() -> None:
    head = measured_profile(Costs(), "my machine (1)").profile
    assert head.name == "my-machine-1"
    assert (head.gpu, head.tee, head.kind) == ("NVIDIA Fake H200", "tdx", "measured")
    assert (head.date, head.driver, head.cuda, head.gpus) == ("2026-11-30", "580.1 (open)", "13.0", 1)
    assert head.machine == "Fake CPU, 16 CPUs, QEMU, kernel 6.8.0"


def test_a_hypervisor_without_a_name_is_a_virtual_machine() -> None:
    found = measure(FakeMachine())
    host = replace(found.snapshot.machine, virtual_machine="unknown")
    found = replace(found, snapshot=replace(found.snapshot, machine=host))
    machine = to_profile(found, "x", date(2026, 11, 30)).profile.machine
    assert machine == "Fake CPU, 16 CPUs, virtual machine, kernel 6.8.0"


def test_a_host_too_slow_for_all_rounds_says_so() -> None:
    slow = replace(OFF, allocation=1e6)
    found = measure(FakeMachine(slow))
    assert found.rounds < 4
    assert any(f"{found.rounds} of 4 rounds" in note for note in found.notes)
