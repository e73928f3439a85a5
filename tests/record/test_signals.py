"""Signals, terminals, and processes that end badly."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cctrace.trace.reader import open_trace


def _start_server(cctrace, eventually, *options: str, program: tuple[str, ...] = (), **popen):
    """Starts a recorded program that serves until a signal comes; returns the recorder and its pid."""
    ready = cctrace.folder / "server.pid"
    arguments = (
        "--serve",
        "60",
        "--ready",
        str(ready),
        "--log",
        str(cctrace.folder / "signals.txt"),
        *program,
    )
    recorder = cctrace.start_record(*options, program=arguments, **popen)
    assert eventually(lambda: ready.exists() and ready.read_text()), recorder.communicate(timeout=10)
    return recorder, int(ready.read_text())


def _signals(cctrace) -> list[str]:
    log = cctrace.folder / "signals.txt"
    return log.read_text().split() if log.exists() else []


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _group(leader: int) -> set[int]:
    """The running processes of a process group."""

    def member(pid: int) -> bool:
        try:
            return os.getpgid(pid) == leader and _running(pid)
        except OSError:
            return False

    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit() and member(int(entry))}


def _sentinel(recorder: int, program: int) -> int:
    """The process of the recorder's group that tells whether a signal was sent to all of it."""
    (sentinel,) = _group(recorder) - {recorder, program}
    return sentinel


def _finish(recorder: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = recorder.communicate(timeout=40)
    return recorder.returncode, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_recorder_reaches_the_program_once(cctrace, eventually, number: int) -> None:
    recorder, _ = _start_server(cctrace, eventually, program=("--linger", "0.5"))
    os.kill(recorder.pid, number)
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == [signal.Signals(number).name]
    assert open_trace(cctrace.trace).num_rows > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_is_not_delivered_twice(cctrace, eventually, number: int) -> None:
    """As `timeout`, `kill -- -PGID` and a terminal send it."""
    recorder, program = _start_server(cctrace, eventually, program=("--linger", "1"))
    assert os.getpgid(program) == os.getpgid(recorder.pid)
    os.killpg(os.getpgid(recorder.pid), number)
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == [signal.Signals(number).name]


def test_a_signal_to_the_recorder_and_then_to_its_group_is_one_signal(cctrace, eventually) -> None:
    """As `timeout` sends it."""
    cctrace.set_limit("cctrace.collectors.record.sentinel", "_SETTLE_POLLS", 2000)
    recorder, _ = _start_server(cctrace, eventually, program=("--linger", "1"))
    os.kill(recorder.pid, signal.SIGINT)
    os.killpg(recorder.pid, signal.SIGINT)
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == ["SIGINT"]


def test_a_signal_to_the_group_is_one_signal_when_the_sentinel_gets_no_time(cctrace, eventually) -> None:
    recorder, program = _start_server(cctrace, eventually, program=("--linger", "1"))
    os.kill(_sentinel(recorder.pid, program), signal.SIGSTOP)
    os.killpg(recorder.pid, signal.SIGINT)
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == ["SIGINT"]


def test_two_signals_to_the_group_at_once_are_delivered_once_each(cctrace, eventually) -> None:
    recorder, _ = _start_server(cctrace, eventually, program=("--linger", "1"))
    os.kill(recorder.pid, signal.SIGSTOP)  # it finds both when it goes on
    os.killpg(recorder.pid, signal.SIGUSR1)
    os.killpg(recorder.pid, signal.SIGTERM)
    os.kill(recorder.pid, signal.SIGCONT)
    code, said = _finish(recorder)
    assert code == 0, said
    assert sorted(_signals(cctrace)) == ["SIGTERM", "SIGUSR1"]


def test_a_signal_to_the_group_while_the_recorder_is_slow_to_wait_is_one_signal(cctrace, eventually) -> None:
    cctrace.prepare(
        "import pathlib, time\n"
        "from cctrace.collectors.environment.isolated import NvmlHelper\n"
        "def begin_sampling(self):\n"
        "    while not pathlib.Path('go').exists():\n"
        "        time.sleep(0.01)\n"
        "NvmlHelper.begin_sampling = begin_sampling\n"
    )
    recorder, _ = _start_server(cctrace, eventually, program=("--linger", "1"))
    os.killpg(recorder.pid, signal.SIGINT)
    (cctrace.folder / "go").touch()
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == ["SIGINT"]


def test_a_signal_to_the_group_before_there_is_a_command_reaches_it(cctrace) -> None:
    cctrace.prepare(
        "import os, signal\n"
        "from cctrace.collectors.record import supervisor\n"
        "start = supervisor.start_command\n"
        "def start_command(*args):\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "    return start(*args)\n"
        "supervisor.start_command = start_command\n"
    )
    recorder = cctrace.start("record", "-o", "t.parquet", "--", "sleep", "60")
    assert _finish(recorder)[0] == -signal.SIGINT


def test_a_signal_to_the_sentinel_is_not_taken_for_a_later_one(cctrace, eventually) -> None:
    """As when somebody signals all children of the recorder."""
    recorder, program = _start_server(cctrace, eventually)
    sentinel = _sentinel(recorder.pid, program)
    os.kill(sentinel, signal.SIGTERM)
    assert eventually(lambda: not _running(sentinel)), "replaced"
    os.kill(recorder.pid, signal.SIGTERM)
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == ["SIGTERM"]


def test_a_sentinel_that_was_killed_is_replaced(cctrace, eventually) -> None:
    recorder, program = _start_server(cctrace, eventually, program=("--linger", "1"))
    sentinel = _sentinel(recorder.pid, program)
    os.kill(sentinel, signal.SIGKILL)
    assert eventually(lambda: _group(recorder.pid) - {recorder.pid, program, sentinel})
    os.killpg(recorder.pid, signal.SIGINT)
    code, said = _finish(recorder)
    assert code == 0, said
    assert _signals(cctrace) == ["SIGINT"]


def test_two_signals_are_two(cctrace, eventually) -> None:
    recorder, _ = _start_server(cctrace, eventually, program=("--linger", "1.5"))
    for count in (1, 2):
        os.killpg(recorder.pid, signal.SIGINT)
        assert eventually(lambda count=count: len(_signals(cctrace)) == count)
        time.sleep(0.3)
    assert _finish(recorder)[0] == 0
    assert _signals(cctrace) == ["SIGINT", "SIGINT"]


def test_user_signals_do_not_end_anything(cctrace, eventually) -> None:
    recorder, _ = _start_server(cctrace, eventually)
    for expected, number in enumerate((signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1), start=1):
        os.kill(recorder.pid, number)
        assert eventually(lambda count=expected: len(_signals(cctrace)) == count)
    os.killpg(recorder.pid, signal.SIGUSR2)
    assert eventually(lambda: len(_signals(cctrace)) == 4)
    os.kill(recorder.pid, signal.SIGTERM)
    assert _finish(recorder)[0] == 0
    assert _signals(cctrace) == ["SIGUSR1", "SIGUSR2", "SIGUSR1", "SIGUSR2", "SIGTERM"]


def test_a_signal_that_the_program_sends_its_parent_does_not_come_back(cctrace) -> None:
    done = cctrace.record(
        program=("--signal-parent", str(int(signal.SIGTERM)), "--serve", "1", "--log", "signals.txt")
    )
    assert done.returncode == 0, done.stderr
    assert _signals(cctrace) == []


def _in_terminal(cctrace, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """Starts the command line as the foreground of a new terminal. Returns it and the terminal."""
    terminal, its_side = pty.openpty()
    become_foreground = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "os.execv(sys.executable, sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", become_foreground, *cctrace.argv(*arguments)],
        cwd=cctrace.folder,
        env={**cctrace.environment, "TERM": "xterm"},
        stdin=its_side,
        stdout=its_side,
        stderr=its_side,
    )
    os.close(its_side)
    cctrace.processes.append(process)
    return process, terminal


def _read_to_the_end(terminal: int, timeout_s: float = 40.0) -> str:
    seen = b""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(terminal)
    return seen.decode("utf-8", "replace")


def test_ctrl_c_ends_the_program_and_still_writes_the_trace(cctrace, eventually) -> None:
    ready = cctrace.folder / "server.pid"
    program = (
        "--serve",
        "60",
        "--ready",
        str(ready),
        "--log",
        str(cctrace.folder / "signals.txt"),
        "--linger",
        "0.5",
    )
    process, terminal = _in_terminal(cctrace, *cctrace.record_arguments(program=program))
    assert eventually(ready.exists)
    os.write(terminal, b"\x03")
    screen = _read_to_the_end(terminal)
    assert process.wait(timeout=30) == 0, screen
    assert _signals(cctrace) == ["SIGINT"]
    assert open_trace(cctrace.trace).num_rows > 0
    assert "1 process" in screen


def test_ctrl_c_on_a_program_that_dies_of_it(cctrace, eventually) -> None:
    ready = cctrace.folder / "server.pid"
    script = f"echo $$ > {ready}; exec sleep 60"
    process, terminal = _in_terminal(cctrace, "record", "-o", "t.parquet", "--", "sh", "-c", script)
    assert eventually(ready.exists)
    os.write(terminal, b"\x03")
    screen = _read_to_the_end(terminal)
    assert process.wait(timeout=30) == -signal.SIGINT, screen
    assert open_trace(cctrace.trace).metadata.recording.exit_signal == signal.SIGINT


def test_ctrl_c_while_the_trace_is_written_leaves_the_spool(cctrace, eventually, monkeypatch) -> None:
    # A conversion that lasts: the package is replaced by one that waits.
    slow = cctrace.folder / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import sys, types\n"
        "if 'cctrace.cli' in ' '.join(sys.orig_argv):\n"
        "    module = types.ModuleType('cctrace.collectors.spool')\n"
        "    def convert(*args, **kwargs):\n"
        "        import time\n"
        "        open('converting', 'w').close()\n"
        "        time.sleep(60)\n"
        "    module.convert = convert\n"
        "    sys.modules['cctrace.collectors.spool'] = module\n"
    )
    path = os.pathsep.join(filter(None, [str(slow), cctrace.environment.get("PYTHONPATH")]))
    plain = dict(cctrace.environment)
    cctrace.environment["PYTHONPATH"] = path
    recorder = cctrace.start_record()
    assert eventually((cctrace.folder / "converting").exists)
    os.kill(recorder.pid, signal.SIGINT)
    code, said = _finish(recorder)
    assert code == -signal.SIGINT
    (spool,) = cctrace.spools()
    assert f"cctrace recover {spool}" in said
    assert not cctrace.trace.exists()
    cctrace.environment = plain
    recovered = cctrace.run("recover", str(spool))
    assert recovered.returncode == 0, recovered.stderr
    assert open_trace(cctrace.trace).metadata.recording.exit_code == 0


MAX_LOST_S = 2.0
"""What a kill may cost: the second that is promised, and one more for a busy machine."""


def _rows_reach_to(trace: Path, killed_ns: int) -> None:
    """The program had run longer than `MAX_LOST_S` when it was killed."""
    starts = open_trace(trace).table(["start_ns"]).column("start_ns").to_numpy()
    assert starts.min() < killed_ns - MAX_LOST_S * 1e9, "the program ran too short for this to tell anything"
    assert starts.max() > killed_ns - MAX_LOST_S * 1e9


def test_kill_the_program(cctrace, eventually) -> None:
    recorder, program = _start_server(cctrace, eventually)
    time.sleep(MAX_LOST_S + 0.5)
    killed_ns = time.monotonic_ns()
    os.kill(program, signal.SIGKILL)
    code, said = _finish(recorder)
    assert code == -signal.SIGKILL, said
    _rows_reach_to(cctrace.trace, killed_ns)


def test_kill_the_recorder(cctrace, eventually) -> None:
    recorder, program = _start_server(cctrace, eventually, stdout=None, stderr=None)
    time.sleep(0.2)
    os.kill(recorder.pid, signal.SIGKILL)
    assert recorder.wait() == -signal.SIGKILL
    time.sleep(0.2)
    assert _running(program), "the program must not notice"
    assert _signals(cctrace) == []
    (spool,) = cctrace.spools()
    early = cctrace.run("recover", str(spool), "-o", "early.parquet", "--json")
    assert early.returncode == 0, early.stderr
    assert f'"still_running": [\n    {program}\n  ]' in early.stdout
    assert spool.exists(), "a spool that is still written must stay"
    os.kill(program, signal.SIGTERM)
    assert eventually(lambda: not _running(program))
    late = cctrace.run("recover", str(spool))
    assert late.returncode == 0, late.stderr
    assert not spool.exists()
    before, after = open_trace(cctrace.folder / "early.parquet"), open_trace(cctrace.trace)
    assert 0 < before.num_rows < after.num_rows
    assert after.metadata.recording.exit_code is None
    assert after.metadata.recording.command[-2:] == ("--log", str(cctrace.folder / "signals.txt"))


def test_kill_both(cctrace, eventually) -> None:
    recorder, program = _start_server(cctrace, eventually)
    time.sleep(MAX_LOST_S + 0.5)
    killed_ns = time.monotonic_ns()
    os.killpg(os.getpgid(recorder.pid), signal.SIGKILL)
    _finish(recorder)
    assert eventually(lambda: not _running(program))
    (spool,) = cctrace.spools()
    done = cctrace.run("recover", str(spool))
    assert done.returncode == 0, done.stderr
    _rows_reach_to(cctrace.trace, killed_ns)


def test_nothing_of_the_recorder_stays_when_it_is_killed(cctrace, eventually) -> None:
    recorder, program = _start_server(cctrace, eventually, stdout=None, stderr=None)
    assert len(_group(recorder.pid)) == 3, "recorder, program, sentinel"
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.wait()
    assert eventually(lambda: _group(recorder.pid) == {program})
    os.kill(program, signal.SIGTERM)


def test_a_recorded_child_that_outlives_the_command_gets_a_grace(cctrace) -> None:
    begin = time.monotonic()
    done = cctrace.record(program=("--leave-child", "1.5"))
    assert done.returncode == 0
    assert time.monotonic() - begin > 1.5
    trace = open_trace(cctrace.trace)
    assert len(trace.metadata.collector.processes) == 2
    assert cctrace.spools() == []


def test_a_recorded_child_that_stays_does_not_hold_the_trace_up(cctrace, eventually) -> None:
    cctrace.set_limit("cctrace.collectors.record.supervisor", "GRACE_S", 2.0)
    said = cctrace.folder / "said.txt"
    with said.open("w") as file:  # a pipe would stay open as long as the child runs
        recorder = cctrace.start_record(program=("--leave-child", "100"), stdout=None, stderr=file)
        assert recorder.wait(timeout=40) == 0
    assert open_trace(cctrace.trace).num_rows > 10
    (spool,) = cctrace.spools()
    assert "still run after the command has ended" in said.read_text()
    assert re.search(rf"cctrace recover {re.escape(str(spool))} -o \S+t\.parquet --force", said.read_text())
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", said.read_text())]
    assert [_running(pid) for pid in pids] == [True]
    os.kill(pids[0], signal.SIGKILL)
    assert eventually(lambda: not _running(pids[0]))
    rows = open_trace(cctrace.trace).num_rows
    assert cctrace.run("recover", str(spool), "-o", "t.parquet", "--force").returncode == 0
    assert open_trace(cctrace.trace).num_rows > rows


def test_orphans_are_waited_for_as_their_parent_would(cctrace) -> None:
    """A recorder that adopts processes must not leave zombies, nor take their end for that of the command."""
    zombies = 'cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z $PPID "'
    script = f"(sh -c 'sleep 0.2 & sleep 0.3 &'); (sh -c '(sleep 0.1; exit 9) &'); sleep 1; {zombies}; exit 5"
    done = cctrace.run("record", "-o", "t.parquet", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (5, "0\n")


def test_a_parent_that_ignores_its_children_costs_no_exit_code(cctrace) -> None:
    done = cctrace.start_record(
        program=("--exit", "7"), preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    )
    assert _finish(done)[0] == 7


def test_stop_and_continue(cctrace, eventually) -> None:
    """As Ctrl-Z and `fg` do it: everybody in the group stops, and goes on."""
    recorder, program = _start_server(cctrace, eventually)

    def state(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    os.killpg(recorder.pid, signal.SIGSTOP)
    assert eventually(lambda: {state(recorder.pid), state(program)} == {"T"})
    os.killpg(recorder.pid, signal.SIGCONT)
    assert eventually(lambda: "T" not in {state(recorder.pid), state(program)})
    os.kill(recorder.pid, signal.SIGTERM)
    assert _finish(recorder)[0] == 0
    assert _signals(cctrace) == ["SIGTERM"]
