"""Two sides of values, one per capture: a t-test for each name, for metrics and for what a capture does once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import p_of, quantile
from etq.verdicts.comparison import SMALLEST

# With fewer captures a side there is no verdict.
LEAST = 3
# The probability that a change is above its interval; the same for below.
BEYOND = 0.025


def value_changes(
    values: Mapping[str, Any], is_time: bool, alpha: float, min_effect: float | None, conditions_differ: bool
) -> dict[str, list[Any]]:
    """Return the change of each value from base to new, with its verdict, a row per name and unit.

    The test is Student's, of two samples with one variance, on logarithms, or on the values where some are not
    positive. `q` is p, corrected by Benjamini's and Hochberg's procedure for the values with a better direction. The
    others are conditions: they differ if the ranges of both sides are apart.

    values             columns of name, unit, better, is_new and value, a row per capture and name
    is_time            whether what is worse is slower
    alpha              accepted share of false positives
    min_effect         smallest change that counts; None: 2 %
    conditions_differ  whether there are no verdicts, as the sides were measured under other conditions
    """
    places: dict[tuple[str, str | None], list[int]] = {}
    for place, key in enumerate(zip(values["name"], values["unit"], strict=True)):
        places.setdefault(key, []).append(place)
    rows = []
    for (name, unit), at in places.items():
        better = next((each for each in values["better"][at] if each is not None), None)
        tested = _tested(values["value"][at], values["is_new"][at])
        rows.append({"name": name, "unit": unit, "better": better, **tested, "q": None})
    judged = [row for row in rows if row["p"] is not None and row["better"] is not None]
    smallest = 1.0
    for rank, row in sorted(enumerate(sorted(judged, key=_rank), 1), reverse=True):
        smallest = min(smallest, row["p"] * len(judged) / rank)
        row["q"] = smallest
    for row in rows:
        row["verdict"] = _verdict(
            row, is_time, alpha, SMALLEST if min_effect is None else min_effect, conditions_differ
        )
        row["note"] = words.FEW_VALUES if row["verdict"] == words.TOO_FEW else None
    return {column: [row[column] for row in rows] for column in (rows[0] if rows else ())}


def _verdict(  # noqa: PLR0911 - a verdict a line
    row: Mapping[str, Any], is_time: bool, alpha: float, smallest: float, conditions_differ: bool
) -> str:
    if not row["base_captures"] or not row["new_captures"]:
        return words.REMOVED if row["base_captures"] else words.ADDED
    if row["better"] is None:
        return words.DIFFERS if row["is_apart"] else words.SAME
    if min(row["base_captures"], row["new_captures"]) < LEAST:
        return words.TOO_FEW
    change, difference = row["change"], row["new"] - row["base"]
    # 0 has no ratio.
    if row["q"] < alpha and difference and (math.isnan(change) or abs(change) >= smallest):
        if conditions_differ:
            return words.CONDITIONS_DIFFER
        is_better = (difference < 0) == (row["better"] == "lower")
        return words.better(is_better, is_time)
    if math.isnan(change):
        return words.SAME if not difference and row["p"] == 1 else words.OPEN
    return words.SAME if max(-row["change_low"], row["change_high"]) <= smallest else words.OPEN


def _rank(row: Mapping[str, Any]) -> tuple[float, str, str]:
    return row["p"], row["name"], row["unit"] or ""


def _middle(ordered: Any) -> float | None:
    """The median of ordered values, None of none. numpy's would import what takes 7 ms."""
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2) if len(ordered) else None


def _tested(values: Any, is_new: Any) -> dict[str, Any]:
    """The medians of both sides, their difference with its interval, and p."""
    base, new = np.sort(values[~is_new]), np.sort(values[is_new])
    found: dict[str, Any] = {"base_captures": len(base), "new_captures": len(new)}
    found["base"], found["new"] = _middle(base), _middle(new)
    found |= {"is_apart": None, "change": None, "change_low": None, "change_high": None, "p": None}
    if not len(base) or not len(new):
        return found
    found["is_apart"] = is_apart = bool(base[0] > new[-1] or base[-1] < new[0])
    scale = abs(found["base"]) or np.nan
    found["change"] = (found["new"] - found["base"]) / scale
    is_log = values.min() > 0
    ones, others = (np.log(base), np.log(new)) if is_log else (base, new)
    # Less the least of their side: so the sums of values that are all equal are 0.
    ones_above, others_above = ones - ones[0], others - others[0]
    difference = float(others[0] + others_above.mean() - ones[0] - ones_above.mean())
    freedom = len(base) + len(new) - 2
    if not freedom:
        return found
    squares = sum(float((each**2).sum() - each.sum() ** 2 / len(each)) for each in (ones_above, others_above))
    error = float(np.sqrt(max(0.0, squares / freedom) * (1 / len(base) + 1 / len(new))))
    width = error * quantile(BEYOND, freedom)
    if is_log:
        found["change_low"], found["change_high"] = np.expm1(difference - width), np.expm1(difference + width)
    else:
        found["change_low"], found["change_high"] = (difference - width) / scale, (difference + width) / scale
    # Without variance, both sides are constant.
    found["p"] = p_of(difference / error, freedom) if error > 0 else 0.0 if is_apart else 1.0
    return found
