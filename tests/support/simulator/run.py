"""How one arm is run."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.costs import Costs
from simulator.load import Load
from simulator.recorder import Recorder


@dataclass(frozen=True)
class Run:
    """One arm.

    Attributes:
        load: what the server does.
        costs: what the platform costs.
        steps: decode steps.
        seed: of the noise.
        noise: spread of single operations.
        wander: spread of whole steps, AR(1).
        recorder: what is recorded, and what that costs.
    """

    load: Load = field(default_factory=Load)
    costs: Costs = field(default_factory=Costs)
    steps: int = 28
    seed: int = 1
    noise: float = 0.03
    wander: float = 0.0
    recorder: Recorder = field(default_factory=Recorder)
