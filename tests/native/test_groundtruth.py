"""The verification suite reads the truth as the collector writes it: rows and charges are the same calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from groundtruth.recordings import observe
from groundtruth.scenarios import MATRIX, PLAIN, record_options

PROGRAM = """
start(); s = stream(); d = device(4096); h = pinned(4096); p = (ctypes.c_char * 4096)()
library = ctypes.CDLL(os.environ["CCTRACE_LIBRARY"])
check(cuda.cuStreamBeginCapture_v2(s, 0))
for _ in range(20): launch(s)
e = instantiate(end_capture(s)); f = function(b"sample_kernel")
for _ in range(50):
    library.cctrace_step_begin(b"decode")
    for _ in range(5): launch(s, f)
    check(cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(64), s))
    check(cuda.cuMemcpyHtoDAsync_v2(d, p, c_size_t(64), s))
    check(cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(0), s))
    check(cuda.cuMemcpyDtoDAsync_v2(d, d, c_size_t(64), s))
    check(cuda.cuGraphLaunch(e, s))
    check(cuda.cuMemcpyDtoHAsync_v2(h, d, c_size_t(4), s))
    check(cuda.cuMemcpyDtoH_v2(h, d, c_size_t(4)))
    check(cuda.cuMemsetD8Async(d, 0, c_size_t(4), s))
    check(cuda.cuStreamSynchronize(s))
    library.cctrace_step_end()
    pinned(100)
"""


@pytest.mark.parametrize("arm", MATRIX)
def test_charged_calls_are_the_rows_that_a_cause_applies_to(recorder: Any, arm: str) -> None:
    program = recorder.write_script(PROGRAM)
    trace = recorder.folder / "t.parquet"
    environment = recorder.environment()
    for name in ("LD_PRELOAD", "CCTRACE_SPOOL", "CCTRACE_GPU", "NVTX_INJECTION64_PATH"):
        environment.pop(name, None)
    command = ["-m", "cctrace", "record", "-o", str(trace), *record_options(arm), "--", sys.executable]
    done = subprocess.run(
        [sys.executable, *command, str(program)], cwd=recorder.folder, env=environment, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = observe(trace)
    truth = {cause: charged["count"] for cause, charged in found["injected"].items() if charged.get("count")}
    assert found["counts"] == truth
    assert set(truth) == (set(arm.split("+")) if arm not in (PLAIN, "zero") else set())
    assert found["per_step"] == {"kernel": 5.0, "copy": 6.0, "graph": 1.0, "memset": 1.0}
    assert found["steps"] == 50
