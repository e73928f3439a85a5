"""The helper process in which NVML runs: a driver library may crash or hang, and a recorder must not.

It writes one JSON document a line to stdout: what NVML says at the start; then, when it is asked to end,
what it says at the end and what was sampled. It reads one JSON document a line from stdin:
`{"sample": true}` begins the counters, `{"end": [pid, …]}` ends the work (these processes do not count as
other users of the GPUs). The end of stdin without that means that the recorder is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cctrace.collectors.environment.nvml import open_nvml
from cctrace.collectors.environment.sampler import CounterSampler, sampling_report
from cctrace.collectors.environment.snapshot import read_gpus

_IGNORED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""A service manager signals each process of a unit; the counters are wanted until the program has ended."""

_GONE_LIMIT_S: Final = 2.0
"""An NVML call may take so long after the recorder is gone. An ordinary one takes milliseconds."""


def main() -> None:
    """Runs the helper; arguments: path of `counters.jsonl`, samples a second."""
    path, hz = Path(sys.argv[1]), float(sys.argv[2])
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, ValueError):  # a crash of the driver library leaves no file behind
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    answer = answers()
    threading.Thread(target=_end_with_recorder, daemon=True).start()
    requests = _Requests()
    with open_nvml() as nvml:
        answer(read_gpus(nvml))
        sampler: CounterSampler | None = None
        while True:
            request = requests.next(None if sampler is None else sampler.wait_s())
            if request is None and sampler is not None:
                sampler.sample()
            elif not request:
                return
            elif "sample" in request:
                sampler = CounterSampler(nvml, path, hz)
            elif "end" in request:
                counters = sampling_report("off", hz, 0) if sampler is None else sampler.finish()
                answer({**read_gpus(nvml, frozenset(request["end"])), "counters": counters})
                return


def answers() -> Callable[[Mapping[str, Any]], None]:
    """Returns the function that answers; nothing else, of no library, can get onto that stream."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(document: Mapping[str, Any]) -> None:
        stream.write(json.dumps(document) + "\n")
        stream.flush()

    return answer


def _end_with_recorder() -> None:
    """Ends this process when the recorder is gone, even from within a call of NVML that never returns."""
    poll = select.poll()
    poll.register(0, 0)  # no event is asked for: only the end of the other side is reported
    poll.poll()
    time.sleep(_GONE_LIMIT_S)
    os._exit(1)


class _Requests:
    """Requests from stdin."""

    def __init__(self) -> None:
        self._buffer = b""

    def next(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Returns a request, None if none comes in time, an empty one at the end of stdin."""
        while b"\n" not in self._buffer:
            if not select.select([0], [], [], timeout_s)[0]:
                return None
            read = os.read(0, 65536)
            if not read:
                return {}
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        request: dict[str, Any] = json.loads(line)
        return request
