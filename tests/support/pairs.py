"""Pairs of synthetic recordings with known tolls, and their comparison."""

from dataclasses import replace

from trace_builder import Built, Costs, Load, Tolls, build

from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.diff import Diff, compare
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.marks import marks_from
from cctrace.trace import Acceptance, Metadata
from cctrace.trace.acceptance import Security

# The published eager step: 181 kernels, 3.45 µs to submit one, about 12 µs more with CC.
EAGER = Load(
    layers=36,
    kernels_per_layer=5,
    sampling_kernels=1,
    input_copies=1,
    host_us=200.0,
    gap_us=8.0,
    steps=60,
    costs=Costs(kernel=3.45, gpu_kernel=3.0),
)
TOLL = 12.25
LAUNCH = Tolls(kernel=TOLL, graph=TOLL, copy=TOLL, memset=TOLL, event=TOLL)


def recording(built: Built, name: str, metadata: Metadata) -> Recording:
    table = built.table
    return Recording(name, metadata, calls_from(table), marks_from(table), gpu_rows_from(table))


def secure(cc_mode: str | None) -> Metadata:
    return Metadata(acceptance=Acceptance(security=Security(cc_mode=cc_mode)))


def diff_of(
    off: Load, on: Load, on_metadata: Metadata | None = None, off_metadata: Metadata | None = None
) -> Diff:
    return compare(
        recording(build(replace(on, seed=on.seed + 1)), "on", on_metadata or secure("on")),
        recording(build(off), "off", off_metadata or secure("off")),
    )
