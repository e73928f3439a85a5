from __future__ import annotations

import sys
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
# The server is a set of scripts beside the traces, not part of the cctrace package.
sys.path.insert(0, str(SAMPLES))
