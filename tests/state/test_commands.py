"""`record`, `info` and `doctor --measure` with a state check."""

import json
import signal
import subprocess
import sys
import time

import jsonschema
import pytest

from cctrace.trace import Metadata, TraceWriter, open_trace
from cctrace.trace.metadata import published_schema

# What the recorded program does: it tells whether the helper's contexts are gone.
LOOK = """
import os, pathlib
lines = pathlib.Path(os.environ["FAKE_LOG"]).read_text().splitlines()
pids = {line.split()[0] for line in lines}
print("alive" if any(os.path.exists(f"/proc/{pid}") for pid in pids) else "gone", len(lines))
"""


def metadata(machine) -> Metadata:
    return open_trace(machine.folder / "t.parquet").metadata


def test_a_recording_holds_the_state_before_it(machine) -> None:
    done = machine.record()
    assert done.returncode == 0, done.stderr
    assert "checking the state of the GPUs" in done.stderr
    assert "state check:" not in done.stderr
    found = metadata(machine)
    assert found.state_check is not None
    assert found.state_check.gpus[0].compute is not None
    assert found.state_check.findings == ()
    jsonschema.validate(found.to_document(), published_schema())
    assert Metadata.from_json(found.to_json()) == found
    # Its time belongs to nobody's start-up.
    assert found.recording.stop_ns - found.recording.start_ns < found.state_check.duration_s * 1e9 + 3e9
    assert found.clock.pairs[0][0] == found.recording.start_ns


def test_the_helper_and_its_memory_are_gone_when_the_command_starts(machine) -> None:
    done = machine.record(code=LOOK)
    assert done.stdout.startswith("gone"), done.stderr
    assert "release 0" in machine.events()


def test_it_can_be_switched_off(machine) -> None:
    done = machine.record("--no-state-check")
    assert done.returncode == 0, done.stderr
    assert "checking" not in done.stderr
    assert metadata(machine).state_check is None
    assert machine.events() == []


@pytest.mark.parametrize("init", ["hang", "crash", "garbage", "no library", 802])
def test_whatever_happens_the_command_runs(machine, fake_gpu, init: object) -> None:
    machine.gpus(fake_gpu(), init=init)
    machine.limit(1.5)
    done = machine.record(code="raise SystemExit(7)")
    assert done.returncode == 7, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "state check is not complete" in line]
    assert metadata(machine).state_check.missing in line
    assert "Traceback" not in done.stderr


def test_what_was_found_is_said_before_the_command_starts(machine, fake_gpu) -> None:
    machine.gpus(fake_gpu(processes=2, used=12 << 30, jitter=0.5))
    done = machine.record(code="import sys; print('and go', file=sys.stderr)")
    before = done.stderr.split("and go")[0]
    assert "state check: GPU 0: 2 other processes use it (12.0 GiB in use)" in before
    assert "repeats of the compute loop differ" in before
    shown = machine.run("info", "t.parquet").stdout
    assert "2 other processes use it" in shown
    assert "nothing looks stale" not in shown


def test_a_machine_without_gpu_is_not_bothered(machine) -> None:
    machine.gpus(nvml="missing")
    done = machine.record()
    assert done.returncode == 0, done.stderr
    assert "state check" not in done.stderr
    assert metadata(machine).state_check.missing == "there is no GPU here"
    assert machine.events() == []


def test_ctrl_c_during_the_check_starts_nothing(machine, fake_gpu) -> None:
    machine.gpus(fake_gpu(), init="hang")
    marker = machine.folder / "ran"
    program = [sys.executable, "-c", f"open({str(marker)!r}, 'w')"]
    recorder = subprocess.Popen(
        [sys.executable, "-m", "cctrace.cli", "record", "-o", "t.parquet", "--", *program],
        cwd=machine.folder,
        env=machine.environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not machine.log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    recorder.send_signal(signal.SIGINT)
    recorder.communicate(timeout=30)
    assert recorder.returncode == -signal.SIGINT
    assert not marker.exists()
    assert not [path for path in machine.folder.iterdir() if ".spool-" in path.name]


def test_info_shows_a_line_for_each_gpu(machine, fake_gpu) -> None:
    machine.gpus(fake_gpu(), fake_gpu(1))
    machine.record()
    shown = machine.run("info", "t.parquet").stdout
    assert shown.count("1980 of 1980 MHz under load") == 2
    assert "nothing looks stale or busy" in shown
    document = json.loads(machine.run("info", "t.parquet", "--json").stdout)
    assert len(document["metadata"]["state_check"]["gpus"]) == 2


def test_a_trace_without_a_check_shows_none(machine) -> None:
    """As recorded by an older cctrace: the key is not there at all."""
    document = Metadata().to_document()
    del document["state_check"]
    old = Metadata.from_document(document)
    assert old.state_check is None
    with TraceWriter(machine.folder / "old.parquet") as writer:
        writer.finish(old)
    done = machine.run("info", "old.parquet")
    assert done.returncode == 0, done.stderr
    assert "State of the GPUs" not in done.stdout


def test_doctor_measures_only_if_asked(machine) -> None:
    document = json.loads(machine.run("doctor", "--json").stdout)
    assert document["state_check"] is None
    assert machine.events() == []
    assert "State of" not in machine.run("doctor").stdout


def test_doctor_measures(machine, fake_gpu) -> None:
    machine.gpus(fake_gpu(recovery=1))
    done = machine.run("doctor", "--measure", "--json")
    document = json.loads(done.stdout)
    check = document["state_check"]
    jsonschema.validate(check, published_schema()["properties"]["state_check"])
    assert check["gpus"][0]["memory"]["median_us"] > 0
    assert check["gpus"][0]["recovery_action"] == "reset"
    assert check["findings"] == [
        "GPU 0: the driver asks for a reset of it: `nvidia-smi --gpu-reset`, or reboot the guest"
    ]
    assert document["state_not_known"] == []


def test_doctor_shows_everything_of_a_gpu(machine) -> None:
    shown = machine.run("doctor", "--measure").stdout
    for text in ("State of GPU 0", "compute loop", "multiply-adds a second", "nothing looks stale or busy"):
        assert text in shown


def test_doctor_without_a_gpu_says_so(machine) -> None:
    machine.gpus(init="no library", nvml="missing")
    done = machine.run("doctor", "--measure")
    assert "Failure finding libcuda.so.1" in done.stdout
    assert "Traceback" not in done.stderr
