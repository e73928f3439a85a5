"""However a recording ends, no process of the recorder outlives it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

MARK = "RECORDING_OF_THIS_TEST"
HANGS = "import time\ntime.sleep(60)\n"


class Recorder:
    """One recording that can be recognised by its environment, and by its process group."""

    def __init__(self, cctrace, eventually, folder: Path) -> None:
        self._cctrace = cctrace
        self._eventually = eventually
        self.mark = f"{MARK}={folder}".encode()
        cctrace.environment[MARK] = str(folder)
        self.group = 0

    def start(self, *options: str, program: tuple[str, ...] = ()):
        """Starts a recording of the fake program."""
        return self._watched(self._cctrace.start_record(*options, program=program, stdout=None, stderr=None))

    def start_command(self, *command: str):
        """Starts a recording of any command."""
        arguments = ("record", "-o", "t.parquet", "--", *command)
        return self._watched(self._cctrace.start(*arguments, stdout=None, stderr=None))

    def _watched(self, process):
        self.group = process.pid
        return process

    def processes(self) -> set[int]:
        """Processes that carry the mark or are of the recorder's group. The sentinel has no environment."""
        return {int(name) for name in os.listdir("/proc") if name.isdigit() and self._is_of_it(int(name))}

    def _is_of_it(self, pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return stat[0] not in "ZX" and (int(stat[2]) == self.group or self.mark in environment.split(b"\0"))

    def serving(self) -> int:
        """Starts a program that serves, waits for it, and returns its process id."""
        ready = self._cctrace.folder / "server.pid"
        self.start(program=("--serve", "60", "--ready", str(ready)))
        assert self._eventually(lambda: ready.exists() and ready.read_text())
        # Recorder, program, sentinel and the process that asks NVML.
        assert self._eventually(lambda: len(self.processes()) == 4), self.processes()
        return int(ready.read_text())


@pytest.fixture
def recorder(cctrace, eventually, tmp_path: Path) -> Recorder:
    return Recorder(cctrace, eventually, tmp_path)


def _ends(recorder: Recorder) -> None:
    assert recorder.start(program=("--exit", "3")).wait(60) == 3


def _killed_program(recorder: Recorder) -> None:
    os.kill(recorder.serving(), signal.SIGKILL)


def _stopped(recorder: Recorder) -> None:
    recorder.serving()
    os.kill(recorder.group, signal.SIGTERM)


def _stopped_as_a_group(recorder: Recorder) -> None:
    recorder.serving()
    os.killpg(recorder.group, signal.SIGINT)


def _killed_recorder(recorder: Recorder) -> None:
    program = recorder.serving()
    os.kill(recorder.group, signal.SIGKILL)
    os.kill(program, signal.SIGTERM)


def _killed_group(recorder: Recorder) -> None:
    recorder.serving()
    os.killpg(recorder.group, signal.SIGKILL)


def _not_found(recorder: Recorder) -> None:
    assert recorder.start_command("no-such-command-here").wait(60) == 127


def _refused(recorder: Recorder) -> None:
    assert recorder.start("--step", "a;b").wait(60) == 2


def _not_converted(recorder: Recorder) -> None:
    assert recorder.start_command("sh", "-c", "echo theirs > t.parquet").wait(60) == 2


@pytest.mark.parametrize(
    "end",
    [
        _ends, _killed_program, _stopped, _stopped_as_a_group, _killed_recorder, _killed_group, _not_found,
        _refused, _not_converted,
    ],
)  # fmt: skip
def test_nothing_of_the_recorder_is_left(
    recorder: Recorder, eventually, end: Callable[[Recorder], None]
) -> None:
    end(recorder)
    assert eventually(lambda: not recorder.processes(), 30.0), recorder.processes()


def test_nothing_is_left_when_the_recorder_is_stopped_before_the_command_starts(
    recorder: Recorder, cctrace, eventually
) -> None:
    """While NVML hangs."""
    (cctrace.folder / "pynvml.py").write_text(HANGS)
    paths = [str(cctrace.folder), cctrace.environment.get("PYTHONPATH", "")]
    cctrace.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    process = recorder.start()
    assert eventually(lambda: len(recorder.processes()) == 2 and cctrace.spools())
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM
    assert eventually(lambda: not recorder.processes(), 30.0), recorder.processes()
    assert cctrace.spools() == []
