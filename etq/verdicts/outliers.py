"""Each value of a label against all others: comparisons that share their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from etq.verdicts import words
from etq.verdicts.comparison import SMALLEST_APART
from etq.verdicts.conditions import differing
from etq.verdicts.items import aligned, of_tables
from etq.verdicts.samples import tables

Rows = dict[str, list[Any]]

# The verdicts whose values a sentence counts, with their words; and how many slower values the sentence names.
_STATED: Final = (words.SLOWER, words.FASTER)
# In place of the verdict of a value whose total is neither slower nor faster, but whose ops are.
_IN_OPS: Final = "in ops"
_COUNTED: Final = {
    words.FASTER: "faster",
    _IN_OPS: "with ops that differ",
    words.UNSTABLE: "unstable",
    words.OPEN: "not decided",
    words.TOO_FEW: "with too few captures to tell",
    words.CONDITIONS_DIFFER: "measured under other conditions",
    words.CANT_JUDGE: "that can't be judged",
}
_UNJUDGED: Final = {words.TOO_FEW, words.CONDITIONS_DIFFER, words.CANT_JUDGE}
_MOST: Final = 5
# The levels whose rows are returned.
_LEVELS: Final = ("total", "op", "common shift")


def each_compared(
    samples: Mapping[str, Any],
    ops: Mapping[str, Any],
    shapes: Mapping[str, Any],
    conditions: Mapping[str, Any],
    of_captures: Mapping[str, Any],
    is_one_clock: bool,
    alpha: float,
    min_effect: float | None,
    phase: str | None,
    allow_mismatch: bool,
) -> dict[str, list[Any]]:
    """Return the rows of `compared` about items and the common shift for each value: its captures are new, those of the
    other values are base. Columns added are `value` and, for totals, `in_ops`, the ops that differ. With n values, each
    comparison has the nth part of alpha, and p and q are n times as large: verdicts and intervals hold for all values
    together.

    Values that differ are left out of the base of the other values, because one device that is 1.4 times as slow would
    hide all other differences. So all values are compared twice; the second time, base has only the values that don't
    differ, if these are more than half.

    samples, ops, shapes  what `compared` takes, of all captures; their sides are not read
    conditions            conditions of all captures, see `differing`
    of_captures           capture_id and value
    """
    value_of = dict(zip(of_captures["capture_id"].tolist(), of_captures["value"], strict=True))
    values = sorted(set(value_of.values()))
    # The table of each comparison, with the values of its captures.
    given = [
        (table, np.array([value_of[key] for key in table.columns["capture_id"][table.of_captures]], np.object_))
        for table in tables(aligned(samples, ops))
    ]

    def judged(value: str, without: set[str]) -> Rows:
        """The rows of a value, compared with the other values except some."""
        side_of = {each: "base" for each in values if each not in without} | {value: "new"}
        of_sides = [
            table.with_sides(np.array([side_of.get(each) for each in of_table], np.object_))
            for table, of_table in given
        ]
        is_of_value = of_captures["value"] == value
        sides = (of_captures["capture_id"][is_of] for is_of in (~is_of_value, is_of_value))
        differ = any(differing(conditions, *sides))
        part = alpha / len(values)
        kept = [table for table in of_sides if len(table.sides)]
        return of_tables(kept, shapes, differ, is_one_clock, part, min_effect, allow_mismatch)

    rows = {value: judged(value, set()) for value in values}
    apart = {value for value in values if any(_differing(rows[value]).values())}
    if apart and 2 * len(apart) < len(values):
        rows = {value: judged(value, apart) for value in values}
    found: dict[str, list[Any]] = {}
    for value, each in rows.items():
        _append(found, value, each, len(values))
    return found


def _append(found: Rows, value: str, rows: Rows, values: int) -> None:
    """Add the rows of a value to `found`; `values` is the number of values."""
    rows |= {name: [chance and min(1.0, chance * values) for chance in rows[name]] for name in ("p", "q")}
    in_ops = _differing(rows)
    rows["value"] = [value] * len(rows["level"])
    rows["in_ops"] = [
        ", ".join(in_ops.get(comparison, ())) or None if level == "total" else None
        for level, comparison in zip(rows["level"], rows["comparison"], strict=True)
    ]
    for place, level in enumerate(rows["level"]):
        if level in _LEVELS:
            for name, column in rows.items():
                found.setdefault(name, []).append(column[place])


def _differing(rows: Rows) -> dict[int, list[str]]:
    """Return which ops differ, by comparison: all ops if the common shift differs, and ops that differ beyond that
    shift.
    """
    columns = ("level", "comparison", "verdict", "op", "change", "change_low", "change_high")
    at: dict[int, dict[str, None]] = {}
    of_totals = zip(rows["level"], rows["comparison"], rows["verdict"], strict=True)
    unjudged = {comparison for level, comparison, verdict in of_totals if level == "total" and verdict in _UNJUDGED}
    for level, comparison, verdict, op, change, low, high in zip(*(rows[name] for name in columns), strict=True):
        if comparison in unjudged:
            continue
        if level == "common shift" and None not in (change, low, high) and low * high > 0:
            if abs(change) >= SMALLEST_APART:
                at[comparison] = {"all ops": None, **at.get(comparison, {})}
        elif level == "op" and verdict in (words.SLOWER, words.FASTER):
            at.setdefault(comparison, {})[op] = None
    return {comparison: [*ops] for comparison, ops in at.items()}


def sentence(rows: Sequence[Mapping[str, Any]], by: str) -> str:
    """Say which values of a label are slower, given the rows of `outliers` about totals."""
    values = {row["value"]: row for row in reversed(rows)}
    of_verdict: dict[str, list[str]] = {}
    for value in dict.fromkeys(row["value"] for row in rows):
        row = values[value]
        name = value if row["in_ops"] is None else f"{value} ({row['in_ops']})"
        verdict = row["verdict"] if row["verdict"] in _STATED or row["in_ops"] is None else _IN_OPS
        of_verdict.setdefault(verdict, []).append(name)
    is_judged = of_verdict.keys() - _UNJUDGED
    parts = [_stated(of_verdict.get(words.SLOWER, []), len(values), by) if is_judged else f"No {by} is judged"]
    parts += [f"{len(of_verdict[verdict])} {text}" for verdict, text in _COUNTED.items() if verdict in of_verdict]
    return "; ".join(parts)


def _stated(slower: Sequence[str], values: int, by: str) -> str:
    """Say which values are slower, of how many."""
    if not slower:
        return f"None of {values:,} {by}s is slower"
    names = ", ".join(slower[:_MOST]) + (f" and {len(slower) - _MOST:,} more" if len(slower) > _MOST else "")
    return f"{len(slower):,} of {values:,} {by}s {'is' if len(slower) == 1 else 'are'} slower: {names}"
