"""One capture a side: its difference in units of what successive captures of the same program differ by, the history.

Heavy tails are usual there: a p-value would be of a distribution that nobody knows. A difference is rare that is larger
than 8 of the item's standard deviations and 1.5 times its greatest in the history.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from etq.verdicts.samples import Numbers, Samples, median
from etq.verdicts.states import States


@dataclass
class Single:
    """The difference of one item that both captures have."""

    base_ticks: float
    new_ticks: float
    difference: float  # of logarithms
    share: float | None  # of base's total
    resolution: float
    is_below_twice: bool  # the clock's resolution
    is_disturbed: bool  # one of both captures
    history_captures: int = 0
    score: float = np.nan  # the difference in standard deviations
    worst_score: float = np.nan  # that of two successive captures of the history, at most
    worst_step: float = np.nan  # their difference, as a logarithm
    is_rare: bool = False
    is_shared: bool = False  # other ops differ as much: it may be the machine

    @property
    def change(self) -> float:
        """The ratio of new to base, less 1."""
        return float(np.exp(self.difference) - 1)


@dataclass(frozen=True)
class History:
    """How much an item differs between successive captures: its standard deviation, and the most of these."""

    captures: int
    deviation: float
    worst: float


def singles(samples: Samples, states: States) -> dict[tuple[str, str], Single]:
    """Return the difference of each item by its level and name."""
    base, new = samples.sides.index("base"), samples.sides.index("new")
    is_total = samples.of_level("total")
    factors = np.where(is_total[:, None], 0, states.factors)
    values = samples.logs - factors
    totals = {samples.scopes[row]: samples.ticks[row, base] for row in np.flatnonzero(is_total)}
    histories = _histories(samples, states, values)
    found: dict[tuple[str, str], Single] = {}
    for row in np.flatnonzero(np.isfinite(samples.ticks[:, [base, new]]).all(axis=1)):
        key = samples.levels[row], samples.items[row]
        ticks = samples.ticks[row]
        total = totals.get(samples.scopes[row])
        resolution = max(samples.resolutions[row, [base, new]])
        single = Single(
            float(ticks[base]),
            float(ticks[new]),
            float(values[row, new] - values[row, base]),
            float(ticks[base] / total) if total else None,
            float(resolution),
            bool(samples.is_coarse[row, [base, new]].any() and abs(ticks[new] - ticks[base]) < 2 * resolution),
            bool(states.is_disturbed[[base, new]].any()),
        )
        if key in histories:
            _compare(single, histories[key])
        found[key] = single
    _find_shared(found, histories)
    return found


def _compare(single: Single, history: History) -> None:
    single.history_captures = history.captures
    single.score = abs(single.difference) / np.sqrt(2) / history.deviation
    single.worst_score = history.worst / history.deviation
    single.worst_step = np.sqrt(2) * history.worst
    single.is_rare = bool(single.score > 8 and single.score > 1.5 * single.worst_score)


def _find_shared(found: dict[tuple[str, str], Single], histories: dict[tuple[str, str], History]) -> None:
    """Find which differences other ops have, too.

    In the history, by two thirds of the difference, any op of 1 % of the total or more, for smaller items any of 0.1 to
    1 %. Or two other ops have a rare difference now, and this one is of less than a factor of 2, as an op may be slower
    for a whole capture and others with it.
    """
    worst: dict[bool | None, float] = {}
    for (level, item), single in found.items():
        history = histories.get((level, item))
        if level == "op" and history is not None and single.share is not None and single.share >= 0.001:
            is_large = single.share >= 0.01
            worst[is_large] = float(np.fmax(worst.get(is_large, np.nan), history.worst))
    rare_ops = sum(single.is_rare for (level, _), single in found.items() if level == "op")
    for key, single in found.items():
        if key[0] == "total" or key not in histories:
            continue
        of_ops = worst.get(None if single.share is None else single.share >= 0.01, np.nan)
        single.is_shared = bool(single.score <= 1.5 * of_ops / histories[key].deviation)
        if key[0] == "op" and single.is_rare and abs(single.difference) < np.log(2) and rare_ops >= 3:
            single.is_shared = True


def _histories(samples: Samples, states: States, values: Numbers) -> dict[tuple[str, str], History]:
    """Return the history of each item by its level and name.

    Standard deviations are shrunk towards the median item's, and at least 0.3 %. Disturbed captures are left out, but
    not of totals: how often captures are disturbed as a whole is what a total is judged by.
    """
    of_history = np.array([side == "history" for side in samples.sides])
    in_time = np.lexsort((np.arange(len(samples.sides)), samples.positions))
    raw: dict[tuple[str, str], tuple[int, float, float]] = {}
    precise: dict[str, list[float]] = {}
    for row, (level, item) in enumerate(zip(samples.levels, samples.items, strict=True)):
        used = of_history & np.isfinite(samples.ticks[row]) & ((level == "total") | ~states.is_disturbed)
        if not used.any():
            continue
        deviation, worst = _usual_differences(values[row, in_time[used[in_time]]])
        raw[level, item] = int(used.sum()), deviation, worst
        if level != "total" and 2 * samples.is_coarse[row, used].sum() < used.sum():
            precise.setdefault(level, []).append(deviation)
    typical = {level: median(each) for level, each in precise.items()}
    histories = {}
    for (level, item), (captures, deviation, worst) in raw.items():
        weight = 0.4 * (captures + 1)
        shrunk = np.sqrt((3 * typical.get(level, deviation) ** 2 + weight * deviation**2) / (3 + weight))
        histories[level, item] = History(captures, float(np.fmax(0.003, shrunk)), worst)
    return histories


def _usual_differences(values: Numbers) -> tuple[float, float]:
    """The standard deviation of an item in its history, and the greatest of two successive captures.

    It is the greater of those by the median deviation and by successive differences. A change of the history's level
    that stayed is no variation: values before it are moved to the new level.
    """
    found = [(np.sqrt(k * (len(values) - k)) * abs(_shift(values, k)), k) for k in range(3, len(values) - 2)]
    if found:
        place = max(found)[1]
        shift = _shift(values, place)
        if abs(shift) > np.fmax(0.03, 6 * median(np.abs(np.diff(values)))):
            values = np.concatenate([values[:place] + shift, values[place:]])
    steps = np.abs(np.diff(values)) / np.sqrt(2)
    return float(np.fmax(median(np.abs(values - median(values))), median(steps))), float(max(steps, default=np.nan))


def _shift(values: Numbers, place: int) -> float:
    """How far the median after a place is from that before it."""
    return median(values[place:]) - median(values[:place])
