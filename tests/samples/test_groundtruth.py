"""The verification suite without a GPU: its table of scenarios, its arithmetic, its reading of recordings."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")

import launch_bench
import serve
from charged_trace import ROWS, row, write_trace
from groundtruth import expectations, measuring, recordings, scenarios, table
from groundtruth.scenarios import MATRIX, SCENARIOS, ZERO, Scenario

from cctrace.profiles.emulation import parse_emulation

# --- the table of scenarios


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_programs_know_their_options(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    script, *words = scenario.program
    assert (measuring.SAMPLES / script).exists()
    monkeypatch.setattr(sys, "argv", [script, *words, "--on-demand"])
    parsed = (launch_bench if script == "launch_bench.py" else serve).arguments()
    if script == "serve.py":
        assert parsed.tp == scenario.gpus
        assert parsed.input_len + parsed.output_len <= parsed.max_len


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_arms_can_be_compared_and_have_what_the_checks_need(scenario: Scenario) -> None:
    assert ZERO in scenario.arms
    assert set(scenario.keep) <= set(scenario.arms)
    needed = {"launch": "launch", "graph-ratio": "launch", "overlap": "overlap", "worker": "overlap",
              "nvlink": "nvlink", "zero": "plain"}  # fmt: skip
    for check in scenario.checks:
        assert check in expectations.RULES
        assert needed[check] in scenario.arms
    assert (scenario.host_share is not None) == bool({"overlap", "worker"} & set(scenario.checks))


def test_names_are_unique_and_judged_ones_come_first() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert {s.name for s in SCENARIOS[: len(scenarios.JUDGED)]} == {s.name for s in scenarios.JUDGED}


def test_server_runs_in_every_way_with_every_combination_of_causes() -> None:
    ways = Counter(s.program[s.program.index("--execution") + 1] for s in scenarios.SERVERS)
    assert ways == {"eager": 3, "graph": 3, "piecewise": 3}
    assert all(s.arms == MATRIX for s in (*scenarios.SERVERS, *scenarios.BENCHES))
    sets = {frozenset(arm.split("+")) for arm in scenarios.ONE_GPU}
    assert len(sets) == 2**3 - 1


@pytest.mark.parametrize("arm", sorted({arm for s in SCENARIOS for arm in s.arms} - {"bare", "plain"}))
def test_recorder_knows_what_an_arm_charges(arm: str) -> None:
    (option,) = scenarios.record_options(arm)
    emulation = parse_emulation(option.removeprefix("--emulate="))
    assert arm == ZERO or set(emulation.causes) == set(arm.split("+"))
    values = emulation.to_json()["values"]
    assert any(recordings.costs(v) for k, v in values.items() if not k.endswith("_factor")) == (arm != ZERO)


def test_arm_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="causes are launch"):
        scenarios.record_options("launch+wifi")
    assert scenarios.record_options("plain") == ()


# --- recordings


TABLES = {"h2d_us": "64:1/128:2", "d2h_us": "64:1"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"kernel_us": 12.25, "copy_us": 12.25, "event_us": 0.0}, {"launch": 7}),
        ({"kernel_us": 12.25, "event_us": 1.0}, {"launch": 2}),
        (TABLES, {"pcie": 3}),
        ({**TABLES, "host_alloc_us": "1:40"}, {"pcie": 4}),
        ({"overlap": 1.0}, {"overlap": 1}),
        ({"kernel_us": 0.0, "h2d_us": "1:0", "collective_factor": 1.0}, {}),
    ],
)
def test_rows_that_a_cause_applies_to(
    tmp_path: Path, values: dict[str, Any], expected: dict[str, int]
) -> None:
    write_trace(tmp_path / "t.parquet", ROWS, values, {"launch": {"count": 1, "sum_ns": 5}})
    found = recordings.observe(tmp_path / "t.parquet")
    assert found["counts"] == expected
    assert found["injected"]["launch"] == {"count": 1, "sum_ns": 5}


def test_recording_without_emulation_has_no_truth(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.parquet", ROWS, {}, None)
    found = recordings.observe(tmp_path / "t.parquet")
    assert (found["values"], found["injected"], found["counts"]) == ({}, {}, {})
    assert found["per_step"] == {}


def test_submissions_per_step_are_those_of_the_scheduler_in_its_commonest_step(tmp_path: Path) -> None:
    rows = []
    for number in range(5):
        begin = 1000 * number
        rows.append(row("step", None, begin, duration_ns=900, step=number, step_class="decode bs=16"))
        rows += [row("submit", "kernel", begin + 100 * i) for i in range(1, 4)]
        rows.append(row("submit", "copy", begin + 500, tid=8, lane=1))  # another thread
        rows.append(row("submit", "kernel", begin + 950))  # between steps
    rows.append(row("step", None, 9000, duration_ns=900, step=9, step_class="prefill bs=16"))
    rows += [row("submit", "kernel", 9000 + i) for i in range(1, 100)]
    write_trace(tmp_path / "t.parquet", rows, {"kernel_us": 12.0}, {})
    found = recordings.observe(tmp_path / "t.parquet")
    assert found["per_step"] == {"kernel": 3.0}
    assert found["steps"] == 5
    assert found["submissions"] == {"kernel": 119, "copy": 5}


# --- expectations


def recording(count: int, each_ns: float = 12_250.0, rows: int | None = None) -> dict[str, Any]:
    return {
        "values": {"kernel_us": 12.25},
        "injected": {"launch": {"count": count, "sum_ns": round(count * each_ns)}},
        "counts": {"launch": count if rows is None else rows},
        "tolls_us": {"kernel": 12.25, "copy": 0.0},
        "submissions": {"kernel": count, "copy": 50},
        "per_step": {"kernel": 181.0, "copy": 3.0},
        "steps": 100,
    }


def result(
    arms: Mapping[str, Sequence[Mapping[str, float]]], checks: Sequence[str], **more: Any
) -> dict[str, Any]:
    """A result whose rounds all have the same values; `idle` steps under the field `idle`."""
    step = next(name for name in next(iter(arms.values()))[0] if name.startswith("median_step"))
    found: dict[str, Any] = {
        "scenario": {"name": "x", "step": step, "checks": list(checks), "fields": [], **more},
        "machine": {"gpus": ["H200"], "driver": "580"},
        "date": "2026-12-01",
        "arms": {},
    }
    for arm, processes in arms.items():
        found["arms"][arm] = [
            {
                "rounds": {"work": {k: [v, v, v] for k, v in p.items()},
                           "idle": {step: [p.get("idle", 0.0)] * 3}},
                "recording": recording(18_100) if "launch" in arm else None,
            }
            for p in processes
        ]  # fmt: skip
    return found


def steps(*values: float) -> list[dict[str, float]]:
    return [{"median_step_us": value} for value in values]


@pytest.mark.parametrize(
    ("growth", "passed"), [(2217.0, True), (2280.0, True), (2300.0, False), (2100.0, False)]
)
def test_host_bound_growth_is_submissions_times_toll(growth: float, passed: bool) -> None:
    base = (800.0, 900.0, 1500.0)
    found = result({ZERO: steps(*base), "launch": steps(*(b + growth for b in base))}, ["launch"])
    check = expectations.checks_of(found)[0]
    assert check.expected == pytest.approx(181 * 12.25)
    assert check.values == pytest.approx([growth] * 3)
    assert check.passed is passed


def test_expected_growth_is_what_was_injected_not_what_was_asked_for() -> None:
    assert expectations.launch_cost(recording(1000, 12_500.0)) == pytest.approx(181 * 12.5)
    assert expectations.launch_cost({**recording(1000), "per_step": {}}) is None
    assert expectations.launch_cost({**recording(1000), "injected": {}}) is None


def test_growth_is_in_the_unit_of_the_step() -> None:
    found = result({ZERO: [{"median_step_ms": 5.0}], "launch": [{"median_step_ms": 7.2}]}, ["launch"])
    check = expectations.checks_of(found)[0]
    assert (check.expected, check.unit, check.passed) == (pytest.approx(2.21725), "ms", True)


@pytest.mark.parametrize(("ratio", "passed"), [(1.0356, True), (1.05, True), (1.06, False), (1.01, False)])
def test_graph_step_grows_as_published(ratio: float, passed: bool) -> None:
    found = result({ZERO: steps(2500.0), "launch": steps(2500.0 * ratio)}, ["graph-ratio"])
    assert expectations.checks_of(found)[0].passed is passed


def served(step: float, host: float = 1.0, idle: float = 2.0) -> list[dict[str, float]]:
    one = {"median_step_ms": step, "median_host_ms": host, "idle": idle, "output_throughput": 16e3 / step}
    return [one, one, one]


def test_lost_overlap_turns_the_longer_into_the_sum() -> None:
    found = result({ZERO: served(2.0), "overlap": served(3.05)}, ["overlap"])
    before, after, loss = expectations.checks_of(found)
    assert (before.expected, after.expected) == (2.0, 3.0)
    assert "H = 0.50 G" in before.what
    assert loss.measured == pytest.approx(100 - 200 / 3.05)
    assert [c.passed for c in (before, after, loss)] == [True, True, True]
    missed = expectations.checks_of(result({ZERO: served(2.1), "overlap": served(2.2)}, ["overlap"]))
    assert [c.passed for c in missed] == [False, False, False]


@pytest.mark.parametrize(("step", "passed"), [(2.0, True), (2.05, True), (2.1, False)])
def test_worker_hides_the_lost_overlap(step: float, passed: bool) -> None:
    found = result({ZERO: served(2.0), "overlap": served(step)}, ["worker"])
    assert expectations.checks_of(found)[0].passed is passed


@pytest.mark.parametrize(
    ("plain", "zero", "passed"),
    [
        ((10, 11, 12, 13), (11, 11, 12, 40), True),
        ((10, 11, 12, 13), (13.5, 14, 14, 15), False),
        ((10, 11, 12), (13, 13, 13), None),
    ],
)
def test_zero_tolls_cannot_be_told_from_none(plain: Any, zero: Any, passed: bool | None) -> None:
    found = result({"plain": steps(*plain), ZERO: steps(*zero)}, ["zero"])
    assert expectations.checks_of(found)[0].passed is passed


def test_permutations_are_counted_exactly() -> None:
    assert expectations.permutation_p([1, 2, 3, 4], [5, 6, 7, 8]) == 2 / 70
    assert expectations.permutation_p([1, 2], [1, 2]) == 1


def test_slow_rounds_of_the_host_do_not_hide_the_toll() -> None:
    found = result({ZERO: steps(900, 900), "launch": steps(3117, 3117)}, ["launch"])
    for process in found["arms"]["launch"]:
        process["rounds"]["work"]["median_step_us"] = [3900, 3117, 3800]
    by_median, by_fastest = expectations.checks_of(found)[:2]
    assert (by_median.passed, by_fastest.passed) == (False, True)
    assert by_fastest.measured == pytest.approx(2217)


def test_nvlink_growth_is_set_beside_what_was_injected_into_a_step() -> None:
    one = {"median_step_ms": 1.0, "collectives_per_step": 24.0}
    found = result({ZERO: [one], "nvlink": [{**one, "median_step_ms": 1.08}]}, ["nvlink"])
    truth = {"injected": {"nvlink": {"count": 2400, "sum_ns": 2400 * 3000}}, "counts": {}}
    found["arms"]["nvlink"][0]["recording"] = truth
    check = expectations.checks_of(found)[0]
    assert (check.expected, check.measured) == (pytest.approx(0.072), pytest.approx(0.08))
    assert check.passed is None


def test_counts_must_be_equal_in_every_process() -> None:
    found = result({ZERO: steps(1, 1), "launch": steps(2, 2)}, [])
    (check,) = expectations.checks_of(found)
    assert (check.passed, check.expected, check.measured) == (True, 36_200, 36_200)
    found["arms"]["launch"][0]["recording"] = recording(100, rows=101)
    found["arms"]["launch"][1]["recording"] = recording(100, rows=99)
    (check,) = expectations.checks_of(found)
    assert check.passed is False
    found["arms"]["launch"][0]["recording"]["counts"] = {}
    (check,) = expectations.checks_of(found)
    assert check.passed is None


@pytest.mark.parametrize(("gpu", "host", "expected"), [(2000, 300, 700), (2000, 1200, 0)])
def test_host_work_fills_up_to_the_share(gpu: float, host: float, expected: int) -> None:
    assert measuring.host_work_us(gpu, host, 0.5) == expected


# --- the tables


def test_tables_name_the_missed_bar() -> None:
    good = result({ZERO: steps(900, 910, 920), "launch": steps(3117, 3127, 3137)}, ["launch"])
    good["scenario"]["name"] = "launch-host-bound"
    bad = result({"plain": steps(10, 11, 12, 12), ZERO: steps(13, 13, 13, 13)}, ["zero"])
    bad["scenario"]["name"] = "zero-host-bound"
    text = table.tables([good, bad])
    assert "| launch: growth of the step = submissions × toll | 2217 µs | 2217 µs (2217 to 2217)" in text
    assert "| ± 3 % | yes |" in text
    assert "| p ≥ 5 % | **no** |" in text
    assert "1 of 1 comparisons of arm and cause are exact (54,300 charged rows)" in text
    assert "launch 18,100 × 12.25 µs" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
