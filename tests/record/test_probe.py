"""NVML runs in a helper process: whatever happens to it there, the recording goes on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cctrace.collectors.environment.isolated import NvmlHelper
from cctrace.trace.reader import open_trace

_ANSWERS = """
import types
class NVMLError(Exception):
    pass
NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(device): return "A GPU"
def nvmlDeviceGetPowerUsage(device): return 412500
def nvmlSystemGetConfComputeState():
    return types.SimpleNamespace(environment=2, ccFeature=1, devToolsMode=1)
"""
_INIT = """
import os, signal, time
def nvmlInit():
    with open(os.environ["INITS"], "a") as file:
        file.write(f"{os.getpid()} {os.getppid()}\\n")
"""
_CRASH = "    os.kill(os.getpid(), signal.SIGSEGV)\n"
_HANG = "    time.sleep(1000)\n"
_LATE = """
    while not os.path.exists(os.environ["STARTED"]):
        time.sleep(0.01)
"""


@pytest.fixture
def nvml(cctrace) -> Callable[[str], None]:
    """Puts a `pynvml` of the given text before the installed one."""

    def use(text: str) -> None:
        folder = cctrace.folder / "bindings"
        folder.mkdir()
        (folder / "pynvml.py").write_text(text)
        paths = [str(folder), cctrace.environment.get("PYTHONPATH", "")]
        cctrace.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        cctrace.environment["INITS"] = str(cctrace.folder / "inits")

    return use


def _inits(cctrace) -> list[list[int]]:
    return [list(map(int, line.split())) for line in (cctrace.folder / "inits").read_text().splitlines()]


def _environment(cctrace) -> dict:
    environment: dict = open_trace(cctrace.trace).metadata.extra["environment"]
    return environment


def _counters(cctrace) -> list[tuple[int, float]]:
    rows = open_trace(cctrace.trace).table(["start_ns", "name", "value"], kinds=["counter"]).to_pylist()
    return [(row["start_ns"], row["value"]) for row in rows if row["name"] == "power_w"]


def test_nvml_starts_once_and_not_in_the_recorder(cctrace, nvml) -> None:
    nvml(_ANSWERS + _INIT)
    options = ("--counters-hz", "10", "--no-state-check")  # the check has an NVML of its own
    recorder = cctrace.start_record(*options, program=("--serve", "0.6"))
    _, said = recorder.communicate(timeout=40)
    assert recorder.returncode == 0, said
    ((pid, parent),) = _inits(cctrace)
    assert (pid != recorder.pid, parent) == (True, recorder.pid)
    trace = open_trace(cctrace.trace)
    assert trace.metadata.acceptance.hardware.gpu_model == "A GPU"
    assert trace.metadata.labels == ("devtools",)
    environment = _environment(cctrace)
    assert environment["start"]["gpus"][0]["power_w"] == environment["end"]["gpus"][0]["power_w"] == 412.5
    samples = _counters(cctrace)
    assert environment["counters"]["state"] == "done"
    assert environment["counters"]["samples"] == len(samples) >= 3
    assert {value for _, value in samples} == {412.5}
    assert samples[0][0] >= trace.metadata.recording.start_ns
    assert len(trace.metadata.collector.processes) == 1


def test_a_crash_of_nvml_costs_the_environment_and_nothing_else(cctrace, nvml) -> None:
    nvml(_ANSWERS + _INIT + _CRASH)
    done = cctrace.record("--counters-hz", "10", program=("--serve", "0.5", "--exit", "7"))
    assert done.returncode == 7, done.stderr
    (note,) = [line for line in done.stderr.splitlines() if "GPU" in line and "not known" in line]
    assert "SIGSEGV" in note
    metadata = open_trace(cctrace.trace).metadata
    assert sum("SIGSEGV" in note for note in metadata.collector.notes) == 1
    environment = _environment(cctrace)
    for moment in ("start", "end"):
        assert environment[moment]["nvml"].startswith("not known, because")
        assert "SIGSEGV" in environment[moment]["nvml"]
    assert "SIGSEGV" in environment["counters"]["state"]
    assert metadata.acceptance.security.cc_mode is None
    assert metadata.acceptance.hardware.cpus == len(os.sched_getaffinity(0))
    assert len(_inits(cctrace)) == 1
    assert cctrace.spools() == []


def test_a_crash_while_counters_are_sampled(cctrace, nvml) -> None:
    crash = _ANSWERS.replace(
        "def nvmlDeviceGetPowerUsage(device): return 412500",
        "asked = []\n"
        "def nvmlDeviceGetPowerUsage(device):\n"
        "    asked.append(1)\n"
        "    if len(asked) > 3:\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return 412500\n",
    )
    nvml(crash + _INIT)
    done = cctrace.record("--counters-hz", "10", program=("--serve", "1"))
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stderr.splitlines() if "SIGSEGV" in line]) == 1
    environment = _environment(cctrace)
    assert environment["start"]["nvml"] == "answers"
    assert "SIGSEGV" in environment["end"]["nvml"]
    assert len(_counters(cctrace)) == 2, "those before the crash are kept"


@pytest.mark.parametrize("failure", ["    raise SystemExit(3)\n", "    os.write(7, b'x')\n"])
def test_bindings_that_fail_in_their_own_ways(cctrace, nvml, failure: str) -> None:
    nvml(_ANSWERS + _INIT + failure)
    done = cctrace.record()
    assert done.returncode == 0, done.stderr
    assert _environment(cctrace)["start"]["nvml"] != "answers"


def test_nvml_that_hangs_does_not_hold_the_command_up(cctrace, nvml, eventually) -> None:
    nvml(_ANSWERS + _INIT + _HANG)
    cctrace.set_limit("cctrace.collectors.environment.isolated", "START_LIMIT_S", 1.0)
    done = cctrace.record(program=("--exit", "7"))  # it hangs for longer than this waits
    assert done.returncode == 7, done.stderr
    assert len([line for line in done.stderr.splitlines() if "does not answer" in line]) == 1
    ((pid, _),) = _inits(cctrace)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_an_answer_that_comes_late_still_counts(cctrace, nvml) -> None:
    nvml(_ANSWERS + _INIT + _LATE)
    cctrace.set_limit("cctrace.collectors.environment.isolated", "START_LIMIT_S", 0.5)
    started = cctrace.environment["STARTED"] = str(cctrace.folder / "started")
    # The check of the state has an NVML of its own, and comes before the command.
    done = cctrace.record("--no-state-check", program=("--serve", "3", "--ready", started))
    assert "at the start is not known" in done.stderr
    assert done.returncode == 0, done.stderr
    metadata = open_trace(cctrace.trace).metadata
    assert metadata.acceptance.hardware.gpu_model == "A GPU"
    assert metadata.acceptance.security.cc_mode == "devtools"
    assert metadata.labels == ("devtools",)
    assert _environment(cctrace)["end"]["nvml"] == "answers"


@pytest.mark.parametrize("init", ["", _HANG])
def test_the_helper_ends_with_a_recorder_that_is_killed(cctrace, nvml, eventually, init: str) -> None:
    nvml(_ANSWERS + _INIT + init)
    recorder = cctrace.start_record(program=("--serve", "30"), stdout=None, stderr=None)
    assert eventually((cctrace.folder / "inits").exists)
    assert eventually(lambda: len(_inits(cctrace)) == 1)
    ((pid, _),) = _inits(cctrace)
    assert os.getsid(pid) == pid
    os.killpg(recorder.pid, signal.SIGKILL)
    recorder.wait()
    assert eventually(lambda: not _alive(pid), 10.0)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_end_of_the_helper_is_not_the_end_of_the_command(cctrace, nvml, eventually) -> None:
    nvml(_ANSWERS + _INIT)
    ready = cctrace.folder / "p.pid"
    program = ("--serve", "3", "--exit", "7", "--ready", str(ready))
    recorder = cctrace.start_record("--counters-hz", "10", program=program)
    assert eventually(ready.exists)
    os.kill(_inits(cctrace)[0][0], signal.SIGKILL)
    _, said = recorder.communicate(timeout=40)
    assert recorder.returncode == 7, said
    assert "SIGKILL" in said
    assert "still run" not in said


def test_signals_to_everything_leave_the_helper_to_its_work(cctrace, nvml, eventually) -> None:
    """As a service manager sends them, to each process of a unit."""
    nvml(_ANSWERS + _INIT)
    recorder = cctrace.start_record(program=("--serve", "30", "--ready", str(cctrace.folder / "p.pid")))
    assert eventually((cctrace.folder / "p.pid").exists)
    for pid in (_inits(cctrace)[0][0], recorder.pid):
        os.kill(pid, signal.SIGTERM)
    _, said = recorder.communicate(timeout=40)
    assert recorder.returncode == 0, said
    assert _environment(cctrace)["end"]["nvml"] == "answers"


def test_doctor_survives_a_crash_of_nvml(cctrace, nvml) -> None:
    nvml(_ANSWERS + _INIT + _CRASH)
    done = cctrace.run("doctor", "--json")
    assert done.returncode in (0, 1)
    document = json.loads(done.stdout)
    assert "SIGSEGV" in document["driver"]["nvml"]
    assert document["confidential_computing"]["cc_mode"] is None
    assert "SIGSEGV" in cctrace.run("doctor", COLUMNS="200").stdout


def test_the_helper_loads_nothing_heavy(cctrace) -> None:
    program = "import sys, cctrace.collectors.environment.probe; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cctrace.folder,
        env=cctrace.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not {"numpy", "pandas", "pyarrow", "typer", "rich", "jsonschema"} & set(done.stdout.split())


def test_a_helper_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    helper = NvmlHelper(hz=1.0)
    snapshot = helper.start()
    helper.begin_sampling()
    end, counters = helper.finish([1, 2])
    assert snapshot.machine.cpus > 0
    for found in (snapshot.nvml_missing, end.nvml_missing, counters["state"]):
        assert "cannot be started" in found


@pytest.mark.parametrize(("feature", "refused"), [(0, False), (1, True)])
def test_gpus_that_are_not_ready_matter_with_cc_on_only(cctrace, nvml, feature: int, refused: bool) -> None:
    bindings = _ANSWERS.replace("ccFeature=1, devToolsMode=1", f"ccFeature={feature}, devToolsMode=0")
    nvml(bindings + _INIT + "def nvmlSystemGetConfComputeGpusReadyState(): return 0\n")
    assert ("error 802" in cctrace.record().stderr) == refused
    ready = open_trace(cctrace.trace).metadata.acceptance.security.ready_state
    assert ready == ("not-ready" if refused else None)
    shown = cctrace.run("doctor", COLUMNS="200").stdout
    assert ("error 802" in shown) == refused
    assert ("not applicable with CC off" in shown) == (not refused)
