"""The step of a clock: the time from one of its values to the next, estimated from the durations that it measured."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import as_numpy

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# The fewest ticks of a step; how many of the most frequent durations give candidates, and how many judge them.
_LEAST: Final = 8
_FREQUENT: Final = 16
_JUDGES: Final = 256
# A step that isn't a whole number of ticks must have at least this many ticks, and is judged by durations of fewer
# steps than this.
_LEAST_FITTED: Final = 12
_MOST_STEPS: Final = 1000
# The evidence, as a logarithm, that a distance reaches by chance in only one capture of 100.
_EVIDENCE: Final = float(np.log(20000))


def clocks_of(measured: pa.Table) -> list[tuple[int, str, int, int, int, float | None]]:
    """Return the rows of `capture_clocks` for clocks with the durations that they measured.

    measured  a capture_id, a clock, and the lists `ticks`, in ascending order, and `events` of `clock_step`
    """
    rows = []
    for batch in measured.to_batches():
        for key, clock, of_ticks, of_events in zip(*batch.columns, strict=True):
            ticks, events = (as_numpy(each.values, np.int64) for each in (of_ticks, of_events))
            up_to = np.cumsum(events)
            median = ticks[np.searchsorted(2 * up_to, up_to[-1])]
            zeros = events[ticks == 0].sum()
            step = clock_step(ticks, events)
            rows.append((key.as_py(), clock.as_py(), int(up_to[-1]), int(zeros), int(median), step))
    return rows


def clock_step(ticks: Ints, events: Ints) -> float | None:
    """Return the step of a clock in ticks; None if none is seen.

    ticks   the distinct durations that it measured, from 0
    events  how many events have each duration

    If the step is large enough to matter, durations are adjacent multiples of it. So the candidates are the distances
    between two of the most frequent durations, and from zero to one of them. The step is the longest candidate of at
    least 8 ticks that divides at least 90 % of the durations above zero, of which there must be five or more. By
    chance, 12.5 % are multiples of 8. A step may be a fraction of ticks, such as 41.67 ns for 24 MHz. Then durations
    are up to a tick from a multiple of the step. In this case, the step is fitted three times, each time to those
    durations for which it is certain which multiple they are. The fitted step is judged by the durations of less than
    1000 steps, which must be at least half of all durations. They must be at so many distinct multiples that a distance
    fits them by chance in only one capture of 100. A single distinct duration shows no step; durations of zero together
    count as three other distinct durations. If no step is found in this way, the step is the largest power of 1000 that
    divides 90 % of the durations, at least two distinct ones. By chance, this happens in one capture of a million.
    """
    above = ticks > 0
    has_zeros = not above.all()
    durations, numbers = ticks[above], events[above]
    order = np.lexsort((durations, -numbers))[:_JUDGES]
    if len(ticks) > 1 and len(order):
        distances = _distances(durations[order[:_FREQUENT]], has_zeros)
        judges, weights = durations[order].astype(float), numbers[order].astype(float)
        # Sorted, so that the durations in a range of multiples of a step are adjacent.
        by_size = np.argsort(judges)
        judges, weights = judges[by_size], weights[by_size]
        for tolerance, steps in ((0, distances), (1, _fitted(distances, judges))):
            seen = steps[_are_seen(steps, tolerance, judges, weights, has_zeros)]
            if len(seen):
                return float(seen.max())
    for power in (10**6, 10**3):
        multiples = durations % power == 0
        has_some = multiples.any() and int(multiples.sum()) + 3 * has_zeros >= 2
        if has_some and 10 * numbers[multiples].sum() >= 9 * numbers.sum():
            return float(power)
    return None


def _distances(frequent: Ints, has_zeros: bool) -> Floats:
    """Return the distances between frequent durations, and from each of them to zero."""
    found = np.subtract.outer(frequent, np.append(frequent, 0))
    return _distinct(found[found >= _LEAST])


def _fitted(distances: Floats, judges: Floats) -> Floats:
    """Return distances after fitting them to durations.

    The error of a step at its multiple n is n times that of the step: at first up to 2 ticks, then about 2 ticks
    divided by the largest multiple used so far.
    """
    reach = np.maximum(distances / 4, 1.5)
    steps = _fit(distances, reach, judges, None)
    reach = np.maximum(steps / 4, 1.5)
    steps = _fit(steps, reach * reach, judges, 3)
    steps = _fit(steps, np.full_like(steps, _MOST_STEPS), judges, 3)
    return _distinct(steps[steps >= _LEAST_FITTED])


def _distinct(values: npt.NDArray[Any]) -> Floats:
    """Return the distinct values, sorted. `np.unique` would import `numpy.ma`, which takes 12 ms of a command."""
    ordered: Floats = np.sort(values.astype(float))
    distinct: Floats = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return distinct


def _fit(steps: Floats, reach: Floats, judges: Floats, tolerance: int | None) -> Floats:
    """Return the steps that best fit the durations from half a step up to `reach` steps.

    A duration fits if its distance from a multiple is at most `tolerance` ticks. If that is None, the tolerance is one
    tick, plus two for each step. Steps that no duration fits are left out.
    """
    step = steps[:, None]
    nearest = np.floor(judges / step + 0.5)
    allowed = 1 + 2 * nearest if tolerance is None else tolerance
    fits = np.abs(judges - nearest * step) <= allowed
    fits &= (judges >= step / 2) & (judges <= reach[:, None] * step)
    squares = (nearest * nearest * fits).sum(axis=1)
    has_any = squares > 0
    fitted: Floats = (judges * nearest * fits).sum(axis=1)[has_any] / squares[has_any]
    return fitted


def _are_seen(steps: Floats, tolerance: int, judges: Floats, weights: Floats, has_zeros: bool) -> npt.NDArray[np.bool_]:
    """Return which steps the durations show.

    `judges` has the durations in order, `weights` the number of events of each; `tolerance` is in ticks.
    """
    step = steps[:, None]
    nearest = np.floor(judges / step + 0.5)
    multiples = np.abs(judges - nearest * step) <= tolerance
    if tolerance:
        judged = judges < _MOST_STEPS * step
        multiples &= judged
        events = judged @ weights
    else:
        events = np.full(len(steps), weights.sum())
    # Durations beside one multiple of a step that isn't a whole number show it only once.
    reached = np.maximum.accumulate(np.where(multiples, nearest, 0), axis=1)
    is_new = np.diff(reached, axis=1, prepend=0) > 0
    different = is_new.sum(axis=1) + 3 * has_zeros - 2
    seen: npt.NDArray[np.bool_] = (
        (events >= 5)
        & (2 * events >= weights.sum())
        & (10 * (multiples @ weights) >= 9 * events)
        & (different * np.log(steps / (3 if tolerance else 1)) >= _EVIDENCE)
    )
    return seen
