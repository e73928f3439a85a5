from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import turns
from scripts import load_script

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "overhead.py"

PROGRAM = """
import json, os, sys, time
# Stands in for a program: its time depends on its arm and notes whose turn it was.
here, behaviour = sys.argv[1], sys.argv[2]
arm = os.environ.get("ARM") or ("profiled" if "--profiler" in sys.argv else "bare")
assert "--on-demand" in sys.argv
print("starting {not json")
if behaviour == "silent":
    time.sleep(60)
print(json.dumps({"ready": True}), flush=True)
for _ in sys.stdin:
    with open(here + "/turns", "a") as turns:
        turns.write(f"{arm} {os.getpid()} {sorted(os.sched_getaffinity(0))}\\n")
    if behaviour == "dies" and arm == "recorded":
        sys.exit("no more memory")
    print("a log line", flush=True)
    slow = {"bare": 100.0, "recorded": 103.0, "profiled": 171.0}[arm]
    print(json.dumps({"median_step_us": slow, "same": 7}), flush=True)
sys.exit(4 if behaviour == "bad end" else 0)
"""

RECORDER = r"""#!/usr/bin/env bash
# Stands in for `cctrace`: notes its arguments, leaves a trace, runs the command.
echo "$*" >>"$HERE/calls"
touch "$3"
while [[ $1 != -- ]]; do shift; done
shift
ARM=recorded "$@"
"""


overhead = load_script(SCRIPT)


def run(tmp_path: Path, *options: str, behaviour: str = "") -> subprocess.CompletedProcess[str]:
    program, recorder = tmp_path / "program.py", tmp_path / "recorder"
    program.write_text(PROGRAM)
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    (tmp_path / "traces").mkdir()
    return subprocess.run(
        [
            *(sys.executable, str(SCRIPT), "--field", "median_step_us", "--cctrace", str(recorder)),
            *("--folder", str(tmp_path / "traces"), "--output", str(tmp_path / "result.json"), *options),
            *("--", sys.executable, str(program), str(tmp_path), behaviour),
        ],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "HERE": str(tmp_path)},
    )  # fmt: skip


def test_arms_take_turns_and_are_compared(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    done = run(
        tmp_path, "--processes", "3", "--rounds", "2", "--profiler", "--batch", "6", "--field", "same",
        "--cpus", str(cpu), "--record-options=--gpu stamps",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    fields = json.loads((tmp_path / "result.json").read_text())["fields"]
    step = fields["median_step_us"]["arms"]
    assert step["recorded"]["ratio"] == pytest.approx(1.03)
    assert step["recorded"]["verdict"] == "+3.00%"
    assert step["profiled"]["verdict"] == "+71.00%"
    assert step["bare"] == {"median": 100.0, "processes": [100.0] * 3}
    assert fields["same"]["arms"]["recorded"]["verdict"] == overhead.INSIDE
    assert "+3.00%" in done.stdout
    turns = [line.split(" ", 2) for line in (tmp_path / "turns").read_text().splitlines()]
    assert len(turns) == 3 * 3 * 2
    for at in range(0, len(turns), 3):
        assert {arm for arm, *_ in turns[at : at + 3]} == {"bare", "recorded", "profiled"}
    assert len({pid for _, pid, _ in turns}) == 9
    assert {cpus for *_, cpus in turns} == {f"[{cpu}]"}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 3
    assert all("--force --gpu stamps -- " in call for call in calls)
    assert list((tmp_path / "traces").iterdir()) == []


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("dies", "recorded process 0: it ended"),
        ("bad end", "process 0: exit code 4"),
        ("silent", "no answer within 3 s"),
    ],
)
def test_program_that_fails_is_named_and_nothing_is_left(
    tmp_path: Path, behaviour: str, message: str
) -> None:
    done = run(tmp_path, "--processes", "1", "--rounds", "1", "--timeout", "3", behaviour=behaviour)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert ("no more memory" in done.stderr) == (behaviour == "dies")
    assert list((tmp_path / "traces").iterdir()) == []
    assert not (tmp_path / "result.json").exists()


def test_field_that_the_program_lacks_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--processes", "1", "--rounds", "1", "--timeout", "3", "--field", "tpot")
    assert done.returncode == 2
    assert "process 0: its result has no number tpot, only median_step_us, same" in done.stderr


def test_recorder_that_does_not_exist_ends_in_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, "--processes", "1", "--cctrace", str(tmp_path / "absent"))
    assert done.returncode == 2
    assert done.stderr.startswith("overhead: cannot start")


@pytest.mark.parametrize("words", [["--cpus", "4095"], ["--processes", "0"], ["--output", str(SCRIPT)]])
def test_options_that_cannot_be_used_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        overhead.arguments(["--field", "x", *words, "--", "program"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("processes", "arms", "batch", "sizes"),
    [(5, 2, 4, [2, 2, 1]), (5, 3, 4, [1] * 5), (2, 2, 1, [1, 1]), (3, 2, 100, [3])],
)
def test_batches_hold_equally_many_of_each_arm(
    processes: int, arms: int, batch: int, sizes: list[int]
) -> None:
    found = turns.batches(processes, arms, batch)
    assert [len(indices) for indices in found] == sizes
    assert [index for indices in found for index in indices] == list(range(processes))


def test_order_repeats_with_the_seed_and_differs_between_seeds() -> None:
    programs: list[Any] = [
        SimpleNamespace(arm=arm, index=i) for i in range(4) for arm in ("bare", "recorded")
    ]

    def drawn(seed: int) -> list[tuple[str, int]]:
        return [(p.arm, p.index) for p in turns.order(programs, 5, random.Random(seed))]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert {arm for arm, _ in drawn(1)[::2]} == {"bare", "recorded"}
    assert all(drawn(1).count((p.arm, p.index)) == 5 for p in programs)


def test_process_counts_once_with_the_median_of_its_rounds() -> None:
    result = overhead.compare({"bare": [[9, 10, 90], [12]], "recorded": [[11, 1, 50], [11]]})
    assert result["bare_spread"] == [10, 12]
    assert result["arms"]["recorded"]["processes"] == [11, 11]
    assert result["arms"]["recorded"]["verdict"] == overhead.INSIDE
    faster = overhead.compare({"bare": [[10], [12]], "recorded": [[9.9], [9.9]]})
    assert faster["arms"]["recorded"]["verdict"] == "-10.00%"
