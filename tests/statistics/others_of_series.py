"""Change points by Otava and ruptures, for `rates_of_series`: run by a Python that has them; etq's need not.

Reads lists of series (logarithms) by name from stdin as JSON; writes the places of changes by method, name and series.
"""

import json
import sys

import numpy as np
import ruptures  # type: ignore[import-not-found]
from otava.analysis import compute_change_points  # type: ignore[import-not-found]


def by_otava(values: list[float]) -> list[int]:
    times = np.exp(np.array(values) - np.median(values))
    return [int(each.index) for each in compute_change_points(list(times), max_pvalue=0.001, min_magnitude=0.03)[0]]


def by_ruptures(values: list[float]) -> list[int]:
    noise = 1.4826 * np.median(np.abs(np.diff(values))) / np.sqrt(2) + 1e-9
    fitted = ruptures.Pelt(model="l2", min_size=5, jump=1).fit(np.array(values) / noise)
    return [int(each) for each in fitted.predict(pen=3 * np.log(len(values)))[:-1]]


given = json.load(sys.stdin)
methods = {"Otava": by_otava, "ruptures": by_ruptures}
found = {
    method: {name: [of(values) for values in series] for name, series in given.items()}
    for method, of in methods.items()
}
json.dump(found, sys.stdout)
