"""One colour per cause, the same in the terminal and in charts; distinguishable with colour-blind eyes.

The colours are Okabe and Ito's. Meaning is never carried by colour alone.
"""

from __future__ import annotations

from typing import Final

CAUSE_COLOURS: Final = {
    "launch": "#0072B2",
    "pcie": "#E69F00",
    "overlap": "#D55E00",
    "nvlink": "#009E73",
    "residual": "#999999",
}
"""Cause → colour, for every output."""

STEP_COLOUR: Final = "#8a94a0"
"""A whole step, and whatever stands for no cause; light enough for dark pages, dark enough for light ones."""
ARM_COLOURS: Final = {"on": "#CC79A7", "off": "#3D9AD4", "one": "#3D9AD4"}
"""Arm → colour: the two hues of Okabe and Ito's that no cause has, the blue darker, for white pages."""

_GPU: Final = "#66727F"
_MEMORY: Final = "#8C7AA9"
TONE_COLOURS: Final = {
    **{cause: CAUSE_COLOURS[cause] for cause in ("launch", "pcie", "overlap", "nvlink")},
    **dict.fromkeys(("gpu-kernel", "gpu-graph", "gpu-memset"), _GPU),
    "gpu-copy": CAUSE_COLOURS["pcie"],
    **dict.fromkeys(("alloc", "capture"), _MEMORY),
}
"""Tone of a row on the timeline → colour: that of the cause it counts for, a dark grey for work of the GPU, a
violet for memory and capture. All other tones have STEP_COLOUR; labels tell them apart."""

WARNING_COLOUR: Final = "#E69F00"
HEADING_STYLE: Final = "bold"
FAINT_STYLE: Final = "dim"
