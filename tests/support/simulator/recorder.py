"""How a simulated recorder looks at a run, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.load import WARM_UP_STEPS


@dataclass(frozen=True)
class Recorder:
    """What is recorded.

    Attributes:
        gpu: GPU rows: of every kernel, copy and memset; one a graph replay, as stamps give them; or none.
        tax_us: what recording adds to each driver call.
        tax_inside: part of it that lies within the row of the call, 0–1; the rest comes after it.
        hand_overs: whether hand-overs between threads, and the waits for them, are rows.
        marks: whether the engine marks its steps.
        first_step: what happened before this step is not recorded, as with a recording that is started late.
        distorted: whether the recording says that its host times must not be used, as one with CUPTI does.
    """

    gpu: Literal["nodes", "stamps", "none"] = "nodes"
    tax_us: float = 0.0
    tax_inside: float = 1.0
    hand_overs: bool = True
    marks: bool = True
    first_step: int = WARM_UP_STEPS
    distorted: bool = False

    @property
    def tax_inside_us(self) -> float:
        """The part of the tax within a call's row."""
        return self.tax_us * self.tax_inside

    @property
    def tax_outside_us(self) -> float:
        """The part after it."""
        return self.tax_us * (1 - self.tax_inside)
