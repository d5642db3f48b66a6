"""Checks a property of rows that queries rely on: the nesting of events has no cycle.

Queries follow parents up to the outermost event; with a cycle they would not end. A warehouse from somebody else may
have such rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import duckdb

from etq.errors import WarehouseError
from etq.ingest import memory

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Captures in which parents come both before and after their children, with the number of events that have parents. Only
# traces can be such captures: an ETDump writes an event when it ends, so parents always come later.
_MIXED: Final = """
    SELECT e.capture_id, count(*) FROM {events} AS e
    WHERE e.parent_index IS NOT NULL
    GROUP BY e.capture_id
    HAVING NOT coalesce(
        bool_and(e.parent_run_index IS NULL AND e.parent_index > e.event_index)
        OR bool_and(e.parent_run_index IS NULL AND e.parent_index < e.event_index),
        false
    )
    ORDER BY e.capture_id
"""
_EVENTS: Final = """
    SELECT
        e.run_index * 4294967296 + e.event_index AS key,
        coalesce(e.parent_run_index, e.run_index) * 4294967296 + e.parent_index AS parent
    FROM {events} AS e
    WHERE e.capture_id = $capture_id AND e.parent_index IS NOT NULL
"""
# Bytes of memory per event, for the arrays and for DuckDB to make them (measured: 73).
_ROW_BYTES: Final = 80


def check_rows(connection: duckdb.DuckDBPyConnection, path: str, prefix: str) -> None:
    """Raise `WarehouseError` if parents of a capture's events form a cycle, with which a query would run forever.

    `prefix` precedes the tables' names. Raises `FormatError` if the events don't fit into memory.
    """
    for capture_id in in_circles(connection, f"{prefix}event_ticks", path):
        raise WarehouseError(
            f"{path}: damaged: events of the capture {capture_id} contain each other; use a copy of it"
        )


def in_circles(connection: duckdb.DuckDBPyConnection, events: str, path: str) -> Iterator[int]:
    """Yield the keys of captures whose parents form a cycle, from rows of `event_ticks`.

    Raises `FormatError` for the file at `path` if a capture's events don't fit into memory.
    """
    for capture_id, rows in connection.execute(_MIXED.format(events=events)).fetchall():
        memory.refuse_beyond(path, f"to check the {rows:,} events of the capture {capture_id}", rows * _ROW_BYTES)
        found = connection.execute(_EVENTS.format(events=events), {"capture_id": capture_id}).fetchnumpy()
        if _has_circle(found["key"], found["parent"]):
            yield capture_id


def _has_circle(keys: npt.NDArray[np.int64], parents: npt.NDArray[np.int64]) -> bool:
    """Whether parents form a cycle, or two events have the same key. Each step goes twice as far up as the one
    before.
    """
    # Imported here, as most warehouses are opened without it.
    import numpy as np

    if np.any(keys[1:] <= keys[:-1]):
        order = np.argsort(keys, kind="stable")
        keys, parents = keys[order], parents[order]
        if np.any(keys[1:] == keys[:-1]):
            return True
    places = np.minimum(np.searchsorted(keys, parents), len(keys) - 1)
    above = np.append(np.where(keys[places] == parents, places, -1), -1)
    for _ in range(len(keys).bit_length() + 1):
        if above.max() < 0:
            return False
        above = above[above]
    return True
