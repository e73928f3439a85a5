"""A discrete-event simulator of an LLM server, which writes traces whose truth is known.

Host threads are small programs (`server`), GPU streams are queues (`machine`), and every cost belongs to one
cause (`costs`), so that any set of causes can be switched on. It shares no code with the analysis that it
tests. `scenarios` holds the situations that an attribution must get right; `faults` spoils recordings.
"""

from simulator.costs import OFF, ON, PLAYERS, Costs, changed, mixed
from simulator.load import Load
from simulator.recorder import Recorder
from simulator.recording import SimulatedTrace
from simulator.run import Run
from simulator.simulation import Outcome, simulate
from simulator.truth import Pair, Truth, truth_of, truths_of

__all__ = [
    "OFF",
    "ON",
    "PLAYERS",
    "Costs",
    "Load",
    "Outcome",
    "Pair",
    "Recorder",
    "Run",
    "SimulatedTrace",
    "Truth",
    "changed",
    "mixed",
    "simulate",
    "truth_of",
    "truths_of",
]
