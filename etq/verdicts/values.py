"""Compares values of two sides by a t-test for each name. The values are metrics, or others that a capture has once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import differences, holm, median, p_of, quantile
from etq.verdicts.comparison import SMALLEST
from etq.verdicts.conditions import differing
from etq.verdicts.effects import drift_of
from etq.verdicts.samples import alternates
from etq.verdicts.states import LEAST


def value_changes(
    values: Mapping[str, Any],
    captures: Mapping[str, Any],
    conditions: Mapping[str, Any],
    kind: str,
    alpha: float,
    min_effect: float | None,
    allow_mismatch: bool,
) -> dict[str, list[Any]]:
    """Return the change of each value from base to new, with its verdict: a row per name and unit.

    The test is Student's, for two samples with the same variance. It uses logarithms, or the values themselves if some
    are not positive. If one side was measured after the other, the machine's drift is added to the error. `q` is p
    after Holm's correction, for values of which it is known whether lower or higher is better. Other values are
    conditions; they differ if the ranges of both sides don't overlap.

    values          columns of name, unit, better, is_new, position and value, a row per capture and name;
                    the position is the place in time, NaN where that doesn't matter
    captures        capture_id and is_new
    conditions      conditions of these captures, see `differing`
    kind            metric; time, which is slower or faster; or size, which has no noise
    alpha           accepted share of false positives
    min_effect      smallest change that counts; None: 2 %
    allow_mismatch  whether there are verdicts although the sides were measured under different conditions
    """
    sides = (captures["capture_id"][is_of] for is_of in (~captures["is_new"], captures["is_new"]))
    conditions_differ = not allow_mismatch and any(differing(conditions, *sides))
    places: dict[tuple[str, str | None], list[int]] = {}
    for place, key in enumerate(zip(values["name"], values["unit"], strict=True)):
        places.setdefault(key, []).append(place)
    rows = []
    for (name, unit), at in places.items():
        better = next((each for each in values["better"][at] if each is not None), None)
        rows.append(
            {
                "name": name,
                "unit": unit,
                "better": better,
                **_tested(*(values[each][at] for each in ("value", "is_new", "position"))),
            }
        )
    judged = [row for row in rows if row["p"] is not None and row["better"] is not None]
    for row, q in zip(judged, holm([row["p"] for row in judged], [1] * len(judged)), strict=True):
        row["q"] = q
    for row in rows:
        smallest = SMALLEST if min_effect is None else min_effect
        if kind == "size" and row["is_apart"] is not None:
            row["verdict"], row["note"] = _of_size(row, smallest)
            continue
        row["verdict"] = _verdict(row, kind == "time", alpha, smallest)
        if row["verdict"] in words.COUNTING and conditions_differ:
            row["verdict"] = words.CONDITIONS_DIFFER
        row["note"] = words.FEW_VALUES if row["verdict"] == words.TOO_FEW else None
    return {column: [row[column] for row in rows] for column in (rows[0] if rows else ())}


def _verdict(row: Mapping[str, Any], is_time: bool, alpha: float, smallest: float) -> str:
    if not row["base_captures"] or not row["new_captures"]:
        return words.REMOVED if row["base_captures"] else words.ADDED
    if row["better"] is None:
        return words.DIFFERS if row["is_apart"] else words.SAME
    if min(row["base_captures"], row["new_captures"]) < LEAST:
        return words.TOO_FEW
    change, difference = row["change"], row["new"] - row["base"]
    # A ratio to 0 is undefined.
    if row["q"] < alpha and difference and (math.isnan(change) or abs(change) >= smallest):
        return words.better((difference < 0) == (row["better"] == "lower"), is_time)
    if math.isnan(change):
        return words.SAME if not difference and row["p"] == 1 else words.OPEN
    return words.SAME if max(-row["change_low"], row["change_high"]) <= smallest else words.OPEN


def _of_size(row: Mapping[str, Any], smallest: float) -> tuple[str, str | None]:
    """The verdict on sizes, and its note. Chance can only explain a difference of sizes if the sizes within a side
    differ.
    """
    change, difference = abs(row["change"]), row["new"] - row["base"]
    if not difference:
        return words.SAME, None
    if change < smallest:
        return words.SAME, words.SMALLEST.format(100 * smallest)
    if not row["is_apart"]:
        return words.OPEN, words.SIZES_VARY
    return words.better((difference < 0) == (row["better"] == "lower"), is_time=False), None


def _tested(values: Any, is_new: Any, positions: Any) -> dict[str, Any]:
    """The medians of both sides, their difference with its interval, and p."""
    base, new = values[~is_new], values[is_new]
    found: dict[str, Any] = {"base_captures": len(base), "new_captures": len(new)}
    found |= {"base": median(base) if len(base) else None, "new": median(new) if len(new) else None}
    found |= dict.fromkeys(("is_apart", "change", "change_low", "change_high", "p", "q"))
    if not len(base) or not len(new):
        return found
    found["is_apart"] = is_apart = bool(base.min() > new.max() or base.max() < new.min())
    scale = abs(found["base"]) or np.nan
    found["change"] = (found["new"] - found["base"]) / scale
    is_log = values.min() > 0
    tested = differences((np.log(values) if is_log else values)[None], np.zeros(len(values)), is_new)
    difference, freedom = float(tested.difference[0]), int(tested.freedom[0])
    if freedom:
        squared = tested.variance * tested.inverse
        if not (np.isnan(positions).any() or alternates(positions, is_new)):
            squared = squared + drift_of(tested.within, is_new, positions)
        error = math.sqrt(squared[0])
        ends = difference + error * quantile(0.025, freedom) * np.array([-1, 1])
        found["change_low"], found["change_high"] = (np.expm1(ends) if is_log else ends / scale).tolist()
        # Without variance, each side is constant.
        found["p"] = p_of(difference / error, freedom) if error > 0 else 0.0 if is_apart else 1.0
    return found
