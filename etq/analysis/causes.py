"""What is slower in a warehouse, as sentences: causes from `causes`, series from `series`, and groups of captures whose
devices are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from etq.analysis.series import of_mixed, short
from etq.errors import counted

if TYPE_CHECKING:
    from etq.database.handles import Answers

Row = Mapping[str, Any]
# A sentence names at most this many reasons.
_REASONS: Final = 3


def causes_of(warehouse: Answers, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of the view `causes`, each with its `title` and `detail`. Options are those of the view.

    Raises `QueryError` for an unknown option.
    """
    return [{**row, "title": title(row), "detail": detail(row)} for row in _rows_of(warehouse, "causes", options)]


def all_series(warehouse: Answers, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of the view `series`. Options are those of the view. Raises `QueryError` for an unknown
    option.
    """
    return _rows_of(warehouse, "series", options)


def compared_devices(warehouse: Answers, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of the view `compared_devices`. Options are those of the view. Raises `QueryError` for an unknown
    option.
    """
    return _rows_of(warehouse, "compared_devices", options)


def _rows_of(warehouse: Answers, view: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    from etq import catalog

    names, rows = warehouse.rows(f"FROM {view}({catalog.arguments(options)})", **options)
    return [dict(zip(names, row, strict=True)) for row in rows]


def title(cause: Row) -> str:
    """Return a cause in a few words: permute_copy since ad47c6b9, pixel8-13: all ops, rank 2, link of ranks 4, 5."""
    if cause["kind"] == "change":
        return f"{cause['cause']} since {cause['ordered_by']} {short(cause['first_bad'])}"
    if cause["kind"] == "creep":
        span = f"{short(cause['last_good'])} to {short(cause['first_bad'])}"
        return f"{cause['cause']} in small steps, {cause['ordered_by']} {span}"
    if cause["kind"] == "device":
        return f"{cause['value']}: {cause['cause']}"
    ranks = f"rank{'s' if cause['captures'] > 1 else ''} {cause['value']}"
    return ranks if cause["kind"] == "rank" else f"{cause['kind']} of {ranks}"


def detail(cause: Row) -> str:
    """Return where a cause is, by how much it is slower, and the evidence."""
    more = cause["number_of_series"] - 1
    where = cause["series"] or "(no labels)"
    where = f"{where} and {counted(more, 'other series', 'other series')}" if more else where
    if cause["finding"] is not None:
        return f"{where}; {cause['finding']} {_sentence(cause['evidence'])}"
    size = f"{cause['change_percent']:+.1f} %"
    if None not in (cause["low_percent"], cause["high_percent"]):
        size += f" ({cause['low_percent']:+.1f} to {cause['high_percent']:+.1f} %)"
    instances = f" in {cause['instances']:,} instances" if (cause["instances"] or 1) > 1 else ""
    captures = counted(cause["captures"], "capture")
    rest = f"last good {short(cause['last_good'])}, {captures} since" if cause["kind"] == "change" else captures
    return f"{where}; {size}{instances}; {rest}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def judged(series: Sequence[Row], groups: Sequence[Row]) -> str:
    """Say how many series are judged, in how many groups devices are compared, and why other series and groups aren't.

    The arguments are the rows of `series` and `compared_devices`.
    """
    left = [row["reason"] for row in series if row["reason"] is not None]
    sentences = [
        _with_reasons(f"{len(series) - len(left):,} of {_of_series(len(series))} judged over time", "not judged", left)
    ]
    # A group of one device is mentioned only if its series has other groups.
    beside = Counter(row["series"] for row in groups)
    known = [row for row in groups if row["devices"] > 1 or beside[row["series"]] > 1]
    if known:
        compared = sum(row["compared_devices"] > 0 for row in known)
        text = f"devices compared in {compared:,} of {counted(len(known), 'group')} of captures"
        lacking = [row for row in known if row["reason"] is not None]
        for what, is_partly in (("not compared", False), ("not all compared", True)):
            reasons = [_of_group(row) for row in lacking if (row["compared_devices"] > 0) == is_partly]
            text = _with_reasons(text, what, reasons)
        sentences.append(text)
    mixed = [(row["series"], row["ordered_by"], row["mixed_build"]) for row in series if row["mixed_build"] is not None]
    sentences += [of_mixed(*each) for each in mixed[:1]]
    return ". ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)


def _of_series(count: int) -> str:
    return counted(count, "series", "series")


def _of_group(row: Row) -> str:
    """Return why the devices of a group aren't compared, and which captures the group has."""
    kind = [row["model"], row["profiling_level"] and f"level {row['profiling_level']}", row["steps"]]
    of = " ".join([*filter(None, kind), *(["in cycles"] if row["clock"] == "cycles" else [])])
    return f"{row['reason']}: {of and f'{of}, '}{counted(row['captures'], 'capture')}"


def _with_reasons(text: str, what: str, reasons: Sequence[str]) -> str:
    counts = Counter(reasons).most_common()
    named, others = counts[:_REASONS], sum(count for _, count in counts[_REASONS:])
    why = ", ".join(f"{count:,} ({reason})" for reason, count in named) + (f" and {others:,} more" if others else "")
    return f"{text}; {what}: {why}" if counts else text
