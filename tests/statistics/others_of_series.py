"""Change points by other methods, for `worlds_of_series`: run by a Python that has them; etq's need not.

Reads lists of series (logarithms) by name from stdin as JSON, and the methods from its arguments; writes the places of
changes by method, name and series. A change is at least 3 %.
"""

import json
import sys
from itertools import pairwise

import numpy as np
import ruptures  # type: ignore[import-not-found]
from otava.analysis import compute_change_points  # type: ignore[import-not-found]
from scipy.stats import mannwhitneyu

LEAST = np.log(1.03)


def by_otava(values: list[float]) -> list[int]:
    times = np.exp(np.array(values) - np.median(values))
    return [int(each.index) for each in compute_change_points(list(times), max_pvalue=0.001, min_magnitude=0.03)[0]]


def by_pelt(values: list[float]) -> list[int]:
    """The penalty is tuned so that white noise, asked at 28 lengths, has changes in 5 % of series."""
    noise = max(1.4826 * np.median(np.abs(np.diff(values))) / np.sqrt(2), LEAST / 6)
    fitted = ruptures.KernelCPD(kernel="linear", min_size=3, jump=1).fit(np.array(values)[:, None] / noise)
    ends = [0, *map(int, fitted.predict(pen=5 * np.log(len(values))))]
    levels = [np.median(values[first:end]) for first, end in pairwise(ends)]
    return [end for end, (one, other) in zip(ends[1:-1], pairwise(levels), strict=True) if abs(other - one) >= LEAST]


def by_ranks(values: list[float], first: int = 0) -> list[int]:
    """Split where a rank test of both parts is clearest, if p times the places is below 0.01, and each part again."""
    cuts = range(3, len(values) - 2)
    p = [mannwhitneyu(values[:cut], values[cut:], method="asymptotic").pvalue for cut in cuts]
    if not p or min(p) * len(values) >= 0.01:
        return []
    cut = cuts[int(np.argmin(p))]
    if abs(np.median(values[cut:]) - np.median(values[:cut])) < LEAST:
        return []
    return [*by_ranks(values[:cut], first), first + cut, *by_ranks(values[cut:], first + cut)]


given = json.load(sys.stdin)
methods = {"Otava": by_otava, "PELT": by_pelt, "Mann-Whitney": by_ranks}
found = {
    method: {name: [of(values) for values in series] for name, series in given.items()}
    for method, of in methods.items()
    if method in sys.argv[1:]
}
json.dump(found, sys.stdout)
