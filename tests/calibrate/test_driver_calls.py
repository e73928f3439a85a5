"""What is timed, over a stand-in for the driver whose clock only its own calls move: refusals are slow there,
and a memset takes any address.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parents[1] / "support"

PROGRAM = """
import ctypes, json
from fake_gpu import snapshot, unseen
from cctrace.collectors.calibrate.sampling import QUICK
from cctrace.collectors.calibrate.session import CudaMachine, Request, calibrate
now = ctypes.CDLL("libcuda.so.1").stub_now
now.restype = ctypes.c_int64
found = calibrate(Request(None, QUICK), CudaMachine(), unseen, environment={}, clock=now, look=snapshot)
print(json.dumps(found.to_json()))
"""

COSTS = {
    "cuLaunchKernel": 3700,
    "cuGraphLaunch": 1900,
    "cuMemcpyDtoDAsync_v2": 4770,
    "cuMemcpyHtoDAsync_v2": 2400,
    "cuMemcpyDtoHAsync_v2": 2300,
    "cuMemsetD8Async": 1170,
    "cuMemsetD16Async": 160,
    "cuEventRecord": 300,
    "cuEventQuery": 1570,
    "cuStreamSynchronize": 1500,
    "cuMemHostAlloc": 950_000,
}
"""Nanoseconds, as a driver takes them on an H200; an answer may take longer than a submission."""
TOLL = 12_250
SUBMISSIONS = (
    "cuLaunchKernel",
    "cuGraphLaunch",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
)


def measured(
    stubs: Path, costs: dict[str, int], log: Path | None = None
) -> dict[tuple[str, int | None], float]:
    """Key and size of each quantity → microseconds."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(stubs),
        "PYTHONPATH": os.pathsep.join([*sys.path, str(SUPPORT)]),
        "STUB_COSTS": ",".join(f"{symbol}={ns}" for symbol, ns in costs.items()),
        "STUB_REFUSAL": "1660",
        **({"STUB_LOG": str(log)} if log else {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=stubs,  # in the repository a folder would hide the installed package
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["measured"]
    return {(one["key"], one["bytes"]): one["value_us"] for one in found}


@pytest.fixture(scope="module")
def off(stubs: Path) -> dict[tuple[str, int | None], float]:
    return measured(stubs, COSTS)


@pytest.mark.parametrize(
    ("key", "symbol"),
    [
        ("kernel_us", "cuLaunchKernel"),
        ("graph_us", "cuGraphLaunch"),
        ("graph_512_us", "cuGraphLaunch"),
        ("copy_us", "cuMemcpyDtoDAsync_v2"),
        ("memset_us", "cuMemsetD8Async"),
        ("event_us", "cuEventRecord"),
        ("event_isolated_us", "cuEventRecord"),
        ("sync_us", "cuStreamSynchronize"),
    ],
)
def test_a_call_takes_what_the_driver_takes(
    off: dict[tuple[str, int | None], float], key: str, symbol: str
) -> None:
    assert off[key, None] == pytest.approx(COSTS[symbol] / 1e3)


def test_copies_and_allocations_take_what_the_driver_takes(off: dict[tuple[str, int | None], float]) -> None:
    wait = COSTS["cuStreamSynchronize"]
    for path, symbol in (("h2d", "HtoD"), ("d2h_pageable", "DtoH"), ("d2d", "DtoD")):
        call = COSTS[f"cuMemcpy{symbol}Async_v2"]
        assert off[f"{path}_call_us", 1024] == pytest.approx(call / 1e3)
        assert off[f"{path}_us", 1024] == pytest.approx((call + wait) / 1e3)
    assert off["host_alloc_us", 4096] == pytest.approx(COSTS["cuMemHostAlloc"] / 1e3)


def test_a_toll_on_submissions_is_found_again(stubs: Path, off: dict[tuple[str, int | None], float]) -> None:
    tolled = {symbol: COSTS[symbol] + TOLL for symbol in SUBMISSIONS}
    on = measured(stubs, {**COSTS, **tolled})
    for key in ("kernel_us", "graph_us", "graph_64_us", "copy_us", "memset_us", "memset_isolated_us"):
        assert on[key, None] - off[key, None] == pytest.approx(TOLL / 1e3), key
    for key in ("event_us", "sync_us"):
        assert on[key, None] == pytest.approx(off[key, None]), key


def test_the_driver_is_asked_for_nothing_that_it_has_to_refuse(stubs: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    measured(stubs, COSTS, log)
    calls = log.read_text().split()
    assert calls.count("cuMemsetD8Async") > 100
    assert "refused" not in calls
