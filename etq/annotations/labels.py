"""Labels are key=value pairs that distinguish captures. They are checked, set and removed here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import duckdb

from etq.errors import ArgumentError
from etq.selectors import JOB

# This key is not stored as a label: it sets the column of that name in `captures`.
CAPTURED_AT: Final = "captured_at"
# Labels that make captures ranks of a job: advice about a rank depends on the others.
RANKS: Final = frozenset({JOB, "rank"})
_LABELS: Final = f"""
    SELECT l.capture_id, l.key, l.value FROM labels AS l
    UNION ALL
    SELECT c.capture_id, '{CAPTURED_AT}', strftime(c.captured_at, '%Y-%m-%dT%H:%M:%S.%fZ')
    FROM captures AS c WHERE c.captured_at IS NOT NULL
"""
# Characters that selectors can't contain, or that would break the lines in which labels are displayed.
_NOT_IN_KEYS: Final = re.compile(r"[=<>,\"@\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOT_IN_VALUES: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_label(key: object, value: object) -> None:
    """Raise `ArgumentError` for a label that can't be stored or used in selectors."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise ArgumentError(f"the label {key!r}: {value!r} is not a label; key and value must be texts")
    if not key or key != key.strip():
        raise ArgumentError(f"the label {key!r}: invalid key; it must not be empty, nor begin or end with a space")
    if key.endswith("!"):
        raise ArgumentError(f"the label {key!r}: invalid key; it ends with '!', which selectors read as !=")
    if (bad := _NOT_IN_KEYS.search(key)) is not None:
        raise ArgumentError(f"the label {key!r}: invalid key; it has {bad[0]!r}, which selectors can't contain")
    if (bad := _NOT_IN_VALUES.search(value)) is not None:
        raise ArgumentError(f"the label {key!r}: {value!r} is not a value; it has the control character {bad[0]!r}")


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise `ArgumentError` for an invalid label, and for a `captured_at` that is not a time."""
    for key, value in labels.items():
        check_label(key, value)
        if key == CAPTURED_AT:
            moment_of(value)


def moment_of(text: str) -> datetime:
    """Parse a time in ISO 8601, in UTC if it has no time zone. Raises `ArgumentError` for other texts."""
    try:
        moment = datetime.fromisoformat(text)
        # The first and last hours of the calendar have no equivalent in UTC.
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ArgumentError(
            f"captured_at {text!r} is not a time; write 2026-05-01, 2026-05-01T12:00:00Z or 2026-05-01T14:00:00+02:00"
        ) from None


def set_labels(connection: duckdb.DuckDBPyConnection, capture_id: int, labels: Mapping[str, str | None]) -> None:
    """Set labels of a capture, replacing labels with the same keys; the value None removes a label.

    Raises `ArgumentError` for an invalid label, and for a `captured_at` that is not a time.
    """
    is_of_job = not RANKS.isdisjoint(labels)
    # These include the ranks of the job to which a trace no longer belongs.
    ranks = _ranks_of(connection, capture_id) if is_of_job else []
    for key, value in labels.items():
        check_label(key, "" if value is None else value)
        if key == CAPTURED_AT:
            moment = None if value is None else moment_of(value)
            connection.execute("UPDATE captures SET captured_at = ? WHERE capture_id = ?", [moment, capture_id])
            continue
        connection.execute("DELETE FROM labels WHERE capture_id = ? AND key = ?", [capture_id, key])
        if value is not None:
            connection.execute("INSERT INTO labels VALUES (?, ?, ?)", [capture_id, key, value])
    if is_of_job:
        from etq.advice.filling import refill

        refill(connection, sorted({*ranks, *_ranks_of(connection, capture_id)}))


def _ranks_of(connection: duckdb.DuckDBPyConnection, capture_id: int) -> list[int]:
    """Return the keys of the traces of a capture's job."""
    # Imported here, as reading a file needs no advice.
    from etq.advice.filling import ranks_of

    return ranks_of(connection, [capture_id])


def add_labels(connection: duckdb.DuckDBPyConnection, capture_id: int, labels: Mapping[str, str]) -> None:
    """Add those labels whose keys the capture does not have yet. Errors are those of `set_labels`."""
    have = labels_of(connection, capture_id)
    set_labels(connection, capture_id, {key: value for key, value in labels.items() if key not in have})


def labels_of(connection: duckdb.DuckDBPyConnection, capture_id: int) -> dict[str, str]:
    """Return a capture's labels by key, with captured_at if it is known."""
    query = f"SELECT a.key, a.value FROM ({_LABELS}) AS a WHERE a.capture_id = ? ORDER BY 1"
    return dict(connection.execute(query, [capture_id]).fetchall())


def labels_of_all(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """Return the labels of all captures, by their SHA-256."""
    query = f"""
        SELECT k.sha256, a.key, a.value FROM captures AS k LEFT JOIN ({_LABELS}) AS a ON a.capture_id = k.capture_id
    """
    labels: dict[str, dict[str, str]] = {}
    for sha256, key, value in connection.execute(query).fetchall():
        labels.setdefault(sha256, {}).update({} if key is None else {key: value})
    return labels
