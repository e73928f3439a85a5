"""The attribution of simulated traces, and how far it is from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from cctrace.analyzers.attribution.engine import attribute
from cctrace.analyzers.attribution.result import CAUSES, Attribution, Breakdown
from cctrace.analyzers.loading import load
from cctrace.trace import open_trace
from simulator.recording import SimulatedTrace
from simulator.truth import Truth


def attributed(off: SimulatedTrace, on: SimulatedTrace, *, shuffled: bool = False) -> Attribution:
    """The attribution of two traces, by way of their files; `shuffled` has their rows in any order."""
    with TemporaryDirectory() as folder:
        paths = Path(folder, "off.parquet"), Path(folder, "on.parquet")
        for seed, (trace, path) in enumerate(zip((off, on), paths, strict=True)):
            if shuffled:
                trace.write_in_any_order(path, seed)
            else:
                trace.write(path)
        first, second = (load(open_trace(path)) for path in paths)
        return attribute(second, first)


def shares_of(result: Breakdown) -> dict[str, float]:
    """Shares by player, µs, host and GPU as found in the residual.

    Raises:
        AssertionError: the engine gives no shares.
    """
    assert result.shares is not None, result.refused_because
    assert result.residual is not None
    shares = {cause: getattr(result.shares, cause) for cause in CAUSES}
    known = {cause: share.share_us for cause, share in shares.items() if share is not None}
    return {**known, "host": result.residual.host_us, "gpu": result.residual.gpu_us}


def errors_of(found: Mapping[str, float], truth: Truth) -> dict[str, float]:
    """Found − true, µs, of every player; what is not known counts as nothing found."""
    return {player: found.get(player, 0.0) - true for player, true in truth.shares.items()}
