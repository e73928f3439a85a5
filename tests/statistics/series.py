"""Step times with known statistics."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def autoregressive(
    random: np.random.Generator, steps: int, memory: float, *, mean: float = 4000.0, spread: float = 0.01
) -> FloatArray:
    """AR(1) step times: each depends on the one before it; `spread` is a part of the mean."""
    shocks = random.normal(0.0, 1.0, steps)
    level = shocks[0]
    levels = [level]
    for shock in shocks[1:]:
        level = memory * level + (1 - memory**2) ** 0.5 * shock
        levels.append(level)
    return mean * (1 + spread * np.array(levels))
