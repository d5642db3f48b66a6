"""What is slower in a warehouse, in words: the causes that `causes` finds, and the series that `series` judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etq.analysis.series import short
from etq.errors import counted

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

Row = Mapping[str, Any]


def causes_of(warehouse: Warehouse, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of `causes`, each with its `title` and `detail`, with the options of that view.

    Raises `QueryError` for an option that is none.
    """
    return [{**row, "title": title(row), "detail": detail(row)} for row in _rows_of(warehouse, "causes", options)]


def all_series(warehouse: Warehouse, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of `series`, with the options of that view. Raises `QueryError` for an option that is none."""
    return _rows_of(warehouse, "series", options)


def _rows_of(warehouse: Warehouse, view: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    from etq import catalog

    names, rows = warehouse.rows(f"FROM {view}({catalog.arguments(options)})", **options)
    return [dict(zip(names, row, strict=True)) for row in rows]


def title(cause: Row) -> str:
    """Return a cause in a few words: permute_copy since ad47c6b9, pixel8-13: all ops, rank 2."""
    if cause["kind"] == "change":
        return f"{cause['cause']} since {cause['ordered_by']} {short(cause['first_bad'])}"
    return f"{cause['value']}: {cause['cause']}" if cause["kind"] == "device" else f"rank {cause['value']}"


def detail(cause: Row) -> str:
    """Return where a cause is, how much slower that is, and what it rests on."""
    more = cause["number_of_series"] - 1
    where = cause["series"] or "captures without labels"
    where = f"{where} and {counted(more, 'other series', 'other series')}" if more else where
    if cause["finding"] is not None:
        return f"{where}; {cause['finding']}"
    size = f"{cause['change_percent']:+.1f} %"
    if None not in (cause["low_percent"], cause["high_percent"]):
        size += f" ({cause['low_percent']:+.1f} to {cause['high_percent']:+.1f} %)"
    instances = f" in {cause['instances']:,} instances" if (cause["instances"] or 1) > 1 else ""
    captures = counted(cause["captures"], "capture")
    rest = f"last good {short(cause['last_good'])}, {captures} since" if cause["kind"] == "change" else captures
    return f"{where}; {size}{instances}; {rest}"


def judged(series: Sequence[Row]) -> str:
    """Say how many series are judged, and why others aren't, given the rows of `series`."""
    reasons: dict[str, int] = {}
    for row in series:
        if row["reason"] is not None:
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    left = sum(reasons.values())
    text = f"{len(series) - left:,} of {counted(len(series), 'series', 'series')} judged over time"
    why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda each: -each[1]))
    return f"{text}; not: {why}" if left else text
