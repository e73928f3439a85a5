"""A program that leaves the spool of a recorded process, without a GPU and without the collector.

It honours the control page as the collector does, so that windows can be tested.
"""

import argparse
import json
import mmap
import os
import signal
import struct
import sys
import time
from pathlib import Path

RECORD = struct.Struct("<BBBBIQQQQQIIHBBi")
CONTROL = struct.Struct("@IIQQQQQQ")
CALL, STATE, TAX, HEADER, STRING = 1, 203, 204, 254, 255
KERNEL = 1
MAGIC = 0x50534343


class Spool:
    """One spool file, as the collector writes it."""

    def __init__(self, folder: str, *, marks: bool = True) -> None:
        self._marks = marks
        now = time.monotonic_ns()
        path = Path(folder) / f"{os.getpid()}-{now}.spool"
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        control = os.open(Path(folder) / "control", os.O_RDWR)
        self._control = mmap.mmap(control, 4096)
        self.put(
            HEADER,
            tid=os.getpid(),
            start=now,
            end=time.time_ns(),
            obj=os.getppid(),
            link=MAGIC,
            size=1,
            stream=now,
        )
        self.text(1, "cuLaunchKernel")

    def put(
        self, kind, *, tid=0, start=0, end=0, stream=0, size=0, obj=0, link=0, name=0, operation=0
    ) -> None:
        record = RECORD.pack(
            kind, 0, operation, 0, tid, start, end, stream, size, obj, link, name, 0xFFFF, 0, 0, 0
        )
        os.write(self._file, record)

    def text(self, number: int, text: str) -> None:
        data = text.encode()
        self.put(STRING, name=number, size=len(data))
        os.write(self._file, data.ljust(-(-len(data) // 64) * 64, b"\0"))

    def gpu_state(self, text: str) -> None:
        """What became of CUPTI."""
        self.text(2, "gpu.state")
        self.text(3, text)
        self.put(STATE, name=2, link=3)

    def call(self) -> None:
        magic, stopped, start_at, stop_at, steps, seen, limit, written = CONTROL.unpack_from(self._control, 0)
        assert magic == 0x43434354, "the control page was not ready"
        now = time.monotonic_ns()
        if stopped or now < start_at or (stop_at and now >= stop_at):
            return
        self.put(CALL, tid=os.getpid(), start=now, end=now + 3000, name=1, operation=KERNEL)
        struct.pack_into("@Q", self._control, 48, written + 64)
        seen += self._marks
        struct.pack_into("@Q", self._control, 32, seen)
        if (limit and written + 64 >= limit) or (steps and seen >= steps):
            struct.pack_into("@I", self._control, 4, 1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--die", type=int)
    parser.add_argument(
        "--serve", type=float, default=0.0, help="run so long, or until a signal asks for an end"
    )
    parser.add_argument("--linger", type=float, default=0.0, help="time that an end takes")
    parser.add_argument("--log", type=Path, help="gets a line for each signal")
    parser.add_argument("--ready", type=Path, help="written when the program serves")
    parser.add_argument("--dump-env", type=Path)
    parser.add_argument("--leave-child", type=float, help="a recorded child outlives the program by so long")
    parser.add_argument("--signal-parent", type=int)
    parser.add_argument("--no-marks", action="store_true", help="no call marks a step")
    parser.add_argument("--gpu-state", help="what became of CUPTI in this process")
    arguments, _ = parser.parse_known_args()

    if arguments.dump_env:
        arguments.dump_env.write_text(json.dumps(dict(os.environ)))
    if arguments.leave_child is not None and os.fork() == 0:
        spool = Spool(os.environ["CCTRACE_SPOOL"])
        end = time.monotonic() + arguments.leave_child
        while time.monotonic() < end:
            spool.call()
            time.sleep(0.01)
        os._exit(0)
    folder = os.environ.get("CCTRACE_SPOOL")
    spool = Spool(folder, marks=not arguments.no_marks) if folder and not arguments.no_cuda else None
    if spool is not None and arguments.gpu_state:
        spool.gpu_state(arguments.gpu_state)
    for _ in range(arguments.calls):
        if spool is not None:
            spool.call()
    if arguments.signal_parent:
        os.kill(os.getppid(), arguments.signal_parent)
    if arguments.serve:
        serve(arguments, spool)
    if arguments.die:
        os.kill(os.getpid(), arguments.die)
        time.sleep(10)
    return arguments.exit


def serve(arguments, spool) -> None:
    asked: list[int] = []

    def handler(number, _frame) -> None:
        asked.append(number)
        if arguments.log:
            with arguments.log.open("a") as file:
                file.write(f"{signal.Signals(number).name}\n")

    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(number, handler)
    if arguments.ready:
        arguments.ready.write_text(str(os.getpid()))
    end = time.monotonic() + arguments.serve
    while time.monotonic() < end and not set(asked) - {signal.SIGUSR1, signal.SIGUSR2}:
        if spool is not None:
            spool.call()
        time.sleep(0.005)
    time.sleep(arguments.linger)


if __name__ == "__main__":
    sys.exit(main())
