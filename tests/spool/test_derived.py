"""Fields of the acceptance table that follow from the rows."""

from pathlib import Path
from typing import Any

import pytest
from converted import Convert
from spool_builder import SpoolBuilder, write_counters

from cctrace.collectors.spool.layout import Flag, Operation

T = 10**12
GPUS = {"acceptance": {"hardware": {"gpus": 2, "gpu_model": "NVIDIA H200"}}}


def worker(pid: int, *, submits: bool = True, step_at: int | None = None) -> SpoolBuilder:
    spool = SpoolBuilder(pid=pid)
    spool.call(Operation.QUERY, T + 100)
    if submits:
        spool.call(Operation.KERNEL, T + 1000)
    if step_at is not None:
        spool.mark("decode", step_at, step_at + 500, step=True, nvtx=False)
        spool.mark("decode", step_at + 1000, step_at + 1500, step=True, nvtx=False)
    return spool


def samples(folder: Path) -> None:
    values = [(0, 10.0), (1, 90.0), (0, 30.0), (1, 70.0), (0, 35.0), (1, 80.0)]
    write_counters(
        folder,
        [
            (T + i, device, {"gpu_utilization_percent": v, "power_w": 5.0})
            for i, (device, v) in enumerate(values)
        ],
    )


@pytest.mark.parametrize(
    ("variables", "mean", "source"),
    [
        ({}, 52.5, "NVML, mean of 6 samples of 2 GPUs"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, 25.0, "NVML, mean of 3 samples of 1 GPU"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, 80.0, "NVML, mean of 3 samples of 1 GPU"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1"}, 52.5, "NVML, mean of 6 samples of 2 GPUs"),
        ({"CUDA_VISIBLE_DEVICES": ""}, None, None),
    ],
)
def test_utilization_is_the_mean_of_the_gpus_that_the_program_could_use(
    to_trace: Convert, folder: Path, variables: dict[str, str], mean: float | None, source: str | None
) -> None:
    samples(folder)
    results = to_trace(
        worker(7), recording={**GPUS, "environment_variables": variables}
    ).metadata.acceptance.results
    assert results.utilization == mean
    assert results.extra.get("utilization_source") == source


def test_unlike_gpus_are_numbered_in_another_order(to_trace: Convert, folder: Path) -> None:
    samples(folder)
    hardware = {"gpus": 2, "gpu_model": "NVIDIA H200, NVIDIA L4"}
    document: dict[str, Any] = {
        "acceptance": {"hardware": hardware},
        "environment_variables": {"CUDA_VISIBLE_DEVICES": "0"},
    }
    assert to_trace(worker(7), recording=document).metadata.acceptance.results.utilization == 52.5
    document["environment_variables"]["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    assert to_trace(worker(7), recording=document).metadata.acceptance.results.utilization == 25.0


def test_ranks_are_the_processes_with_gpu_work(to_trace: Convert) -> None:
    captured = SpoolBuilder(pid=10)
    captured.call(Operation.KERNEL, T + 1000, flags=Flag.CAPTURED)
    scale = to_trace(worker(7), worker(8), worker(9, submits=False), captured).metadata.acceptance.scale
    assert (scale.hosts, scale.ranks) == (1, 2)


def test_without_gpu_work_nothing_is_claimed(to_trace: Convert) -> None:
    acceptance = to_trace(worker(7, submits=False)).metadata.acceptance
    assert (acceptance.scale.hosts, acceptance.scale.ranks) == (None, None)
    assert acceptance.results.utilization is None
    assert acceptance.life_cycle.startup_s is None


@pytest.mark.parametrize(
    ("recording", "startup"),
    [
        ({"start_ns": T - 2 * 10**9}, 5.0),
        ({"start_ns": T - 2 * 10**9, "window": {"delay_s": None}}, 5.0),
        ({"start_ns": T - 2 * 10**9, "window": {"delay_s": 1.0}}, None),
        ({}, 3.001),  # the image of the builder starts 1 ms before its spool
        ({"start_ns": T + 10**10}, None),
    ],
)
def test_start_up_ends_with_the_first_step(
    to_trace: Convert, recording: dict[str, Any], startup: float | None
) -> None:
    spools = worker(7, step_at=T + 4 * 10**9), worker(8, step_at=T + 3 * 10**9)
    life_cycle = to_trace(*spools, recording={"recording": recording}).metadata.acceptance.life_cycle
    assert life_cycle.startup_s == startup
    assert ("startup_s_source" in life_cycle.extra) is (startup is not None)


def test_what_was_set_by_hand_stays(to_trace: Convert, folder: Path) -> None:
    samples(folder)
    known = {
        "results": {"utilization": 77.0},
        "scale": {"hosts": 4, "ranks": 32},
        "life_cycle": {"startup_s": 90.0},
    }
    acceptance = to_trace(worker(7, step_at=T + 10**9), recording={"acceptance": known}).metadata.acceptance
    assert acceptance.results.utilization == 77.0
    assert "utilization_source" not in acceptance.results.extra
    assert (acceptance.scale.hosts, acceptance.scale.ranks) == (4, 32)
    assert acceptance.life_cycle.startup_s == 90.0
