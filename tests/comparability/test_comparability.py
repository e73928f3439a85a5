"""What differs between two arms, and what each difference means."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from call_program import Call, Program, graph, kernel, metadata
from trace_builder import table_of

from cctrace.analyzers.attribution.result import Comparability
from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.comparability import ArmsCompared, comparability_of, outline
from cctrace.analyzers.comparability.fields import fields_of
from cctrace.analyzers.comparability.kernels import short_name
from cctrace.analyzers.comparability.rules import IGNORED, INFORMS, RULES, rule_of
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording, load
from cctrace.analyzers.marks import marks_from
from cctrace.trace import Collector, Metadata, Process, open_trace, settable_fields
from cctrace.trace.acceptance import Hardware

SAMPLES = Path(__file__).parents[2] / "sample_traces"
EMPTY = table_of(Program([kernel(), graph()], steps=8).rows())


def recording(about: Metadata, path: str = "a", table: pa.Table = EMPTY) -> Recording:
    return Recording(path, about, calls_from(table), marks_from(table), gpu_rows_from(table))


def compared(off: Metadata | Sequence[Metadata], on: Metadata | Sequence[Metadata]) -> ArmsCompared:
    arms = [[one] if isinstance(one, Metadata) else list(one) for one in (off, on)]
    numbered = iter("abcdefghij")
    return comparability_of(*[[outline(recording(about, next(numbered))) for about in arm] for arm in arms])


def item(result: ArmsCompared, name: str, part: str = "") -> Comparability | None:
    found = [one for one in result.items if one.name == name and part in one.message]
    assert len(found) <= 1
    return found[0] if found else None


def severity(result: ArmsCompared, name: str, part: str = "") -> str | None:
    found = item(result, name, part)
    return found.severity if found else None


def known(**values: Any) -> Metadata:
    """Metadata with fields set, as `record --set` does."""
    about = metadata(None)
    for name, value in values.items():
        about = about.with_value(name.replace("__", "."), value)
    return about


ON, OFF = known(security__cc_mode="on"), known(security__cc_mode="off")


@pytest.mark.parametrize(
    ("field", "off", "on", "expected"),
    [
        ("software.driver", "595.58.03", "595.71.05", "warns"),
        ("software.frameworks", "vllm=0.26.0", "vllm=0.29.0", "warns"),
        ("software.nccl", "2.28", "2.30", "warns"),
        ("software.cc_patches", "none", "d2h-worker", "warns"),
        ("software.os", "Ubuntu 24.04", "Ubuntu 25.10", "informs"),
        ("model.name", "qwen3-8b", "qwen3-0.6b", "forbids"),
        ("model.precision", "bf16", "fp8", "forbids"),
        ("load.concurrency", "16", "32", "forbids"),
        ("load.input_len", "1024", "4096", "forbids"),
        ("load.seed", "1", "2", "warns"),
        ("parallelism.tp", "8", "4", "forbids"),
        ("scheduling.cuda_graphs", "full", "piecewise", "warns"),
        ("scheduling.readback", "overlap", "worker", "warns"),
        ("memory.offload", "none", "kv to host", "warns"),
        ("hardware.gpu_model", "NVIDIA B200", "NVIDIA B300", "forbids"),
        ("hardware.virtual_machine", "none", "kvm", "warns"),
        ("hardware.numa", "1", "2", "warns"),
        ("results.errors", "0", "12", "warns"),
        ("security.firmware", "97.10", "97.11", "warns"),
        ("security.tee", "none", "tdx", "expected"),
    ],
)
def test_a_difference_means_what_its_rule_says(field: str, off: str, on: str, expected: str) -> None:
    result = compared(OFF.with_value(field, off), ON.with_value(field, on))

    found = [one for one in result.items if one.name == field or one.name.startswith(f"{field}.")]
    assert [one.severity for one in found] == [expected]
    assert all(one.off is not None and one.on is not None for one in found)
    assert bool(result.forbidden_because) == (expected == "forbids")


@pytest.mark.parametrize(
    ("field", "off", "on"),
    [
        ("results.tpot_ms", "5.5", "8.3"),
        ("life_cycle.startup_s", "40", "1400"),
        ("label", "off", "on"),
        ("model.name", "Qwen/Qwen3-8B", "/models/Qwen3-8B/"),
        ("hardware.memory_bytes", "270334464000", "268000000000"),
    ],
)
def test_outcomes_names_and_nearly_equal_values_are_no_difference(field: str, off: str, on: str) -> None:
    result = compared(OFF.with_value(field, off), ON.with_value(field, on))

    assert item(result, field) is None


def test_equal_fields_are_only_counted() -> None:
    both = [one.with_value("model.name", "qwen3-8b") for one in (OFF, ON)]
    more = [one.with_value("software.driver", "595.71.05") for one in both]

    assert item(compared(*both), "model.name") is None
    assert compared(*more).equal_fields == compared(*both).equal_fields + 1


def test_not_known_is_not_equal() -> None:
    neither = compared(OFF, ON)
    one_arm = compared(OFF, ON.with_value("parallelism.tp", 8))

    found = item(neither, "parallelism.tp")
    assert found is not None
    assert (found.severity, found.off, found.on) == ("informs", None, None)
    assert "not known in either arm" in found.message
    assert "parallelism.tp" in neither.unknown_fields
    found = item(one_arm, "parallelism.tp")
    assert found is not None
    assert (found.severity, found.off, found.on) == ("warns", None, "8")  # it cannot forbid: it may be equal
    assert one_arm.forbidden_because == ()


def test_variables_and_packages_that_are_not_listed_are_not_set() -> None:
    off = replace(OFF, environment_variables={"NCCL_NVLS_ENABLE": "0", "OMP_NUM_THREADS": "8"})
    on = replace(ON, environment_variables={"OMP_NUM_THREADS": "8", "CCTRACE_SPOOL": "/x"})

    found = item(compared(off, on), "environment_variables.NCCL_NVLS_ENABLE")

    assert found is not None
    assert (found.severity, found.off, found.on) == ("warns", "0", "not set")
    assert "algorithms" in found.message
    assert item(compared(off, on), "environment_variables.CCTRACE_SPOOL") is None


def test_commands_are_compared_without_their_outputs() -> None:
    def started(*words: str) -> Metadata:
        return replace(OFF, recording=replace(OFF.recording, command=words))

    off = started("serve", "--result-filename", "a.json")
    same = started("serve", "--result-filename", "b.json")
    symmetric = started("serve", "--result-filename", "a.json", "--enable-symm-mem")

    assert item(compared(off, same), "recording.command") is None
    assert severity(compared(off, symmetric), "recording.command") == "warns"
    assert severity(compared(off, symmetric), "recording.symmetric_memory") == "warns"


# ---- CC states


def test_a_proper_pair_differs_in_what_it_is_about() -> None:
    result = compared(OFF, ON)

    assert severity(result, "security.cc_mode") == "expected"
    assert result.forbidden_because == ()


def test_swapped_arms_are_forbidden() -> None:
    assert "swapped" in compared(ON, OFF).forbidden_because[0]
    assert "swapped" in compared(metadata("off", emulated=["launch"]), OFF).forbidden_because[0]


@pytest.mark.parametrize(("about", "word"), [(OFF, "off"), (ON, "on")])
def test_the_same_state_in_both_arms_is_not_about_cc(about: Metadata, word: str) -> None:
    found = item(compared(about, about), "security.cc_mode")

    assert found is not None
    assert found.severity == "warns"
    assert f"CC is {word}" in found.message


def test_an_emulation_without_costs_is_no_emulation() -> None:
    def charged(count: int) -> Metadata:
        document = metadata("off", emulated=["launch"]).to_document()
        document["emulation"]["injected"] = {"launch": {"count": count, "sum_ns": 12_250 * count}}
        return Metadata.from_document(document)

    assert item(compared(charged(0), charged(9)), "security.cc_mode", "both arms") is None
    assert severity(compared(charged(9), charged(9)), "security.cc_mode", "both arms") == "warns"
    assert severity(compared(OFF, charged(0)), "security.cc_mode", "both arms") == "warns"


def test_emulation_is_said_and_twice_is_too_much() -> None:
    once = compared(OFF, metadata("off", emulated=["launch"]))
    twice = compared(OFF, metadata("on", emulated=["launch"]))

    assert severity(once, "emulation", "was emulated") == "informs"
    assert item(once, "emulation", "pays twice") is None
    assert severity(twice, "emulation", "pays twice") == "warns"


def test_devtools_is_no_production() -> None:
    result = compared(OFF, known(security__cc_mode="devtools"))

    assert severity(result, "security.cc_mode", "devtools mode") == "warns"


def test_a_recording_against_itself_is_told() -> None:
    one = outline(recording(OFF))

    assert severity(comparability_of([one], [one]), "recording") == "warns"


def test_a_recording_against_its_copy_is_told() -> None:
    begun = replace(OFF, recording=replace(OFF.recording, host="node", start_ns=100))
    other = replace(begun, recording=replace(begun.recording, start_ns=200))
    one, copy, another = (
        outline(recording(said, path)) for said, path in ((begun, "a"), (begun, "b"), (other, "c"))
    )

    found = item(comparability_of([one], [copy]), "recording")

    assert found is not None
    assert (found.severity, found.off, found.on) == ("warns", "a", "b")
    assert item(comparability_of([one], [another]), "recording") is None


# ---- recordings


def collector(**values: Any) -> Metadata:
    return replace(OFF, collector=Collector(gpu_mode="none", timing="undisturbed", **values))


def test_distorted_host_times_forbid_shares() -> None:
    distorted = replace(ON, collector=Collector(gpu_mode="nodes", timing="distorted"))

    result = compared(collector(), distorted)

    assert sum("CUPTI" in because for because in result.forbidden_because) == 1
    assert severity(result, "collector.gpu_mode") == "warns"


def test_lost_rows_warn() -> None:
    few = collector(processes=(Process(pid=1, records=100_000, lost={"full ring": 3}),))
    many = collector(processes=(Process(pid=1, records=100_000, lost={"full ring": 3000}),))

    assert item(compared(few, few), "collector.lost") is None
    assert severity(compared(few, many), "collector.lost") == "warns"


@pytest.mark.parametrize(
    ("off", "on", "expected"),
    [(85.0, 90.0, None), (85.0, 2000.0, "warns"), (None, 85.0, "warns"), (None, None, "informs")],
)
def test_the_recorders_tax_is_compared(off: float | None, on: float | None, expected: str | None) -> None:
    def taxed(tax: float | None) -> Metadata:
        return collector(processes=(Process(pid=1, records=9, tax_ns={} if tax is None else {"call": tax}),))

    assert severity(compared(taxed(off), taxed(on)), "collector.tax") == expected


def test_a_stale_gpu_is_told() -> None:
    def checked(compute_us: float, used: int = 0, clock: int = 1980) -> Metadata:
        gpu = {
            "compute": {"median_us": compute_us, "low_us": compute_us - 1},
            "launch": {"median_us": compute_us / 100},
            "sm_clock_load_mhz": clock,
            "memory_used_bytes": used,
            "temperature_c": round(compute_us) % 90,
        }
        state = {"version": 1, "findings": [], "gpus": [gpu]}
        return Metadata.from_document({**OFF.to_document(), "state_check": state})

    clean = checked(5000.0)
    alike = compared(clean, checked(5020.0))
    known = [one for one in alike.items if "state_check" in one.name and (one.off or one.on)]
    assert known == [item(alike, "state_check.gpus.0.launch.median_us")]
    stale = compared(clean, checked(5800.0, used=2 << 30, clock=1400))
    for name in ("compute.median_us", "memory_used_bytes", "sm_clock_load_mhz"):
        assert severity(stale, f"state_check.gpus.0.{name}") == "warns"
    unchecked = compared(OFF, clean)
    assert severity(unchecked, "state_check") == "warns"
    assert sum(one.name.startswith("state_check") for one in unchecked.items) == 1
    assert severity(compared(OFF, ON), "state_check") == "informs"


def several(gpus: int, *, numbered: bool = True) -> Metadata:
    """A machine with so many GPUs."""
    one = {"name": "NVIDIA B200", "vbios": "97", "pcie_width": 16, "protected_memory_bytes": 0}
    hardware = Hardware(gpus=gpus if numbered else None, gpu_details=tuple([one] * gpus))
    environment = {"start": {"gpus": [{"other_processes": 0}] * gpus}}
    return replace(
        OFF, acceptance=replace(OFF.acceptance, hardware=hardware), extra={"environment": environment}
    )


def test_another_number_of_gpus_is_one_line() -> None:
    result = compared(several(8), several(1))

    found = [one for one in result.items if one.off != one.on]
    assert [(one.name, one.severity, one.off, one.on) for one in found] == [
        ("hardware.gpus", "warns", "8", "1")
    ]
    assert not any(".1." in name for name in result.unknown_fields)


def test_another_number_of_described_gpus_is_one_line() -> None:
    result = compared([several(size, numbered=False) for size in (8, 4, 8)], several(2, numbered=False))

    found = [one for one in result.items if one.off != one.on]
    assert [(one.name, one.off, one.on) for one in found] == [("hardware.gpu_details", "8 | 4", "2")]
    assert "only the first 2 are compared" in found[0].message


def test_common_gpus_are_compared_where_one_arm_has_more() -> None:
    other = several(2)
    slower = [{**dict(gpu), "pcie_width": 8} for gpu in other.acceptance.hardware.gpu_details or ()]
    hardware = replace(other.acceptance.hardware, gpu_details=tuple(slower))

    result = compared(several(1), replace(other, acceptance=replace(other.acceptance, hardware=hardware)))

    assert severity(result, "hardware.gpu_details.0.pcie_width") == "warns"
    assert severity(result, "hardware.gpu_details.1.pcie_width") is None


# ---- kernels


def kernels(*symbols: str | None) -> pa.Table:
    calls = [Call(5.0, {**kernel().columns, "kernel": symbol}) for symbol in symbols]
    return table_of(Program(calls, steps=8).rows())


def of_kernels(off: pa.Table, on: pa.Table) -> ArmsCompared:
    return comparability_of([outline(recording(OFF, "a", off))], [outline(recording(ON, "b", on))])


def test_kernels_of_one_arm_are_shown() -> None:
    result = of_kernels(kernels("gemm_64x64", "norm"), kernels("gemm_128x64", "norm"))

    found = item(result, "kernels")
    assert found is not None
    assert found.severity == "warns"
    assert (found.off, found.on) == ("1: gemm_64x64", "1: gemm_128x64")
    assert "autotuner" in found.message
    assert (result.kernels.only_off, result.kernels.common) == (("gemm_64x64",), 1)


@pytest.mark.parametrize(
    ("off", "on", "part"),
    [
        ("ncclDevKernel_AllReduce_NVLS", "ncclDevKernel_AllReduce_RING_LL", "multicast"),
        ("two_shot_all_reduce", "one_shot_all_reduce", "algorithm of a collective"),
        # vLLM's custom all-reduce, which the arm that lacks it does by a kernel without a name of its own.
        (
            "_ZN4vllm26cross_device_reduce_1stageI6__halfLi2EEEvPNS_8RankDataE",
            "copy",
            "algorithm of a collective",
        ),
        ("deep_ep::intranode::dispatch", "copy", "algorithm of a collective"),
    ],
)
def test_another_collective_is_no_encryption(off: str, on: str, part: str) -> None:
    found = item(of_kernels(kernels(off), kernels(on)), "kernels")

    assert found is not None
    assert part in found.message


def test_the_same_and_nameless_kernels() -> None:
    assert item(of_kernels(kernels("a", "b"), kernels("b", "a")), "kernels") is None
    assert severity(of_kernels(kernels("a"), kernels(None)), "kernels") == "informs"


def test_symbols_are_readable() -> None:
    assert short_name("_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_") == "vllm::rms_norm_kernel"
    assert short_name("_Z9my_kernelPf") == "my_kernel"
    assert short_name("nvjet_sm90_tst_64x64") == "nvjet_sm90_tst_64x64"
    assert len(short_name("x" * 500)) <= 60


# ---- several runs


def test_runs_of_one_arm_must_not_differ_either() -> None:
    drivers = [OFF.with_value("software.driver", version) for version in ("595.58", "595.58", "595.71")]
    on = ON.with_value("software.driver", "595.58")

    result = compared(drivers, [on, on, on])

    within = item(result, "software.driver", "between runs of the off arm")
    assert within is not None
    assert (within.severity, within.off, within.on) == ("warns", "595.58 | 595.71", None)
    assert "c from a" in within.message
    assert severity(result, "software.driver", "differs: ") == "warns"


def test_runs_of_two_states_are_not_one_arm() -> None:
    result = compared([OFF, OFF], [ON, OFF])

    assert severity(result, "security.cc_mode", "between runs of the on arm") == "forbids"


def test_repeats_that_repeat_add_nothing() -> None:
    assert len(compared([OFF] * 5, [ON] * 5).items) == len(compared(OFF, ON).items)


def test_what_was_really_charged_may_differ_between_repeats() -> None:
    def run(nanoseconds: int) -> Metadata:
        document = metadata("off", emulated=["launch"]).to_document()
        document["emulation"]["injected"] = {"launch": {"count": 9, "sum_ns": nanoseconds}}
        return Metadata.from_document(document)

    result = compared([OFF, OFF], [run(1000), run(1100)])

    assert result.forbidden_because == ()
    assert not any("between runs" in one.message for one in result.items)


# ---- the table, and shipped pairs


def test_every_field_of_the_metadata_has_a_rule_of_its_own() -> None:
    names = [name for name in settable_fields() if name != "label"]
    everything = [*names, *fields_of(Metadata())]

    assert len(everything) > 100
    assert [name for name in everything if rule_of(name) is RULES[-1]] == []


def test_a_field_of_a_newer_recorder_is_compared_too() -> None:
    newer = Metadata.from_document({**ON.to_document(), "quantum": {"mode": "on"}})

    found = item(compared(OFF, newer), "quantum.mode")
    assert found is not None
    assert found.severity == INFORMS


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "comparability.md").read_text()
    shown = {
        line.split("|")[1].strip().strip("`"): line for line in page.splitlines() if line.startswith("| `")
    }

    words = {"forbids": "forbids shares", "warns": "warns", "informs": "informs", "expected": "expected"}
    wanted = {rule.pattern for rule in RULES if rule.severity != IGNORED}
    assert set(shown) == wanted
    for rule in RULES:
        if rule.severity != IGNORED:
            assert words[rule.severity] in shown[rule.pattern]
            assert rule.why in shown[rule.pattern]


@pytest.mark.parametrize(
    "name", ["server-graph-overlap", "server-eager-worker", "vllm-8b-full", "launch-eager"]
)
def test_shipped_pairs_can_be_compared(name: str) -> None:
    off, on = (outline(load(open_trace(SAMPLES / f"{name}-{arm}.parquet"))) for arm in ("off", "emulated"))

    result = comparability_of([off], [on])

    assert result.forbidden_because == ()
    assert {one.severity for one in result.items} <= {"informs", "expected"}
    assert result.equal_fields > 100
    assert result.kernels.known
