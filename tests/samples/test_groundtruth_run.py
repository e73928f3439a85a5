"""The verification suite as it runs, with stand-ins for the recorder and the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import turns
from groundtruth import expectations, measuring, run, table
from groundtruth.scenarios import SCENARIOS, ZERO, Scenario, smoke

FOLDER = Path(table.__file__).parent

PROGRAM = """
import json, os, sys
# Stands in for a server: a step takes the GPU 2 ms, and the host 0.2 ms and what it is told to add.
arm = os.environ.get("ARM", "")
assert "--on-demand" in sys.argv
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    host = json.loads(line).get("host_work_us", 0) / 1e3 if line.strip() else 0.0
    step = 2.2 + host if arm == "overlap" else max(2.0, 0.2 + host)
    result = {"median_step_ms": step, "median_host_ms": 0.2 + host, "output_throughput": 16e3 / step}
    print(json.dumps(result), flush=True)
"""

RECORDER = """
import os, subprocess, sys
from pathlib import Path
from charged_trace import ROWS, write_trace
# Stands in for `cctrace`: runs the command, leaves a trace with what it was asked to charge.
words = sys.argv[1:]
cut = words.index("--")
arm = next((w.partition(":")[2] or "zero" for w in words[:cut] if w.startswith("--emulate=")), "plain")
code = subprocess.run(words[cut + 1 :], env={**os.environ, "ARM": arm}).returncode
values = {"launch": {"kernel_us": 12.25}, "overlap": {"overlap": 1.0}, "zero": {"kernel_us": 0.0}}
truth = {arm: {"count": 1, "sum_ns": 12250}} if arm in ("launch", "overlap") else {}
write_trace(Path(words[words.index("-o") + 1]), ROWS, values.get(arm, {}), truth)
sys.exit(code)
"""


def call_script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FOLDER / name), *words], capture_output=True, text=True, timeout=120, check=False
    )


def stand_ins(tmp_path: Path) -> measuring.Setup:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "recorder.py").write_text(RECORDER)
    cpu = frozenset([min(os.sched_getaffinity(0))])
    cctrace = (sys.executable, str(tmp_path / "recorder.py"))
    return measuring.Setup(sys.executable, cctrace, work_cpus=cpu, keep=tmp_path / "kept", timeout=60.0)


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


@pytest.mark.usefixtures("_here")
def test_scenario_runs_and_meets_its_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = stand_ins(tmp_path)
    scenario = Scenario(
        "overlap-deep", (str(tmp_path / "program.py"),), ("bare", ZERO, "overlap"), "median_step_ms",
        ("median_host_ms", "output_throughput"), ("overlap",), seconds=1, rounds=2, host_share=0.5,
        keep=("overlap",),
    )  # fmt: skip
    launch = replace(scenario, name="launch-host-bound", arms=(ZERO, "launch"), checks=(), host_share=None)
    before = os.sched_getaffinity(0)
    assert run.run([scenario, launch], setup, tmp_path, 1.0) == []
    assert os.sched_getaffinity(0) == before
    results = measuring.load(tmp_path)
    by_name = {found["scenario"]["name"]: found for found in results}
    checks = expectations.checks_of(by_name["overlap-deep"])
    assert [check.passed for check in checks] == [True] * 4
    assert call_script("table.py", str(tmp_path)).returncode == 0
    assert (checks[0].expected, checks[1].expected) == (pytest.approx(2.0), pytest.approx(3.0))
    assert by_name["overlap-deep"]["arms"]["bare"][0]["recording"] is None
    assert len(by_name["overlap-deep"]["arms"][ZERO][1]["rounds"]["idle"]["median_step_ms"]) == 2
    assert [p.name for p in (tmp_path / "kept").iterdir()] == ["overlap-deep-overlap.parquet"]
    (count,) = expectations.checks_of(by_name["launch-host-bound"])
    assert (count.passed, count.measured) == (True, 2)
    # A second run measures nothing again.
    monkeypatch.setattr(measuring, "run", None)
    assert run.run([scenario, launch], setup, tmp_path, 1.0) == []


@pytest.mark.usefixtures("_here")
def test_scenario_that_fails_is_named_and_the_next_one_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = stand_ins(tmp_path)
    (tmp_path / "broken.py").write_text("raise SystemExit('no memory left')")
    broken = Scenario("broken", (str(tmp_path / "broken.py"),), (ZERO,), "x", (), processes=1, seconds=1)
    good = Scenario(
        "good", (str(tmp_path / "program.py"),), (ZERO,), "median_step_ms", (), processes=1, seconds=1
    )
    assert run.run([broken, good, replace(good, name="long", seconds=900)], setup, tmp_path, 1.0) == [
        "broken"
    ]
    errors = capsys.readouterr().err
    assert "broken: zero process 0: it ended" in errors
    assert "no memory left" in errors
    assert "long: no time left" in errors
    assert [path.stem for path in tmp_path.glob("*.json")] == ["good"]


def test_result_that_another_run_has_in_hand_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with run.mine(path) as first, run.mine(path) as second:
        assert (first, second) == (True, False)
    with run.mine(path) as again:
        assert again
    path.write_text("{}")
    with run.mine(path) as again:
        assert not again


def test_programs_are_moved_with_their_threads_and_children() -> None:
    cpu = min(os.sched_getaffinity(0))
    child = "import os, sys; sys.stdin.readline(); print(sorted(os.sched_getaffinity(0)), flush=True)"
    parent = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {child!r}]).returncode)"
    job = turns.Job("x", 0, [sys.executable, "-c", parent], Path(os.devnull))
    program = turns.Program.start(job, 30.0)
    children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
    while not children.read_text().strip():
        pass
    measuring.move(program.process.pid, frozenset([cpu]))
    program._say("\n")
    assert program.lines.get(timeout=30) == f"[{cpu}]\n"
    program.end()
    measuring.move(program.process.pid, frozenset([cpu]))  # it is gone: nothing happens


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--output is missing"),
        (["--output", "x", "--cpus", "4095"], "not among the CPUs"),
        (["--output", "x", "--only", "nothing*"], "no scenario for 1 GPUs is called nothing*"),
    ],
)
def test_options_that_cannot_be_used_end_in_one_line(words: list[str], message: str) -> None:
    done = call_script("run.py", *words)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]


def test_list_and_smoke_choose_from_the_table() -> None:
    listed = call_script("run.py", "--list").stdout
    assert len(listed.splitlines()) == sum(s.gpus == 1 for s in SCENARIOS)
    quick = call_script("run.py", "--list", "--smoke", "--gpus", "2").stdout
    assert quick.startswith("tp2-graph-overlap")
    assert "1 × 2 processes" in quick
    chosen = run.chosen(run.arguments(["--output", "x", "--only", "zero-*", "--processes", "7"]))
    assert [(s.name, s.processes) for s in chosen] == [("zero-graph", 7), ("zero-host-bound", 7)]


def test_quick_runs_have_the_arm_that_others_are_compared_with() -> None:
    for scenario in (s for s in SCENARIOS if s.smoke):
        quick = smoke(scenario)
        assert quick.arms == (ZERO, scenario.arms[-1])
        assert not quick.checks


def test_results_are_plain_json(tmp_path: Path) -> None:
    run.write(tmp_path / "x.json", {"scenario": {"name": "x"}, "arms": {}})
    assert json.loads((tmp_path / "x.json").read_text()) == {"scenario": {"name": "x"}, "arms": {}}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_folder_without_results_ends_in_one_line(tmp_path: Path) -> None:
    assert call_script("table.py", str(tmp_path)).stderr.startswith("table: no results in")
    (tmp_path / "x.json").write_text("[1]")
    done = call_script("table.py", str(tmp_path))
    assert (done.returncode, "is no result of run.py" in done.stderr) == (2, True)


def test_missed_bar_ends_the_table_with_exit_code_1(tmp_path: Path) -> None:
    steps = {arm: [{"rounds": {"work": {"s_us": [value]}}, "recording": None}] * 4
             for arm, value in (("plain", 10.0), (ZERO, 13.0))}  # fmt: skip
    scenario = {"name": "zero-graph", "step": "s_us", "fields": [], "checks": ["zero"]}
    run.write(tmp_path / "x.json", {"scenario": scenario, "machine": {}, "date": "2026-12-01", "arms": steps})
    done = call_script("table.py", str(tmp_path))
    assert (done.returncode, "| p ≥ 5 % | **no** |" in done.stdout) == (1, True)
