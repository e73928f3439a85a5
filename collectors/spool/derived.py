"""Fields of the acceptance table that a recorder cannot know while the program runs, but the rows tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.collectors.environment.variables import visible_gpus
from cctrace.trace.metadata import Metadata

UTILIZATION: Final = "gpu_utilization_percent"
"""The counter whose mean is `results.utilization`."""

_PCI_ORDER: Final = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


class RowWatch:
    """Looks at the tables of a trace while they are written.

    Attributes:
        first_step_ns: begin of the first marked step, ns CLOCK_MONOTONIC; None: there is none.
        submitting: processes that handed work to a GPU.
        utilization: device → utilization of its samples, percent.
    """

    def __init__(self) -> None:
        self.first_step_ns: int | None = None
        self.submitting: set[int] = set()
        self.utilization: dict[int | None, list[float]] = {}

    def look(self, table: pa.Table) -> None:
        """Takes in rows of one process."""
        kinds = table.column("kind").combine_chunks()
        pid = table.column("pid")[0].as_py() if len(table) else 0
        if pid not in self.submitting and len(_rows_of(kinds, "submit")):
            self.submitting.add(pid)
        steps = _rows_of(kinds, "step")
        if len(steps):
            begin = pc.min(table.column("start_ns").take(steps)).as_py()
            self.first_step_ns = begin if self.first_step_ns is None else min(self.first_step_ns, begin)

    def look_at_counters(self, table: pa.Table) -> None:
        """Takes in the samples of one GPU."""
        names = table.column("name").combine_chunks()
        samples = table.column("value").take(_rows_of(names, UTILIZATION)).to_pylist()
        if samples:
            self.utilization.setdefault(table.column("device")[0].as_py(), []).extend(samples)


def _rows_of(words: Any, word: str) -> pa.Array:
    """Places of the rows that hold a word, in a dictionary column."""
    code = words.dictionary.index(word).as_py()
    if code < 0:
        return pa.array([], pa.int64())
    indices = words.indices
    if not indices.null_count:
        return pa.array(np.flatnonzero(indices.to_numpy(zero_copy_only=False) == code))
    return pc.indices_nonzero(pc.fill_null(pc.equal(indices, code), False))


def fill_derived(metadata: Metadata, watch: RowWatch) -> Metadata:
    """Returns the document with what the rows tell, where it holds nothing yet.

    Each value that is a measurement has its source beside it.
    """
    acceptance = metadata.acceptance
    return replace(
        metadata,
        acceptance=replace(
            acceptance,
            results=_filled(acceptance.results, "utilization", *_utilization(metadata, watch)),
            life_cycle=_filled(acceptance.life_cycle, "startup_s", *_startup(metadata, watch)),
            scale=_scale(acceptance.scale, len(watch.submitting)),
        ),
    )


def _filled(area: Any, field: str, value: float | None, source: str) -> Any:
    if value is None or getattr(area, field) is not None:
        return area
    return replace(area, **{field: value}, extra={**area.extra, f"{field}_source": source})


def _scale(scale: Any, processes: int) -> Any:
    """One recording sees one host; its ranks are the processes that handed work to a GPU."""
    if not processes:
        return scale
    return replace(
        scale,
        hosts=1 if scale.hosts is None else scale.hosts,
        ranks=processes if scale.ranks is None else scale.ranks,
    )


def _utilization(metadata: Metadata, watch: RowWatch) -> tuple[float | None, str]:
    """Mean over the samples of the GPUs that the program could use, and where it comes from."""
    wanted = _nvml_devices(metadata)
    used = {
        device: samples
        for device, samples in watch.utilization.items()
        if wanted is None or device is None or device in wanted
    }
    samples = [sample for device in used.values() for sample in device]
    if not samples:
        return None, ""
    gpus = f"{len(used)} GPU{'' if len(used) == 1 else 's'}"
    return round(float(np.mean(samples)), 2), f"NVML, mean of {len(samples)} samples of {gpus}"


def _nvml_devices(metadata: Metadata) -> set[int] | None:
    """NVML's numbers of the GPUs that the program could use; None: all, or which ones is not known.

    CUDA counts unlike GPUs by speed, NVML by PCI address: then numbers tell nothing, unless CUDA was told to
    do the same.
    """
    variables: Mapping[str, str] = metadata.environment_variables
    hardware = metadata.acceptance.hardware
    alike = "," not in (hardware.gpu_model or "")
    if hardware.gpus is None or not (alike or variables.get(_PCI_ORDER[0]) == _PCI_ORDER[1]):
        return None
    visible = visible_gpus(variables, hardware.gpus)
    if visible is None or not all(name.isdigit() for name in visible):
        return None
    return {int(name) for name in visible}


def _startup(metadata: Metadata, watch: RowWatch) -> tuple[float | None, str]:
    """From the start of the command to the first marked step; not known if recording began later."""
    recording = metadata.recording
    if watch.first_step_ns is None or (recording.window or {}).get("delay_s"):
        return None, ""
    starts = [p.image_start_ns for p in metadata.collector.processes if p.image_start_ns is not None]
    begin = recording.start_ns if recording.start_ns is not None else min(starts, default=None)
    if begin is None or begin > watch.first_step_ns:
        return None, ""
    return round((watch.first_step_ns - begin) / 1e9, 3), "start of the command to its first marked step"
