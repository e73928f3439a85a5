"""Processes as servers have them: forked, spawned, ending in every way, or with nothing to do with CUDA."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from cctrace.collectors.spool.layout import Kind

N = 500


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-c", "import ssl, json, ctypes; print('fine')"],
        ["bash", "-c", "echo fine; true | cat; ls / >/dev/null"],
        ["sh", "-c", "exec sleep 0"],
    ],
    ids=["python", "bash", "exec"],
)
def test_processes_without_cuda_leave_no_file(recorder: Any, command: list[str]) -> None:
    recording = recorder.run(command)
    assert recording.code == 0
    assert recording.err == ""
    assert recording.spools == []


def test_looking_names_up_starts_nothing(recorder: Any) -> None:
    # Libraries look names up when they are loaded, before a server forks its engine.
    recording = recorder.python(
        "cuda.cuLaunchKernel, cuda.cuMemcpyAsync; cuda.cuDriverGetVersion(byref(c_int()))"
    )
    assert recording.code == 0
    assert recording.spools == []


def test_without_a_spool_folder_nothing_is_wrapped(recorder: Any) -> None:
    recording = recorder.python("start(); launch(); print('fine')", CCTRACE_SPOOL="")
    assert recording.out == "fine\n"
    assert recording.spools == []


def test_a_spool_folder_that_is_not_there_breaks_nothing(recorder: Any) -> None:
    recording = recorder.python("start(); launch(); print('fine')", CCTRACE_SPOOL="/nonexistent/folder")
    assert (recording.code, recording.out) == (0, "fine\n")
    assert len(recording.err.splitlines()) == 1
    assert "not recorded" in recording.err


def test_spools_are_private(recorder: Any) -> None:
    spool = recorder.python("start(); launch()").spool
    assert spool.path.stat().st_mode & 0o777 == 0o600


def test_the_header_says_who_and_when(recorder: Any) -> None:
    before = time.monotonic_ns()
    recording = recorder.python("start(); launch(); print(os.getpid(), os.getppid())")
    pid, parent = map(int, recording.out.split())
    header = recording.spool.of(Kind.HEADER)[0]
    assert (int(header["tid"]), int(header["object"])) == (pid, parent)
    assert header["link"] == 0x50534343
    assert before < header["stream"] <= header["start_ns"] < time.monotonic_ns()
    assert recording.spool.path.name.startswith(f"{pid}-")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("os._exit(9)", 9),
        ("raise ValueError", 1),
        ("ctypes.CDLL(None).exit(11)", 11),
        ("ctypes.CDLL(None)._exit(12)", 12),
        ("ctypes.CDLL(None).quick_exit(13)", 13),
    ],
)
def test_every_ending_keeps_the_data_and_the_exit_code(recorder: Any, ending: str, code: int) -> None:
    recording = recorder.python(f"start()\nfor _ in range({N}): launch()\n{ending}")
    assert recording.code == code
    assert len(recording.spool.named("cuLaunchKernel")) == N
    assert recording.spool.torn == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_loses_at_most_one_drain_period(recorder: Any, number: signal.Signals) -> None:
    process = recorder.start(
        [
            sys.executable,
            "-c",
            "import ctypes, time\n"
            "c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0)\n"
            "while True:\n    c.cuStreamSynchronize(None)\n"
            "    print(time.monotonic_ns(), flush=True); time.sleep(0.001)",
        ]
    )
    seen = [int(process.stdout.readline()) for _ in range(300)]
    process.send_signal(number)
    recording = recorder.finish(process)
    assert recording.code == -number
    last = int(recording.spool.named("cuStreamSynchronize")["end_ns"].max())
    # Drained every 10 ms; the rest is a busy machine.
    assert seen[-1] - last < 500_000_000


def test_sigint_is_the_programs_own(recorder: Any) -> None:
    process = recorder.start(
        [
            sys.executable,
            "-c",
            "import ctypes, time\n"
            "c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); c.cuStreamSynchronize(None)\n"
            "try:\n    print('ready', flush=True); time.sleep(60)\n"
            "except KeyboardInterrupt:\n    c.cuStreamSynchronize(None); print('caught')",
        ]
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    recording = recorder.finish(process)
    assert (recording.code, recording.out) == (0, "caught\n")
    assert len(recording.spool.named("cuStreamSynchronize")) == 2


def test_a_child_forked_before_cuda_is_recorded(recorder: Any) -> None:
    code = f"""
child = os.fork()
start()
for _ in range({N} if child else 2 * {N}): launch()
if child == 0: os._exit(5)
print(child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    recording = recorder.python(code)
    child, status = map(int, recording.out.split())
    assert status == 5
    assert len(recording.spools) == 2
    spool = recording.of_pid(child)
    assert len(spool.named("cuLaunchKernel")) == 2 * N
    (parent,) = (s for s in recording.spools if s is not spool)
    assert len(parent.named("cuLaunchKernel")) == N
    # The image of a forked child begins at the fork.
    assert spool.of(Kind.HEADER)[0]["stream"] > parent.of(Kind.HEADER)[0]["stream"]


def test_a_child_forked_after_cuda_is_left_alone(recorder: Any) -> None:
    code = f"""
start()
for _ in range({N}): launch()
child = os.fork()
if child == 0:
    # As without us: not initialized.
    assert cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 3
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for _ in range({N}): launch()
"""
    recording = recorder.python(code)
    assert recording.out == "5\n"
    assert len(recording.spool.named("cuLaunchKernel")) == 2 * N


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(recorder: Any, method: str) -> None:
    (recorder.folder / "worker.py").write_text(
        "import ctypes\n"
        "def work(n):\n"
        "    c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0)\n"
        "    for _ in range(n): c.cuStreamSynchronize(None)\n"
    )
    (recorder.folder / "main.py").write_text(
        "import multiprocessing as mp, worker\n"
        "if __name__ == '__main__':\n"
        f"    context = mp.get_context({method!r})\n"
        "    children = [context.Process(target=worker.work, args=(100 * (i + 1),)) for i in range(3)]\n"
        "    for c in children: c.start()\n"
        "    for c in children: c.join()\n"
        "    print(*[c.pid for c in children], *[c.exitcode for c in children])\n"
    )
    recording = recorder.run([sys.executable, str(recorder.folder / "main.py")])
    assert recording.code == 0, recording.err
    *pids, a, b, c = map(int, recording.out.split())
    assert (a, b, c) == (0, 0, 0)
    assert len(recording.spools) == 3
    for i, pid in enumerate(pids):
        assert len(recording.of_pid(pid).named("cuStreamSynchronize")) == 100 * (i + 1)


def test_exec_begins_a_second_file(recorder: Any) -> None:
    code = f"""
start()
for _ in range({N}): launch()
ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]).cctrace_flush()
again = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); c.cuStreamSynchronize(None)"
os.execv(sys.executable, [sys.executable, "-c", again])
"""
    recording = recorder.python(code)
    assert recording.code == 0
    first, second = recording.spools
    assert first.pid == second.pid
    assert len(first.named("cuLaunchKernel")) == N
    assert len(second.named("cuStreamSynchronize")) == 1


def test_a_subprocess_of_a_recorded_process(recorder: Any) -> None:
    code = """
import subprocess
start(); launch()
again = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); c.cuStreamSynchronize(None)"
assert subprocess.run([sys.executable, "-c", again]).returncode == 0
assert subprocess.run(["true"]).returncode == 0
assert os.system("exit 3") >> 8 == 3
"""
    recording = recorder.python(code)
    assert recording.code == 0, recording.err
    assert len(recording.spools) == 2


def test_the_programs_own_preload_works(recorder: Any) -> None:
    source = recorder.folder / "own.c"
    source.write_text("int own_preload(void) { return 42; }\n")
    own = recorder.folder / "own.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", own, source], check=True)
    code = "start(); launch(); print(ctypes.CDLL(None).own_preload())"
    recording = recorder.python(code, LD_PRELOAD=f"{recorder.built.library}:{own}")
    assert recording.out == "42\n"
    assert len(recording.spool.named("cuLaunchKernel")) == 1


def test_flush_brings_everything_to_disk(recorder: Any) -> None:
    code = f"""
library = ctypes.CDLL(os.environ["CCTRACE_LIBRARY"])
library.cctrace_flush()
start()
for _ in range({N}): launch()
library.cctrace_flush()
os.kill(os.getpid(), 9)
"""
    recording = recorder.python(code)
    assert recording.code == -9
    assert len(recording.spool.named("cuLaunchKernel")) == N


def test_a_full_disk_stops_the_recording_only(recorder: Any) -> None:
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
start()
for _ in range(3000): launch()
ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]).cctrace_flush()
for _ in range(3000): launch()
assert cuda.mock_calls(b"cuLaunchKernel") == 6000
print("fine")
"""
    recording = recorder.python(code)
    assert (recording.code, recording.out) == (0, "fine\n")
    # A coverage run has something to say about its own file, too.
    (said,) = [line for line in recording.err.splitlines() if line.startswith("cctrace")]
    assert "cannot write the recording" in said
    assert os.path.getsize(recording.spool.path) <= 20000


def test_a_program_that_closes_every_file_is_not_disturbed(recorder: Any) -> None:
    code = """
start(); launch()
ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]).cctrace_flush()
os.closerange(3, 4096)
mine = os.open("mine.txt", os.O_CREAT | os.O_RDWR)
for _ in range(100): launch()
time.sleep(0.1)
os.write(mine, b"hello"); os.lseek(mine, 0, 0)
print(os.read(mine, 1000000))
"""
    recording = recorder.python(code)
    assert recording.code == 0
    assert recording.out == "b'hello'\n"
    assert len(recording.spool.named("cuLaunchKernel")) == 101
