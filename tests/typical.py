"""Which runs are typical, once more and in numpy: Tukey's outer fences of the logarithms of execute times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def fences(ticks: Sequence[int]) -> tuple[float, float]:
    """The logarithms between which the runs of one event block are typical, of which the first may warm up."""
    if len(ticks) < 4:
        return -math.inf, math.inf
    lower, upper = np.quantile(np.log(np.maximum(ticks[1:], 1)), [0.25, 0.75])
    room = max(3 * (upper - lower), math.log(1.1))
    return lower - room, upper + room


def are_typical(ticks: Sequence[int]) -> list[bool]:
    """Whether each run is typical."""
    low, high = fences(ticks)
    return [low <= math.log(max(each, 1)) <= high for each in ticks]
