"""The changes of series as rows, for SQL. Captures are named by position, and belong to builds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import Numbers
from etq.verdicts.changes import KEPT, OPEN, STATE, Change, Least, Reset, Stretch, changes_of, levels_of
from etq.verdicts.conditions import differing

Rows = Mapping[str, Any]  # an array by column
Row = dict[str, Any]

# The row of a stretch of a series; if no change was accepted, the stretch is the whole series.
_ROW: Final[dict[str, Any]] = {
    "kind": "stretch", **dict.fromkeys(("verdict", "stage")), **dict.fromkeys(("place", "last_good", "first_bad"), 0),
    **dict.fromkeys(("shows", "noise", "back", "before", "step", "low", "high", "p", "q"), math.nan),
    **dict.fromkeys(("level_first", "level_end", "captures_before", "captures_after", "builds_after"), 0),
    "is_accepted": False, **dict.fromkeys(("condition", "comment", "author")),
}  # fmt: skip


def level_changes(
    items: Rows, parts: Rows, comments: Rows, conditions: Rows, min_step: float, alpha: float
) -> dict[str, list[Any]]:
    """Return a row for each stretch of an item between accepted changes, and one for each change that counts, with the
    latest comment on it. The column `series` has the item's number.

    items       totals, ops, modules or metrics of series: number; series; measure and name, `what` and `item` of
                `trend`; identity, that of an op; scope, of which an op is a part; is_cycles, whether its values are
                cycles, not times; is_of_all, whether it is a part of the total of all methods; family (the number of
                items of which one may change by chance); and, with an array for each, positions (by which its captures
                are ordered), series_positions (of these captures in the series), builds (numbers, in order) and values;
                resolution: the step of a coarse clock, else 0; total: for an op, the total that it is a part of, else
                0; both in the unit of the times whose logarithms are the values
    parts       the items whose accepted changes may explain changes of totals; without any, `items` themselves
    comments    the rows of `_series_comments`
    conditions  conditions of series, see `differing`; captures are positions in the series
    min_step    the smallest change that counts
    alpha       the probability of a change of any item of a family by chance
    """
    given, said, found = _rows(items), _rows(comments), []
    said += _explained(_rows(parts) or given, said, min_step, alpha)
    for item, rows in _changes(given, said, min_step, alpha):
        for row in rows:
            if row["kind"] == "step" and not row["is_accepted"] and (why := _condition(row, item, conditions)):
                row.update(condition=why, stage=STATE, back=math.nan)
            if row["kind"] != "stretch":
                row.update(_latest(row, item["comments"]))
        found += rows
    return {name: [row[name] for row in found] for name in ("series", *_ROW)}


def _changes(
    items: Sequence[Row], comments: Sequence[Row], min_step: float, alpha: float
) -> Iterator[tuple[Row, list[Row]]]:
    """Yield each item, with the comments on it, and the rows of its stretches and changes."""
    for item in items:
        order = np.lexsort((item["positions"], item["builds"]))
        item |= {name: item[name][order] for name in ("positions", "series_positions", "builds", "values")}
        item["starts"] = np.r_[np.flatnonzero(np.diff(item["builds"], prepend=-1)), len(item["builds"])]
        item["comments"] = [*_placed(item, comments)]
    levels = [levels_of(item["values"], item["builds"]) for item in items]
    resets = [
        [
            Reset(_build_of(comment["capture"], item["starts"]), comment["kind"] == "creep")
            for comment in sorted(item["comments"], key=lambda comment: comment["kind"] == "creep")
            if comment["accepts"]
        ]
        for item in items
    ]
    leasts = [Least(min_step, item["resolution"], item["total"]) for item in items]
    found = changes_of([level for level, _ in levels], leasts, resets, [errors for _, errors in levels])
    for item, each in zip(items, found, strict=True):
        starts, positions, known = item["starts"], item["positions"], {"series": item["number"]}
        rows = [_stretch_row(stretch, starts, positions) | known for stretch in each.stretches]
        counting = [
            _row(change, starts, positions) | known | {"q": q}
            for change in each.changes
            if (q := min(1.0, change.p * (1 if change.is_accepted else item["family"]))) < alpha
        ]
        yield item, rows + _listed(counting)


def _rows(columns: Rows) -> list[Row]:
    plain = [values.tolist() if isinstance(values, np.ndarray) else values for values in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*plain, strict=True)]


def _placed(item: Row, comments: Sequence[Row]) -> Iterator[Row]:
    """Yield the comments on an item, each with the number and position of the first capture, from its place on, that
    has the item.
    """
    for comment in comments:
        if comment["series"] == item["series"] and _is_on(comment, item):
            capture = int((item["series_positions"] < comment["position"]).sum())
            if capture < len(item["positions"]):
                yield comment | {"capture": capture, "at": int(item["positions"][capture])}


def _is_on(comment: Row, item: Row) -> bool:
    """Whether a comment is on an item. A comment on an op without an instruction is on all of its instances; one that
    explains a total (`_explained`) is on values of its clock.
    """
    if comment.get("is_cycles", item["is_cycles"]) != item["is_cycles"]:
        return False
    if comment["what"] != item["measure"]:
        return bool(comment["what"] == "all")
    identity = comment["identity"] or (comment["item"] if comment["what"] == "total" else None)
    names = (None, item["name"], item["name"].split("@")[0])
    return comment["item"] in names or (identity is not None and identity == item["identity"])


def _latest(change: Row, comments: Sequence[Row]) -> Row:
    """Return the text and the author of the latest comment on a change. A comment on a step is within 2 captures of it:
    with more captures, the step may be found a bit earlier or later. One at the first capture of a creep is on an
    accepted change, after which the creep begins.
    """
    is_creep = change["kind"] == "creep"
    first = change["last_good"] + 1 if is_creep else change["first_bad"] - 2
    last = change["first_bad"] + (1 if is_creep else 2)
    within = [comment for comment in comments if first <= comment["at"] <= last]
    latest = max(within, key=lambda comment: (comment["written"], comment["comment_id"]), default=None)
    return {} if latest is None else {"comment": latest["text"], "author": latest["author"] or None}


def _condition(step: Row, item: Row, conditions: Rows) -> str | None:
    """Return what differs between the captures of the levels of a step; None if nothing is known. A metric that may be
    a condition is none of itself.
    """
    positions = item["positions"]
    is_at = (positions >= step["level_first"]) & (positions <= step["level_end"])
    sides = [item["series_positions"][is_at & beside] for beside in (
        positions <= step["last_good"], positions >= step["first_bad"]
    )]  # fmt: skip
    is_own = (conditions["name"] == item["name"]) & (item["measure"] == "metric")
    rows = np.flatnonzero((conditions["series"] == item["series"]) & ~is_own)
    found = differing({name: [values[row] for row in rows] for name, values in conditions.items()}, *sides)
    return "; ".join(f"{name} {old} before, {new} since" for name, old, new in found) or None


def _explained(items: Sequence[Row], comments: Sequence[Row], min_step: float, alpha: float) -> list[Row]:
    """Return comments that accept the changes of totals that accepted changes of ops explain: those of ops within 2
    captures that add up to half of the change or more. The total of all methods has no name.
    """
    accepting = [comment for comment in comments if comment["accepts"]]
    affected = {comment["series"] for comment in accepting if comment["what"] == "op"}
    known = [
        item | {"family": 1, "total": 0.0, "scopes": {item["scope"]}}
        for item in items
        if item["series"] in affected
        and (item["measure"] == "total" or any(each["what"] == "op" and _is_on(each, item) for each in accepting))
    ]
    parts_of_all = sorted((item for item in known if item["is_of_all"]), key=_clock)
    known += [_of_all([*totals]) for _, totals in itertools.groupby(parts_of_all, _clock)]
    changes = [
        (item, row)
        for item, rows in _changes(known, accepting, min_step, alpha)
        for row in rows
        if row["stage"] in (KEPT, OPEN)
    ]
    explained: list[Row] = []
    for total, change in changes:
        if total["measure"] != "total" or change["is_accepted"]:
            continue
        ops = [
            (op, row)
            for op, row in changes
            if op["measure"] == "op"
            and row["is_accepted"]
            and _clock(op) == _clock(total)
            and op["scope"] in total["scopes"]
            and abs(row["first_bad"] - change["first_bad"]) <= 2
        ]
        if ops and 2 * sum(_cost(row) for _, row in ops) / _cost(change) >= 1:
            follows = {"position": change["first_bad"], "kind": change["kind"], "what": "total"}
            follows |= {"item": total["name"], "identity": total["identity"], "is_cycles": total["is_cycles"]}
            explained += [
                comment | follows
                for op in {id(op): op for op, _ in ops}.values()
                for comment in op["comments"]
                if abs(comment["at"] - change["first_bad"]) <= 2
            ]
    return explained


def _clock(item: Row) -> tuple[str, bool]:
    """Return the series of an item and whether its values are cycles: only values of one clock add up."""
    return item["series"], item["is_cycles"]


def _of_all(totals: Sequence[Row]) -> Row:
    """Return the total of all methods of a series, given their totals."""
    places, builds, values = (
        np.concatenate([total[name] for total in totals]) for name in ("positions", "builds", "values")
    )
    positions, first, place = np.unique(places, return_index=True, return_inverse=True)
    summed = np.log(np.bincount(place, np.exp(values)))
    at = {"positions": positions, "series_positions": positions, "builds": builds[first], "values": summed}
    named = {"name": "", "identity": None, "scopes": {total["scope"] for total in totals}, "is_of_all": False}
    return totals[0] | at | named | {"resolution": 0.0}


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
