"""Whether two arms can be compared: every field of their metadata, and what their rows show.

`rules` is the table that says which differences forbid shares, which warn and which inform; `fields` reads
the metadata, `conditions` and `kernels` look at the recordings, `compare` puts the findings together.
"""

from cctrace.analyzers.comparability.compare import (
    ArmsCompared,
    comparability_of,
    metadata_comparability,
    pair_comparability,
)
from cctrace.analyzers.comparability.kernels import KernelDifferences
from cctrace.analyzers.comparability.outline import Outline, outline

__all__ = [
    "ArmsCompared",
    "KernelDifferences",
    "Outline",
    "comparability_of",
    "metadata_comparability",
    "outline",
    "pair_comparability",
]
