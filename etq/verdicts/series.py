"""The changes of series as rows, for SQL. Captures are named by position, and belong to builds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import Numbers
from etq.verdicts.changes import KEPT, OPEN, STATE, Change, Least, Reset, Stretch, changes_of, levels_of

# The row of a stretch of a series; if no change was accepted, the stretch is the whole series.
_ROW: Final[dict[str, Any]] = {
    "kind": "stretch", **dict.fromkeys(("verdict", "stage")), **dict.fromkeys(("place", "last_good", "first_bad"), 0),
    **dict.fromkeys(("shows", "noise", "back", "before", "step", "low", "high", "p", "q"), math.nan),
    **dict.fromkeys(("level_first", "level_end", "captures_before", "captures_after", "builds_after"), 0),
    "is_accepted": False,
}  # fmt: skip


def level_changes(series: Mapping[str, Any], min_step: float, alpha: float) -> dict[str, list[Any]]:
    """Return a row for each stretch of a series between accepted changes, and one for each change that counts.
    `comparison` numbers these rows from 1.

    series    columns series, family (the number of series of which one may change by chance), and, with an array for
              each, positions (by which its captures are ordered), builds (numbers, in order), values, and steps and
              creeps: positions of the first captures after those that were accepted; resolution: the step of a coarse
              clock, else 0; total: for an op, the total that it is a part of, else 0; both in the unit of the times
              whose logarithms are the values
    min_step  the smallest change that counts
    alpha     the probability of a change of any series of a family by chance
    """
    orders = [np.lexsort(keys) for keys in zip(series["positions"], series["builds"], strict=True)]
    values, builds, positions = (
        [each[order] for each, order in zip(series[name], orders, strict=True)]
        for name in ("values", "builds", "positions")
    )
    starts = [np.r_[np.flatnonzero(np.diff(each, prepend=-1)), len(each)] for each in builds]
    levels = [levels_of(*each) for each in zip(values, builds, strict=True)]
    # A reset's place counts the captures of a series that have the op.
    resets = [
        [
            Reset(_build_of(int((known < at).sum()), first), name == "creeps")
            for name in ("steps", "creeps")
            for at in series[name][row]
        ]
        for row, (known, first) in enumerate(zip(positions, starts, strict=True))
    ]
    leasts = [
        Least(min_step, *each) for each in zip(series["resolution"].tolist(), series["total"].tolist(), strict=True)
    ]
    found = changes_of([level for level, _ in levels], leasts, resets, [errors for _, errors in levels])
    rows: list[dict[str, Any]] = []
    for at, each in enumerate(found):
        known = {"series": int(series["series"][at])}
        rows += [_stretch_row(stretch, starts[at], positions[at]) | known for stretch in each.stretches]
        counting = [
            _row(change, starts[at], positions[at]) | known | {"q": q}
            for change in each.changes
            if (q := min(1.0, change.p * (1 if change.is_accepted else int(series["family"][at])))) < alpha
        ]
        rows += _listed(counting)
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("series", *_ROW)}
    return columns | {"comparison": [*range(1, len(rows) + 1)]}


def explained_totals(
    items: Mapping[str, Any], accepted: Mapping[str, Any], min_step: float, alpha: float
) -> dict[str, list[Any]]:
    """Return the changes of totals that accepted changes of ops explain. Those within 2 captures explain a change if
    they add up to half of it or more. A row is a comment on such an op.

    items     columns as in `level_changes`, but the series are names, and number; scope: None for the total of all
              methods; what: total or op; is_of_all: whether it is a part of the total of all methods
    accepted  the comments that accept a change of an item: its number, position, comment_id, whether they are on an op
              and not on all items (is_of_op), and is_creep
    """
    comments: dict[int, list[dict[str, Any]]] = {number: [] for number in items["number"].tolist()}
    for values in zip(*(accepted[name].tolist() for name in accepted), strict=True):
        comment = dict(zip(accepted, values, strict=True))
        comments[comment["number"]].append(comment)
    rows = [dict(zip(items, values, strict=True)) for values in zip(*items.values(), strict=True)]
    known = {
        int(row["number"]): row
        for row in rows
        if row["what"] == "total" or any(comment["is_of_op"] for comment in comments[row["number"]])
    }
    series: dict[str, Any] = {name: [row[name] for row in known.values()] for name in ("positions", "builds", "values")}
    for name, is_creep in (("steps", False), ("creeps", True)):
        series[name] = [[each["position"] for each in comments[at] if each["is_creep"] == is_creep] for at in known]
    numbers = np.array([*known], np.int64)
    resolution = np.array([row["resolution"] for row in known.values()], np.float64)
    series |= {"series": numbers, "family": np.ones_like(numbers), "resolution": resolution, "total": 0 * resolution}
    found = level_changes(series, min_step, alpha)
    changes = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    changes = [known[change["series"]] | change for change in changes if change["stage"] in (KEPT, OPEN)]
    parts = {(row["series"], row["scope"]) for row in known.values() if row["is_of_all"]}
    explained: list[dict[str, Any]] = []
    for total in changes:
        if total["what"] != "total" or total["is_accepted"]:
            continue
        of_series = known[total["number"]]["series"]
        ops = [
            op
            for op in changes
            if op["what"] == "op"
            and op["is_accepted"]
            and known[op["number"]]["series"] == of_series
            and abs(op["first_bad"] - total["first_bad"]) <= 2
            and (op["scope"] == total["scope"] or (total["scope"] is None and (of_series, op["scope"]) in parts))
        ]
        if ops and 2 * sum(map(_cost, ops)) / _cost(total) >= 1:
            explained += [
                comment | {"number": total["number"], "position": total["first_bad"], "kind": total["kind"]}
                for number in {op["number"] for op in ops}
                for comment in comments[number]
                if abs(comment["position"] - total["first_bad"]) <= 2
            ]
    return {name: [row[name] for row in explained] for name in ("number", "position", "kind", "comment_id")}


def _cost(change: Mapping[str, Any]) -> float:
    return math.exp(change["before"]) * math.expm1(change["step"])


def _stretch_row(stretch: Stretch, starts: Numbers, positions: Numbers) -> dict[str, Any]:
    """Return a stretch with the positions of its captures; `starts` are the first captures of builds."""
    first, end = starts[stretch.first], starts[stretch.end]
    return _ROW | {
        "shows": stretch.shows, "noise": stretch.noise, "level_first": int(positions[first]),
        "level_end": int(positions[end - 1])
    }  # fmt: skip


def _listed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes of a series without those that others imply.

    Of the steps between states, only the last is kept, and growth that ends in a step is dropped.
    """
    states = [row for row in rows if row["stage"] == STATE][:-1]
    steps = {row["first_bad"] for row in rows if row["kind"] == "step"}
    return [row for row in rows if row not in states and not (row["kind"] == "creep" and row["first_bad"] in steps)]


def _build_of(capture: int, starts: Numbers) -> int:
    """Return the build of a capture; for a position after the last capture, the number of builds."""
    return int(starts.searchsorted(capture, "right")) - 1 if capture < starts[-1] else len(starts) - 1


def _row(change: Change, starts: Numbers, positions: Numbers) -> dict[str, Any]:
    """Return a change with the positions of its captures; `starts` are the first captures of builds."""
    good, bad = change.ends
    is_creep = change.is_creep
    row = {
        "kind": "creep" if is_creep else "step", "verdict": words.direction(change.step),
        "place": int(starts[change.place]) + 1,
        "last_good": int(positions[starts[good] if is_creep else starts[good + 1] - 1]),
        "first_bad": int(positions[starts[bad + 1] - 1 if is_creep else starts[bad]]),
        "level_first": int(positions[starts[change.first]]), "level_end": int(positions[starts[change.end] - 1]),
        "back": math.nan if change.back is None else float(positions[starts[change.back]]),
        "captures_before": 0 if is_creep else int(starts[change.last + 1] - starts[change.first]),
        "captures_after": int(starts[change.end] - starts[change.place]), "builds_after": change.end - change.place,
    }  # fmt: skip
    names = ("stage", "before", "step", "low", "high", "p", "is_accepted")
    return _ROW | row | {name: getattr(change, name) for name in names}
