"""From replayed classes to numbers: shares, counterfactuals, residual, and whether they may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cctrace.analyzers.attribution.lmdi import logarithmic_mean, mix_and_time
from cctrace.analyzers.attribution.result import (
    CAUSES,
    PLAYERS,
    Breakdown,
    CauseShare,
    ModelCheck,
    Residual,
    Shares,
)
from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.sentences import percent, plural

MAX_MODEL_ERROR: Final = 0.02
"""A replay that misses a measured step by more than this part of the off arm's step explains nothing."""
DENOMINATOR: Final = "mean off step of these steps"
MANY_UNRESOLVED: Final = 0.2
"""At the begin of each passage some events are recorded before what was read; more than this is a recording
that does not tell which event a synchronization waits for."""
FEW_STEPS: Final = 10
"""Means of fewer steps than this are worth a note."""


@dataclass(frozen=True, eq=False)
class ClassEffects:
    """What the replay of one class says; all µs per step.

    Attributes:
        off_count: steady steps of the class in the off arm.
        on_count: the same in the on arm.
        compared: steps that were replayed and count.
        off_step: measured mean of them in the off arm.
        on_step: the same in the on arm.
        off_replayed: replayed mean with every player as in the off arm.
        on_replayed: replayed mean with every player as in the on arm.
        share: Shapley value of each player.
        alone: effect of each player alone.
        saved: what is saved by removing each player alone.
        raw: raw toll of each player.
        recorder: how much longer recording made a step of the off and of the on arm; taken off `off_step` and
            `on_step`.
        quarantined: GPU rows with impossible times that were left out.
        unresolved: part of the synchronizations with events whose record is not known; 0–1.
    """

    off_count: int
    on_count: int
    compared: int
    off_step: float
    on_step: float
    off_replayed: float
    on_replayed: float
    share: FloatArray
    alone: FloatArray
    saved: FloatArray
    raw: FloatArray
    recorder: tuple[float, float] = (0.0, 0.0)
    quarantined: int = 0
    unresolved: float = 0.0


@dataclass(frozen=True)
class Knowledge:
    """What could be told apart at all.

    Attributes:
        nvlink_unknown_because: why collectives cannot be told from other GPU work; None if they can.
        refused_because: reasons against any shares that hold for all classes.
        notes: what was assumed.
    """

    nvlink_unknown_because: str | None
    refused_because: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def breakdown_values(
    name: str, classes: Sequence[ClassEffects], whole: tuple[int, int], knowledge: Knowledge
) -> dict[str, Any]:
    """The fields of a `Breakdown` of some classes together.

    Args:
        name: what they are.
        classes: the classes; at least one.
        whole: all compared steps of the off and of the on arm.
        knowledge: what could be told apart.
    """
    off_count = np.array([one.off_count for one in classes], np.float64)
    on_count = np.array([one.on_count for one in classes], np.float64)
    off_part, on_part = off_count / off_count.sum(), on_count / on_count.sum()
    off_step, on_step = _column(classes, "off_step"), _column(classes, "on_step")
    off_us, on_us = float(off_part @ off_step), float(on_part @ on_step)
    model = _model(classes, off_part, on_part, off_us, on_us)
    refused = (*knowledge.refused_because, *_refusal(model))
    shares = residual = None
    if not refused:
        shares, residual = _split(classes, off_part, on_part, off_us, knowledge)
    return {
        "name": name,
        "off_step_us": off_us,
        "on_step_us": on_us,
        "delta_us": on_us - off_us,
        "delta_pct_of_off": 100 * (on_us - off_us) / off_us,
        "delta_ci_us": None,
        "denominator": DENOMINATOR,
        "off_steps": int(off_count.sum()),
        "on_steps": int(on_count.sum()),
        "off_weight": float(off_count.sum() / max(whole[0], 1)),
        "on_weight": float(on_count.sum() / max(whole[1], 1)),
        "shares": shares,
        "residual": residual,
        "model": model,
        "refused_because": refused,
        "notes": (*knowledge.notes, *_notes(classes)),
    }


def refused_values(name: str, steps: tuple[float, float], reasons: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a `Breakdown` of steps that were not replayed: their means in both arms, and why."""
    return {
        "name": name,
        "off_step_us": steps[0],
        "on_step_us": steps[1],
        "delta_us": steps[1] - steps[0],
        "delta_pct_of_off": 100 * (steps[1] - steps[0]) / steps[0],
        "delta_ci_us": None,
        "denominator": DENOMINATOR,
        "off_steps": 0,
        "on_steps": 0,
        "off_weight": 0.0,
        "on_weight": 0.0,
        "shares": None,
        "residual": None,
        "model": None,
        "refused_because": reasons,
        "notes": (),
    }


def breakdown(
    name: str, classes: Sequence[ClassEffects], whole: tuple[int, int], knowledge: Knowledge
) -> Breakdown:
    """Some classes together as one breakdown; arguments as in `breakdown_values`."""
    return Breakdown(**breakdown_values(name, classes, whole, knowledge))


def _column(classes: Sequence[ClassEffects], name: str) -> FloatArray:
    return np.array([getattr(one, name) for one in classes], np.float64)


def _model(
    classes: Sequence[ClassEffects], off_part: FloatArray, on_part: FloatArray, off_us: float, on_us: float
) -> ModelCheck:
    off_replayed = float(off_part @ _column(classes, "off_replayed"))
    on_replayed = float(on_part @ _column(classes, "on_replayed"))
    off_error, on_error = off_replayed - off_us, on_replayed - on_us
    return ModelCheck(
        off_replayed_us=off_replayed,
        on_replayed_us=on_replayed,
        off_error_us=off_error,
        on_error_us=on_error,
        worst_pct_of_off=100 * max(abs(off_error), abs(on_error)) / off_us,
    )


def _refusal(model: ModelCheck) -> tuple[str, ...]:
    if model.worst_pct_of_off <= 100 * MAX_MODEL_ERROR:
        return ()
    arm, error = max((("off", model.off_error_us), ("on", model.on_error_us)), key=lambda item: abs(item[1]))
    direction = "shorter" if error < 0 else "longer"
    return (
        f"the replay of the {arm} arm gives steps that are {abs(error):.0f} µs {direction} than the "
        f"recorded ones ({model.worst_pct_of_off:.1f} % of the off step; at most "
        f"{100 * MAX_MODEL_ERROR:.0f} % is allowed)",
    )


def _notes(classes: Sequence[ClassEffects]) -> tuple[str, ...]:
    found = []
    compared = sum(one.compared for one in classes)
    if compared < FEW_STEPS:
        found.append(f"only {plural(compared, 'pair')} of steps could be compared")
    off_us, on_us = (max(one.recorder[arm] for one in classes) for arm in (0, 1))
    if max(off_us, on_us) > 0:
        found.append(
            f"recording made a step up to {off_us:.0f} µs (off) and {on_us:.0f} µs (on) longer, "
            "which is taken off"
        )
    quarantined = max(one.quarantined for one in classes)
    if quarantined:
        found.append(f"{plural(quarantined, 'GPU row')} with impossible times left out")
    unresolved = max(one.unresolved for one in classes)
    if unresolved > MANY_UNRESOLVED:
        found.append(
            f"{percent(unresolved)} of the synchronizations with events refer to none whose record is known; "
            "what they wait for is missing in the replay"
        )
    return tuple(found)


def _split(
    classes: Sequence[ClassEffects],
    off_part: FloatArray,
    on_part: FloatArray,
    off_us: float,
    knowledge: Knowledge,
) -> tuple[Shares, Residual]:
    off_step, on_step = _column(classes, "off_step"), _column(classes, "on_step")
    mix, _ = mix_and_time(off_part, on_part, off_step, on_step)
    # The time effect of a class is shared out as the replay shares out the difference of its steps.
    weight = logarithmic_mean(on_part * on_step, off_part * off_step) / logarithmic_mean(on_step, off_step)
    share = weight @ _column(classes, "share")
    raw = weight @ _column(classes, "raw")
    alone = off_part @ _column(classes, "alone")
    saved = on_part @ _column(classes, "saved")
    replayed = _column(classes, "on_replayed") - _column(classes, "off_replayed")
    model_error = float(weight @ (on_step - off_step - replayed))
    value = dict(zip(PLAYERS, share.tolist(), strict=True))
    shares = {
        cause: CauseShare(
            share_us=value[cause],
            share_pct_of_off=100 * value[cause] / off_us,
            alone_us=float(alone[number]),
            saved_if_removed_us=float(saved[number]),
            raw_toll_us=float(raw[number]),
            hidden_us=float(raw[number] - share[number]),
            ci_us=None,
        )
        for number, cause in enumerate(CAUSES)
    }
    merged = knowledge.nvlink_unknown_because is not None
    gpu_us = value["gpu"] + (value["nvlink"] if merged else 0.0)
    total = value["host"] + gpu_us + float(mix.sum()) + model_error
    return (
        Shares(
            launch=shares["launch"],
            pcie=shares["pcie"],
            overlap=shares["overlap"],
            nvlink=None if merged else shares["nvlink"],
            nvlink_unknown_because=knowledge.nvlink_unknown_because,
        ),
        Residual(
            total_us=total,
            total_pct_of_off=100 * total / off_us,
            host_us=value["host"],
            gpu_us=gpu_us,
            gpu_holds_nvlink=merged,
            schedule_mix_us=float(mix.sum()),
            model_error_us=model_error,
            host_ci_us=None,
            gpu_ci_us=None,
            total_ci_us=None,
        ),
    )
