"""Runs one scenario: all its processes alive at once, one at work, rounds of the arms in random order."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from turns import Job, Program, alive, order

from groundtruth.recordings import observe
from groundtruth.scenarios import BARE, Scenario, record_options

SAMPLES: Final = Path(__file__).resolve().parents[2] / "sample_traces"
WORK: Final = "work"
"""The rounds that count."""
IDLE: Final = "idle"
"""The same without host work, for scenarios with a host share: a step is then the GPU's time."""
PARALLEL_PAUSE_S: Final = 2.0
"""Between the starts of programs that use several GPUs: a collective runs only while both of its processes
have their GPU, which is rare as long as many processes warm up at once."""
PROBES: Final = 2
"""Rounds without host work from which the host work is found."""


@dataclass(frozen=True)
class Setup:
    """How to run here.

    Attributes:
        python: Python that has torch.
        cctrace: command that records.
        gpu: `record --gpu`.
        work_cpus: CPUs that all programs are moved to once they are ready; None: they stay.
        keep: folder for recordings that are worth keeping; None: none are kept.
        seed: of the order.
        timeout: seconds for start, round and end.
    """

    python: str
    cctrace: tuple[str, ...]
    gpu: str = "stamps"
    work_cpus: frozenset[int] | None = None
    keep: Path | None = None
    seed: int = 0
    timeout: float = 120.0


def run(scenario: Scenario, setup: Setup) -> dict[str, Any]:
    """Measure a scenario.

    Returns:
        JSON types: `scenario`, `setup`, `machine`, `date`, `seconds` and `arms`: arm → one entry per process
        with `rounds` (variant → field → values in the order of the rounds) and `recording` (see `observe`;
        null without recorder).

    Raises:
        MeasurementError: a program failed.
    """
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="cctrace-groundtruth-"))
    try:
        jobs = [
            _job(scenario, setup, arm, index, folder)
            for index in range(scenario.processes)
            for arm in scenario.arms
        ]
        pause = PARALLEL_PAUSE_S if scenario.gpus > 1 else 0.0
        with alive(jobs, setup.timeout, pause) as programs, moved(programs, setup.work_cpus):
            rounds = _rounds(scenario, programs, random.Random(setup.seed))
        arms: dict[str, list[dict[str, Any]]] = {arm: [] for arm in scenario.arms}
        for job in jobs:
            trace = _trace(folder, job.arm, job.index)
            recording = observe(trace) if trace.exists() else None
            arms[job.arm].append({"rounds": rounds[job.arm, job.index], "recording": recording})
        if setup.keep is not None:
            _keep(scenario, folder, setup.keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "scenario": asdict(scenario),
        "setup": {"gpu": setup.gpu, "seed": setup.seed, "cpus": sorted(os.sched_getaffinity(0)),
                  "work_cpus": sorted(setup.work_cpus or ())},
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - begin, 1),
        "arms": arms,
    }  # fmt: skip


def _trace(folder: Path, arm: str, index: int) -> Path:
    return folder / f"{arm}-{index}.parquet"


def _job(scenario: Scenario, setup: Setup, arm: str, index: int, folder: Path) -> Job:
    script, *words = scenario.program
    command = [setup.python, str(SAMPLES / script), *words, "--on-demand"]
    if arm != BARE:
        trace = _trace(folder, arm, index)
        # So many recorders would disturb each other's check, and by their samples the program at work.
        own = ["--gpu", setup.gpu, "--no-state-check", "--counters-hz", "0"]
        own += ["--label", f"{scenario.name} {arm}"]
        command = [*setup.cctrace, "record", "-o", str(trace), *own, *record_options(arm), "--", *command]
    return Job(arm, index, command, folder / f"{arm}-{index}.log")


Rounds = dict[str, dict[str, list[float]]]
"""Variant → field → values."""


def _rounds(
    scenario: Scenario, programs: Sequence[Program], rng: random.Random
) -> dict[tuple[str, int], Rounds]:
    names = (scenario.step, *scenario.fields)
    variants = _variants(scenario, programs)
    found: dict[tuple[str, int], Rounds] = {
        (p.arm, p.index): {variant: {name: [] for name in names} for variant in variants} for p in programs
    }
    for program in order(programs, scenario.rounds, rng):
        for variant in rng.sample(list(variants), len(variants)):
            values = program.round(names, variants[variant])
            for name, value in zip(names, values, strict=True):
                found[program.arm, program.index][variant][name].append(value)
    return found


def _variants(scenario: Scenario, programs: Sequence[Program]) -> Mapping[str, Mapping[str, Any]]:
    """What a round changes: nothing, or the host work, so that the host has its share of the GPU's time."""
    if scenario.host_share is None:
        return {WORK: {}}
    idle = {"host_work_us": 0}
    probes = [programs[0].round([scenario.step, "median_host_ms"], idle) for _ in range(PROBES)]
    gpu, host = (statistics.median(values) * 1e3 for values in zip(*probes, strict=True))
    return {IDLE: idle, WORK: {"host_work_us": host_work_us(gpu, host, scenario.host_share)}}


def host_work_us(gpu: float, host: float, share: float) -> int:
    """What to add to `host` µs per step so that it becomes this share of the GPU's time `gpu`, µs."""
    return max(0, round(share * gpu - host))


@contextlib.contextmanager
def moved(programs: Sequence[Program], cpus: frozenset[int] | None) -> Iterator[None]:
    """Programs bound to `cpus`, and set free after: they start and write their traces on all CPUs."""
    everywhere = frozenset(os.sched_getaffinity(0))
    for program in programs:
        move(program.process.pid, cpus or everywhere)
    yield
    for program in programs:
        move(program.process.pid, everywhere)


def move(pid: int, cpus: frozenset[int]) -> None:
    """Bind a process, its threads and its descendants to `cpus`; those that end meanwhile are passed over."""
    pending = [pid]
    while pending:
        tasks = Path(f"/proc/{pending.pop()}/task")
        for task in _entries(tasks):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.sched_setaffinity(int(task.name), cpus)
                pending += [int(child) for child in (task / "children").read_text().split()]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _keep(scenario: Scenario, folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for arm in scenario.keep:
        trace = _trace(folder, arm, 0)
        if trace.exists():
            shutil.copyfile(trace, target / f"{scenario.name}-{arm}.parquet")


def machine() -> dict[str, Any]:
    """GPUs and driver, as nvidia-smi tells them; empty without it."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, check=True, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    gpus = [line.split(", ") for line in lines.splitlines()]
    return {"gpus": [gpu[0] for gpu in gpus], "driver": gpus[0][-1] if gpus else None}


def load(folder: Path) -> list[dict[str, Any]]:
    """The results of a folder, in the order of their names.

    Raises:
        ValueError: a file is no result.
    """
    results = []
    for path in sorted(folder.glob("*.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            result = None
        if not isinstance(result, dict) or not {"scenario", "arms"} <= result.keys():
            raise ValueError(f"{path} is no result of run.py")
        results.append(result)
    return results
