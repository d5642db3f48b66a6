"""One capture a side: its difference, relative to those of successive captures of the same program, the history.

Heavy tails are usual there: a p-value would need an unknown distribution. A difference is rare if it is larger than 8
of the item's standard deviations and 1.5 times its greatest in the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from etq.verdicts.samples import Numbers, Samples, Texts, median
from etq.verdicts.states import States


@dataclass(frozen=True)
class History:
    """How much an item differs between successive captures: its standard deviation, and the most of these."""

    captures: int
    deviation: float
    worst: float


@dataclass
class Single:
    """The difference of one item that both captures have, and what the history shows of it, if it has the item."""

    difference: float  # of logarithms
    share: float | None  # of base's total
    resolution: float
    is_below_twice: bool  # the clock's resolution
    is_disturbed: bool  # one of both captures
    history: History
    is_shared: bool = False  # other ops differ as much: the machine may be the reason

    @property
    def history_captures(self) -> int:
        return self.history.captures

    @property
    def change(self) -> float:
        """The ratio of new to base, less 1."""
        return float(np.exp(self.difference) - 1)

    @property
    def score(self) -> float:
        """The difference in standard deviations."""
        return float(abs(self.difference) / np.sqrt(2) / self.history.deviation)

    @property
    def worst_step(self) -> float:
        """The greatest difference of two successive captures of the history, as a logarithm."""
        return float(np.sqrt(2) * self.history.worst)

    @property
    def is_rare(self) -> bool:
        return self.score > 8 and self.score > 1.5 * self.history.worst / self.history.deviation


def singles(samples: Samples, states: States) -> dict[int, Single]:
    """Return the difference of each item that the history has, too, by its row."""
    [base], [new] = np.flatnonzero(samples.is_base), np.flatnonzero(samples.is_new)
    is_total = samples.of_level("total")
    values = samples.logs - np.where(is_total[:, None], 0, states.factors)
    totals = {samples.scopes[row]: samples.ticks[row, base] for row in np.flatnonzero(is_total)}
    histories = _histories(samples, states, values)
    has = np.isfinite(samples.ticks)
    is_in_history = has[:, ~(samples.is_base | samples.is_new)].any(axis=1)
    found: dict[int, Single] = {}
    for row in np.flatnonzero(has[:, base] & has[:, new] & is_in_history).tolist():
        ticks, total = samples.ticks[row], totals.get(samples.scopes[row])
        resolution = float(max(samples.resolutions[row, [base, new]]))
        is_coarse = samples.is_coarse[row, [base, new]].any()
        found[row] = Single(
            float(values[row, new] - values[row, base]),
            float(ticks[base] / total) if total else None,
            resolution,
            bool(is_coarse and abs(ticks[new] - ticks[base]) < 2 * resolution),
            bool(states.is_disturbed[[base, new]].any()),
            histories.get(row, History(0, np.nan, np.nan)),
        )
    _find_shared(found, samples.levels)
    return found


def _find_shared(found: Mapping[int, Single], levels: Texts) -> None:
    """Find which differences other ops have, too.

    Either an op differed by two thirds of it in the history: one of 1 % of the total or more, for smaller items one of
    0.1 to 1 %. Or two other ops have a rare difference now, and this one is below a factor of 2: an op may be slower
    for a whole capture, and others with it.
    """
    of_ops = [single for row, single in found.items() if levels[row] == "op"]
    worst: dict[bool, float] = {}
    for single in of_ops:
        if single.share is not None and single.share >= 0.001:
            is_large = single.share >= 0.01
            worst[is_large] = float(np.fmax(worst.get(is_large, np.nan), single.history.worst))
    rare_ops = sum(single.is_rare for single in of_ops)
    for row, single in found.items():
        if levels[row] != "total":
            of_size = np.nan if single.share is None else worst.get(single.share >= 0.01, np.nan)
            single.is_shared = bool(single.score <= 1.5 * of_size / single.history.deviation)
            if levels[row] == "op" and single.is_rare and abs(single.difference) < np.log(2) and rare_ops >= 3:
                single.is_shared = True


def _histories(samples: Samples, states: States, values: Numbers) -> dict[int, History]:
    """Return the history of each item by its row.

    Standard deviations are shrunk towards the median item's, and at least 0.3 %. Disturbed captures are left out, but
    not for totals: a total is judged by how often whole captures are disturbed.
    """
    of_history = ~(samples.is_base | samples.is_new)
    in_time = np.lexsort((np.arange(len(samples.sides)), samples.positions))
    raw: dict[int, History] = {}
    precise: dict[str, list[float]] = {}
    for row, level in enumerate(samples.levels):
        used = of_history & np.isfinite(samples.ticks[row]) & ((level == "total") | ~states.is_disturbed)
        if not used.any():
            continue
        deviation, worst = _usual_differences(values[row, in_time[used[in_time]]])
        raw[row] = History(int(used.sum()), deviation, worst)
        if level != "total" and 2 * samples.is_coarse[row, used].sum() < used.sum():
            precise.setdefault(level, []).append(deviation)
    typical = {level: median(each) for level, each in precise.items()}
    histories = {}
    for row, each in raw.items():
        weight = 0.4 * (each.captures + 1)
        usual = typical.get(samples.levels[row], each.deviation)
        shrunk = np.sqrt((3 * usual**2 + weight * each.deviation**2) / (3 + weight))
        histories[row] = replace(each, deviation=float(np.fmax(0.003, shrunk)))
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
