"""Attributions made by hand, and reports of them: numbers that add up, for what combines and shows them."""

from dataclasses import replace
from functools import cache
from typing import Any

from pairs import EAGER, LAUNCH, diff_of

from cctrace.analyzers.attribution.result import (
    Attribution,
    Breakdown,
    CauseShare,
    ClassBreakdown,
    Comparability,
    ModelCheck,
    Phases,
    Residual,
    Shares,
    Site,
)
from cctrace.analyzers.comparability import ArmsCompared, KernelDifferences
from cctrace.analyzers.diff import Diff
from cctrace.analyzers.findings import Finding, Findings, Saving
from cctrace.analyzers.report.assembly import ComparedPair, assembled
from cctrace.analyzers.report.document import Report

STEP_US = 4169.0
SITE = Site(
    cause="overlap",
    thread="scheduler 4200",
    category="copy d2h",
    position=17,
    offset_us=310.0,
    calls_per_step=1.0,
    bytes=128,
    off_us=6.0,
    on_us=2006.0,
    saved_if_removed_us=2040.0,
)


def share(us: float, off_us: float = STEP_US, *, hidden: float = 0.0) -> CauseShare:
    return CauseShare(
        share_us=us,
        share_pct_of_off=100 * us / off_us,
        alone_us=0.9 * us,
        saved_if_removed_us=1.1 * us,
        raw_toll_us=us + hidden,
        hidden_us=hidden,
        ci_us=None,
    )


def breakdown(
    *,
    launch: float = 31.0,
    pcie: float = 6.0,
    overlap: float = 2019.0,
    nvlink: float | None = 0.0,
    host: float = -9.0,
    gpu: float = 3.0,
    off_us: float = STEP_US,
    **values: Any,
) -> Breakdown:
    """A breakdown whose parts add up to the difference."""
    delta = launch + pcie + overlap + (nvlink or 0.0) + host + gpu
    shares = Shares(
        launch=share(launch, off_us, hidden=79.0),
        pcie=share(pcie, off_us),
        overlap=share(overlap, off_us),
        nvlink=None if nvlink is None else share(nvlink, off_us),
        nvlink_unknown_because="no arm has GPU rows" if nvlink is None else None,
    )
    residual = Residual(
        total_us=host + gpu,
        total_pct_of_off=100 * (host + gpu) / off_us,
        host_us=host,
        gpu_us=gpu,
        gpu_holds_nvlink=nvlink is None,
        schedule_mix_us=0.0,
        model_error_us=0.0,
        host_ci_us=None,
        gpu_ci_us=None,
        total_ci_us=None,
    )
    made = Breakdown(
        name="all steps",
        off_step_us=off_us,
        on_step_us=off_us + delta,
        delta_us=delta,
        delta_pct_of_off=100 * delta / off_us,
        delta_ci_us=None,
        denominator="the off arm's mean step",
        off_steps=100,
        on_steps=98,
        off_weight=1.0,
        on_weight=1.0,
        shares=shares,
        residual=residual,
        model=ModelCheck(
            off_replayed_us=off_us,
            on_replayed_us=off_us + delta + 4.0,
            off_error_us=0.0,
            on_error_us=4.0,
            worst_pct_of_off=400 / off_us,
        ),
        refused_because=(),
        notes=(),
    )
    return replace(made, **values)


def refused(one: Breakdown, because: str) -> dict[str, Any]:
    """What a breakdown without shares has in their place."""
    return {"shares": None, "residual": None, "refused_because": (because,)}


def attribution(whole: Breakdown | None = None, **values: Any) -> Attribution:
    """An attribution of one class of decode steps."""
    whole = breakdown() if whole is None else whole
    one_class = ClassBreakdown(
        **{**vars(whole), "name": "decode bs=16"},
        phase="decode",
        off_class="decode bs=16",
        on_class="decode bs=16",
        sites=(SITE,),
    )
    fields: dict[str, Any] = {
        "format_version": 1,
        "headline": "",
        "pairs": 1,
        "kind_of_input": "kernels",
        "verdict": None,
        "verdict_because": None,
        "ci_kind": None,
        "comparability": (),
        "labels": (),
        "phases": Phases(
            decode=replace(whole, name="decode"), prefill=None, mixed=None, other=None, unknown=None
        ),
        "classes": (one_class,),
        "not_compared": (),
    }
    return Attribution(**vars(whole), **{**fields, **values})


@cache
def calls() -> Diff:
    load = replace(EAGER, steps=20)
    return diff_of(load, replace(load, tolls=LAUNCH))


def finding(**values: Any) -> Finding:
    saving = Saving(kind="replay", low_us=2040.0, high_us=2040.0, pct_of_step=32.8, basis="the replay")
    fields: dict[str, Any] = {
        "rule": "blocking-read-back",
        "title": "The read-back blocks the scheduler",
        "kind": "cost",
        "state": "measured",
        "cause": "overlap",
        "steps": "decode bs=16",
        "phase": "decode",
        "step_us": 6218.0,
        "share_of_run": 0.3,
        "evidence": (),
        "remedy": "copy tokens on a thread of their own",
        "known_from": (),
        "saving": saving,
    }
    return Finding(**{**fields, **values})


def findings(*found: Finding) -> Findings:
    return Findings(
        format_version=1,
        headline="",
        examined=calls().on.provenance,
        compared_with=calls().off.provenance,
        findings=found,
        checked=(),
        notes=(),
    )


def pair(number: int, one: Attribution) -> ComparedPair:
    paths = (f"off{number}.parquet", f"on{number}.parquet")
    return ComparedPair(*paths, one, calls(), None, findings(finding()))


def arms(*items: Comparability) -> ArmsCompared:
    """Two arms that differ in nothing but these."""
    kernels = KernelDifferences(known=True, only_off=(), only_on=(), common=3)
    return ArmsCompared(items=items, equal_fields=40, unknown_fields=("software.openssl",), kernels=kernels)


def report(*several: Attribution, differences: tuple[Comparability, ...] = (), **options: Any) -> Report:
    """The document of pairs of runs with these attributions."""
    pairs = [pair(number, one) for number, one in enumerate(several, 1)]
    return assembled(pairs, arms(*differences), **options)


def differs(severity: str, name: str = "load.concurrency") -> Comparability:
    return Comparability(name=name, severity=severity, off="16", on="32", message="the loads differ")
