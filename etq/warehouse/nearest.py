"""Adds the nearest existing names to errors about captures that don't exist: keys for a key, values for a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from etq.errors import LONGEST_NAME

if TYPE_CHECKING:
    import duckdb

_UNKNOWN: Final = re.compile(r"no capture matches (\S.*?=.*?)(?:; the nearest are [^;]*)?", re.DOTALL)
_PRUNED: Final = re.compile(r"the events of ([0-9a-f]{64}) were pruned")
_PART: Final = re.compile(r'(?<![^,])([^,="]+)=("(?:[^"]|"")*"|[^,]+)')


def nearest_words(word: str, known: Iterable[str]) -> str:
    """Return the words nearest to another, as the end of an error message; an empty text if there are none."""
    import difflib

    # The time to compare texts grows with the product of their lengths; a word this long is not a mistyped name.
    if len(word) > LONGEST_NAME:
        return ""
    near = difflib.get_close_matches(word, list(known))
    return f"; the nearest are {', '.join(near)}" if near else ""


def explained(connection: duckdb.DuckDBPyConnection, message: str) -> str:
    """Return an error message with more detail.

    If no capture matches some labels, names the key or value that no capture has; if the events of a hash were pruned,
    gives the capture's name. Other messages are unchanged.
    """
    if (pruned := _PRUNED.match(message)) is not None:
        names = connection.execute("SELECT c.name FROM captures AS c WHERE c.sha256 = ?", [pruned[1]]).fetchall()
        return message.replace(pruned[1], names[0][0] if names else pruned[1])
    match = _UNKNOWN.fullmatch(message)
    if match is None:
        return message
    import duckdb

    try:
        rows = connection.execute("SELECT l.key, list(DISTINCT l.value ORDER BY l.value) FROM labels AS l GROUP BY ALL")
        labels = dict(rows.fetchall())
    except duckdb.Error:  # a warehouse with only some of the tables
        return message
    for key, quoted in _PART.findall(match[1]):
        value = quoted[1:-1].replace('""', '"') if quoted.startswith('"') else quoted
        if key not in labels:
            known = f"labels are {', '.join(sorted(labels))}" if labels else "no capture has labels"
            return (
                f"no capture matches {match[1]}: no label is named {key!r}{nearest_words(key, labels) or f'; {known}'}"
            )
        if value not in labels[key]:
            near = nearest_words(value, labels[key]) or f"; values are {', '.join(labels[key][:10])}"
            return f"no capture matches {match[1]}: none has {key}={value}{near}"
    return f"no capture matches {match[1]}: none has all of these labels"
