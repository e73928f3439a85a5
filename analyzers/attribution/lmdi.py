"""The split of a mean over step classes: other steps, or slower steps?

A mean step is T = Σ p_k t_k, with p_k the part of the steps that are of class k. A slower server also
schedules other steps: more prefills between the decodes, smaller batches. The logarithmic mean Divisia
index splits the difference of two such sums exactly, without remainder:

    T_on − T_off = Σ w_k ln(p_on / p_off) + Σ w_k ln(t_on / t_off),   w_k = L(p_on t_on, p_off t_off)

with the logarithmic mean L(a, b) = (a − b) / ln(a / b). The first sum is the schedule mix, the second what
the replay then splits by cause. (B. W. Ang, The LMDI approach to decomposition analysis, Energy Policy 33,
2005.)
"""

from __future__ import annotations

import numpy as np

from cctrace.analyzers.columns import FloatArray


def logarithmic_mean(first: FloatArray, second: FloatArray) -> FloatArray:
    """L(a, b) of positive numbers; a where both are equal."""
    equal = np.isclose(first, second, rtol=1e-9, atol=0.0)
    ratio = np.where(equal, np.e, first / second)
    return np.asarray(np.where(equal, first, (first - second) / np.log(ratio)), np.float64)


def mix_and_time(
    off_part: FloatArray, on_part: FloatArray, off_time: FloatArray, on_time: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Effect of the mix and effect of the times, by class; all of them add up to the difference.

    Args:
        off_part: part of the steps of each class in the off arm, above 0.
        on_part: the same in the on arm.
        off_time: mean step of each class in the off arm, above 0.
        on_time: the same in the on arm.
    """
    weight = logarithmic_mean(on_part * on_time, off_part * off_time)
    return weight * np.log(on_part / off_part), weight * np.log(on_time / off_time)
