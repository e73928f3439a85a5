from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_traces"
# The server and the benchmarks are scripts, not part of the cctrace package.
sys.path[:0] = [str(SAMPLES), str(ROOT / "bench"), str(ROOT / "tests" / "support")]
