"""Adds to errors about captures and labels what to write instead, such as the nearest names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from etq.catalog import corrected
from etq.errors import listed, nearest_words

if TYPE_CHECKING:
    import duckdb

# The number of values of a label in a message.
_MOST: Final = 10
_KEY: Final = re.compile(r"(no capture matches (\d+))(?:;.*)?", re.DOTALL)
_COLUMN: Final = re.compile(r'(?:Referenced column|Table "[^"]+" does not have a column named) "([^"]+)"')
_UNKNOWN: Final = re.compile(
    r"no capture matches (\S.*?[=<>](?:(?!; the warehouse has no ).)*?)(?:; (?:the nearest|there) (?:is|are) [^;]*)?",
    re.DOTALL,
)


def unknown_key(key: str, keys: Collection[str], columns: Collection[str] = ()) -> str:
    """Return the message for the key of a label that no capture has; `columns` are other accepted names."""
    known = listed("label", keys) if keys else "no capture has labels"
    others = f"; columns {', '.join(columns)}" if columns else ""
    return f"no capture has a label {key!r}{nearest_words(key, [*keys, *columns])}; {known}{others}"


def explained(connection: duckdb.DuckDBPyConnection, message: str, query: str = "") -> str:
    """Return an error message about a query with more detail, as `corrected` does. If no capture matches some labels,
    the detail is the key or value that no capture has, or the format of times. If no capture matches a number, it is
    the name of the capture with that key. If a capture's name lacks quotes, the message says that it needs them; if a
    label is written as a column, how it is written. Other messages are unchanged.
    """
    import duckdb

    message = corrected(message, query)
    if (column := _COLUMN.match(message)) is not None:
        with suppress(duckdb.Error):
            if connection.execute("SELECT 1 FROM captures AS c WHERE c.name = ?", [column[1]]).fetchall():
                return f"{column[1]} is a capture: write its name in single quotes, '{column[1]}'"
            if connection.execute("SELECT 1 FROM labels AS l WHERE l.key = ?", [column[1]]).fetchall():
                return f"{column[1]} is a label: write labels['{column[1]}'] of labelled_captures"

    if (key := _KEY.fullmatch(message)) is not None:
        with suppress(duckdb.Error):  # too long for a key
            named = connection.execute("SELECT c.name FROM captures AS c WHERE c.capture_id = ?::INTEGER", [key[2]])
            for (name,) in named.fetchall():
                return f"{key[1]}; the name of capture_id {key[2]} is {name}"
    match = _UNKNOWN.fullmatch(message)
    if match is None:
        return message

    try:
        rows = connection.execute("SELECT l.key, list(DISTINCT l.value ORDER BY l.value) FROM labels AS l GROUP BY ALL")
        labels = dict(rows.fetchall())
        [(terms,)] = connection.execute("SELECT _selector_terms(?)", [match[1]]).fetchall()
    except duckdb.Error:  # the warehouse has only some of the tables
        return message
    return f"no capture matches {match[1]}{_reason(terms, labels)}"


def _reason(terms: Sequence[Mapping[str, Any]], labels: Mapping[str, list[str]]) -> str:
    """Return why no capture matches a selector, from its parts and the values of all labels."""
    for term in terms:
        key = term["key"]
        if term["is_time"] or not key:
            continue
        if key not in labels:
            known = listed("label", sorted(labels)) if labels else "no capture has labels"
            return f": no label is named {key!r}{nearest_words(key, labels) or f'; {known}'}"
        unknown = [value for value in term["values"] if value not in labels[key]]
        if term["sign"] in ("=", "!=") and len(unknown) == len(term["values"]):
            value = unknown[0]
            more = f" and {len(labels[key]) - _MOST} more" if len(labels[key]) > _MOST else ""
            near = nearest_words(value, labels[key]) or f"; {listed('value', labels[key][:_MOST])}{more}"
            return f": none has {key}={value}{near}"
    if any(term["is_time"] for term in terms):
        how = "captured_at>=2026-11-15, captured_at<2026-11-15T12:00 (in UTC) or since=7d"
        return f": none was recorded then; times are written {how}"
    return ": none has all of these labels"
