"""The command line, over a stand-in for the driver that the real cuda.bindings loads."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from fake_gpu import OFF, ON, measured_profile

from cctrace.collectors.library import find_library
from cctrace.errors import CollectorMissingError
from cctrace.profiles.emulation import parse_emulation
from cctrace.profiles.files import read_profile, write_profile
from cctrace.profiles.model import Entry

RunCli = Callable[..., subprocess.CompletedProcess[str]]

TOLL_US = 200.0
"""Far more than any other cost of a call, on a busy machine as well."""


@pytest.fixture
def gpu(stubs: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(stubs)}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A profile measured with CC on and one with CC off."""
    on, off = tmp_path / "on.toml", tmp_path / "off.toml"
    write_profile(measured_profile(ON, "on", 2, "on"), on)
    write_profile(measured_profile(OFF, "off", 2), off)
    return on, off


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
    assert done.stdout == ""


def test_measures_into_a_profile_that_reads_again(
    run_cli: RunCli, gpu: dict[str, str], tmp_path: Path
) -> None:
    done = run_cli("calibrate", "--quick", "--cc", "off", "-o", "mine.toml", **gpu)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "Stub GPU, CC off" in done.stdout
    profile = read_profile(tmp_path / "mine.toml")
    assert (profile.name, profile.profile.cc, profile.profile.gpu) == ("mine", "off", "Stub GPU")
    assert set(profile.entries("launch")) >= {"kernel_us", "graph_us", "copy_us", "memset_us", "event_us"}
    assert set(profile.entries("pcie")) >= {"h2d_us", "d2h_us", "h2d_pageable_us", "d2d_us", "host_alloc_us"}
    before = (tmp_path / "mine.toml").read_bytes()
    refused(run_cli("calibrate", "--quick", "-o", "mine.toml", **gpu), "mine.toml exists", "--force")
    assert (tmp_path / "mine.toml").read_bytes() == before


def test_two_gpus_and_nccl_that_talks(run_cli: RunCli, gpu: dict[str, str]) -> None:
    done = run_cli("calibrate", "--quick", "--json", **gpu, STUB_GPUS="2", NCCL_NVLS_ENABLE="0")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["nccl"] == "2.28.9"
    assert found["gpus_linked"] == 2
    keys = {one["key"] for one in found["measured"] if one["cause"] == "nvlink"}
    assert keys == {
        "peer_latency_us",
        "peer_copy_us",
        "peer_read_us",
        "kernel_read_us",
        "all_reduce_us",
        "all_to_all_us",
    }
    assert any("NCCL_NVLS_ENABLE=0" in note for note in found["notes"])
    kernel = next(one for one in found["measured"] if one["key"] == "kernel_us")
    assert kernel["raw_value_us"] > kernel["bare_value_us"] > 0


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("ncclCommInitAll=2", "NCCL refused ncclCommInitAll"),
        ("ncclAllReduce=5", "invalid usage"),
        ("ncclGroupEnd=1", "ncclGroupEnd"),
    ],
)
def test_collectives_that_fail_leave_the_rest(
    run_cli: RunCli, gpu: dict[str, str], failing: str, said: str
) -> None:
    done = run_cli("calibrate", "--quick", "--json", **gpu, STUB_GPUS="2", STUB_NCCL_FAIL=failing)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["nccl"] is None
    assert any("collectives: not measured" in note and said in note for note in found["notes"])
    assert any(one["key"] == "peer_copy_us" for one in found["measured"])


def test_no_multicast_object_is_made_and_no_clock_is_set(
    run_cli: RunCli, gpu: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    run_cli("calibrate", "--quick", **gpu, STUB_GPUS="2", STUB_LOG=str(log))
    calls = set(log.read_text().split())
    assert "cuLaunchKernel" in calls
    assert not [call for call in calls if "ulticast" in call or "Elapsed" in call or "Clock" in call]


def test_what_is_opened_is_given_back(run_cli: RunCli, gpu: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "calls"
    done = run_cli("calibrate", "--quick", **gpu, STUB_LOG=str(log))
    assert done.returncode == 0, done.stderr
    calls = log.read_text().split()

    def count(name: str) -> int:
        return calls.count(name)

    assert count("cuMemAlloc_v2") == count("cuMemFree_v2") > 0
    assert count("cuMemHostAlloc") == count("cuMemFreeHost") > 0
    assert count("cuMemHostRegister_v2") == count("cuMemHostUnregister") > 0
    assert count("cuGraphInstantiateWithFlags") == count("cuGraphExecDestroy") > 0
    assert count("cuStreamCreate") == count("cuStreamDestroy_v2") > 0
    assert count("cuDevicePrimaryCtxRetain") == count("cuDevicePrimaryCtxRelease_v2") > 0


def test_confidential_memory_is_seen(run_cli: RunCli, gpu: dict[str, str]) -> None:
    done = run_cli(
        "calibrate", "--quick", "--json", **gpu, STUB_MANAGED="1", STUB_FAIL="cuMemHostRegister_v2=801"
    )
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["gpus"]
    assert (found["pinned_reported_pinned"], found["host_register_error"]) == (False, 801)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"STUB_GPUS": "0"}, ["sees no GPU"]),
        ({"STUB_FAIL": "cuInit=100"}, ["sees no GPU"]),
        ({"STUB_FAIL": "cuInit=802"}, ["802", "conf-compute -srs 1"]),
        ({"STUB_FAIL": "cuInit=3"}, ["refused cuInit", "CUDA_ERROR_NOT_INITIALIZED"]),
        ({"STUB_FAIL": "cuMemAlloc_v2=2"}, ["refused cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY"]),
        ({"STUB_FAIL": "cuLaunchKernel=719"}, ["CUDA_ERROR_LAUNCH_FAILED"]),
        ({"STUB_FAIL": "cuStreamSynchronize=46"}, ["CUDA_ERROR_DEVICE_UNAVAILABLE"]),
    ],
)
def test_a_driver_that_cannot_be_used(
    run_cli: RunCli, gpu: dict[str, str], environment: dict[str, str], words: Collection[str]
) -> None:
    refused(run_cli("calibrate", "--quick", "-o", "x.toml", **gpu, **environment), *words)


def test_no_driver_at_all(run_cli: RunCli, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has a driver")
    refused(run_cli("calibrate", "-o", "x.toml"), "no NVIDIA driver")
    assert not (tmp_path / "x.toml").exists()


def test_no_cuda_python(run_cli: RunCli, tmp_path: Path) -> None:
    package = tmp_path / "hidden" / "cuda"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    path = f"{package.parent}:{os.environ.get('PYTHONPATH', '')}"
    refused(run_cli("calibrate", PYTHONPATH=path), "cuda-python is not installed", "pip install cuda-python")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--device", "7"), ["--device 7", "from 0 to 0, or all"]),
        (("-o", "profile.json"), ["ends in .toml"]),
        (("-o", "no/such/folder/x.toml"), ["no/such/folder"]),
        (("--beside", "nowhere"), ["no platform profile 'nowhere'"]),
        (("--cc", "maybe"), ["maybe"]),
    ],
)
def test_wrong_options(
    run_cli: RunCli, gpu: dict[str, str], arguments: tuple[str, ...], words: Collection[str]
) -> None:
    refused(run_cli("calibrate", *arguments, **gpu), *words)


def test_a_recorder_that_emulates_is_found_out(run_cli: RunCli, gpu: dict[str, str], tmp_path: Path) -> None:
    try:
        library = find_library()
    except CollectorMissingError as error:
        pytest.skip(str(error))
    charged = ("kernel_us", "graph_us", "copy_us", "memset_us")
    tolls = [argument for key in charged for argument in ("--emulate-set", f"{key}={TOLL_US}")]
    recorder = ("record", "--no-state-check", "-o", "x.parquet", "--emulate", "b200-tdx:launch", *tolls, "--")
    program = (sys.executable, "-m", "cctrace", "calibrate", "--quick", "-o", "mine.toml")
    done = run_cli(*recorder, *program, **gpu, CCTRACE_LIBRARY=str(library))
    assert done.returncode == 0, done.stderr
    profile = read_profile(tmp_path / "mine.toml")
    assert profile.profile.cc == "emulated"
    values = {
        key: entry.value for key, entry in profile.entries("launch").items() if isinstance(entry, Entry)
    }
    for key in charged:
        assert values[key] > 0.95 * TOLL_US, key
    assert values["event_us"] < 0.5 * TOLL_US


def test_compares_and_writes_tolls_that_can_be_emulated(
    run_cli: RunCli, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    done = run_cli("calibrate", "--compare", *pair, "-o", "tolls.toml")
    assert done.returncode == 0, done.stderr
    assert "CC on" in done.stdout
    emulation = parse_emulation(str(tmp_path / "tolls.toml"))
    assert set(emulation.causes) == {"launch", "pcie", "overlap", "nvlink"}
    charged = dict(part.split("=") for part in emulation.environment_value().split(","))
    assert float(charged["kernel_us"]) == pytest.approx(12.25, abs=0.01)
    assert charged["overlap"] == "1"
    assert float(charged["peer_latency_us"]) == pytest.approx(10.8, abs=0.01)
    assert charged["h2d_us"].startswith("64:")


def test_compare_as_json(run_cli: RunCli, pair: tuple[Path, Path]) -> None:
    done = run_cli("calibrate", "--compare", *pair, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    kernel = next(one for one in found["lines"] if one["name"] == "submit one kernel")
    assert kernel["on_minus_off"] == pytest.approx(12.25, abs=0.01)
    assert found["null_test"] is False
    assert found["on"]["cc"] == "on"


def test_compare_refuses_what_is_no_pair(run_cli: RunCli, pair: tuple[Path, Path], tmp_path: Path) -> None:
    on, off = pair
    broken, foreign = tmp_path / "broken.toml", tmp_path / "foreign.toml"
    broken.write_text("[profile\n")
    foreign.write_text("[tool.ruff]\nline-length = 110\n")
    again = tmp_path / "again.toml"
    again.write_bytes(off.read_bytes())
    refused(run_cli("calibrate", "--compare", off, on), "CC on first")
    refused(run_cli("calibrate", "--compare", off, off), "one file")
    refused(run_cli("calibrate", "--compare", on, broken), "broken.toml", "TOML")
    refused(run_cli("calibrate", "--compare", on, foreign), "foreign.toml")
    refused(run_cli("calibrate", "--compare", on, "missing.toml"), "missing.toml")
    refused(run_cli("calibrate", "--compare", on, off, "--quick", "--device", "0"), "--device", "--quick")
    refused(run_cli("calibrate", "--compare", again, off, "-o", "tolls.toml"), "no toll")
    refused(run_cli("calibrate", "--compare", on, off, "-o", off), "exists")
    assert not (tmp_path / "tolls.toml").exists()


def test_the_command_line_starts_without_what_only_calibration_needs() -> None:
    program = (
        "import sys; from cctrace.cli import build_app; build_app(); "
        "heavy = {'numpy', 'pydantic', 'cuda', 'cctrace.collectors.calibrate'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
