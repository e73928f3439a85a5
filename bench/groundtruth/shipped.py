#!/usr/bin/env python3
"""The launch toll that was charged to the shipped emulated traces, and what `cctrace diff` finds of it.

  bench/groundtruth/shipped.py [FOLDER]      Markdown; default: sample_traces

Charged: submissions of the scheduler's thread in a decode step × their toll, for traces whose program marks
its steps. Found: the sum that diff's calls cost more (`raw_toll_us`) and the share of launch in the growth of
the step; what lies between the two is hidden behind other work.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cctrace.analyzers.attribution.engine import attribute
from cctrace.analyzers.loading import load
from cctrace.trace import open_trace
from groundtruth.recordings import observe

SAMPLES: Final = Path(__file__).resolve().parents[2] / "sample_traces"
ON: Final = "-emulated"
HEAD: Final = ("pair", "off µs", "growth µs", "charged µs", "found µs", "error, % of off", "launch µs",
               "overlap µs", "pcie µs", "host µs", "GPU µs", "model error µs")  # fmt: skip


def row(on_path: Path) -> list[str]:
    """One pair: what was charged per decode step, and what the attribution says."""
    name = on_path.stem.removesuffix(ON)
    off = load(open_trace(on_path.with_name(f"{name}-off.parquet")))
    whole = attribute(load(open_trace(on_path)), off)
    part = whole.phases.decode or whole
    numbers = [name, f"{part.off_step_us:.0f}", f"{part.delta_us:.0f}"]
    if part.shares is None or part.residual is None:
        return [*numbers, *(["–"] * 8), "; ".join(part.refused_because)]
    seen = observe(on_path)
    charged = sum(seen["per_step"].get(operation, 0) * toll for operation, toll in seen["tolls_us"].items())
    found, shares, rest = part.shares.launch.raw_toll_us, part.shares, part.residual
    error = f"{100 * (found - charged) / part.off_step_us:+.1f}" if charged and found is not None else "–"
    values = (shares.launch.share_us, shares.overlap.share_us, shares.pcie.share_us,
              rest.host_us, rest.gpu_us, rest.model_error_us)  # fmt: skip
    told = ["–" if value is None else f"{value:.0f}" for value in values]
    return [
        *numbers,
        f"{charged:.0f}" if charged else "–",
        "–" if found is None else f"{found:.0f}",
        error,
        *told,
    ]


def main(folder: Path) -> int:
    """Prints the table."""
    lines = [list(HEAD), ["---"] * len(HEAD)]
    lines += [row(path) for path in sorted(folder.glob(f"*{ON}.parquet"))]
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES))
