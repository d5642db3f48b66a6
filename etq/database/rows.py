"""Checks of the rows that queries rely on: events are within each other without a circle.

Queries follow the events that contain an event to the outermost one. In a circle they would not end, and take all
memory until then. A warehouse from others may have such rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import duckdb

from etq.errors import WarehouseError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Captures in which some events come before and some after the one that contains them: ETDumps write an event when it
# ends, and have no others; traces write events in any order.
_MIXED: Final = """
    SELECT e.capture_id FROM {events} AS e
    WHERE e.parent_index IS NOT NULL AND e.capture_id > $after
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
_SEEN: Final = """
    SELECT coalesce(max(c.capture_id), -1), count(*), bit_xor(hash(c.capture_id, c.sha256))
    FROM {prefix}captures AS c WHERE c.capture_id <= $most
"""
_ALL: Final = 2**31 - 1
# Keys of lakes have 64 bits.
_BEFORE: Final = -(2**63)


def check_rows(connection: duckdb.DuckDBPyConnection, path: str, prefix: str, seen: str = "") -> None:
    """Raise `WarehouseError` if events of a capture contain each other in a circle.

    `prefix` is that of the tables' names; `seen` is what `captures_seen` returned when captures were checked before.
    """
    most = int(seen.split(maxsplit=1)[0]) if seen else -1
    after = most if seen and captures_seen(connection, prefix, most) == seen else _BEFORE
    for capture_id in in_circles(connection, f"{prefix}event_ticks", after):
        raise WarehouseError(
            f"{path}: damaged: events of the capture {capture_id} contain each other; use a copy of it"
        )


def in_circles(connection: duckdb.DuckDBPyConnection, events: str, after: int = _BEFORE) -> Iterator[int]:
    """Yield the keys beyond `after` of captures with events that contain each other, of rows of `event_ticks`."""
    for (capture_id,) in connection.execute(_MIXED.format(events=events), {"after": after}).fetchall():
        found = connection.execute(_EVENTS.format(events=events), {"capture_id": capture_id}).fetchnumpy()
        if _has_circle(found["key"], found["parent"]):
            yield capture_id


def captures_seen(connection: duckdb.DuckDBPyConnection, prefix: str, most: int = _ALL) -> str:
    """Return the captures up to a key as a text: the largest key, their number, and a hash of keys and contents."""
    [row] = connection.execute(_SEEN.format(prefix=prefix), {"most": most}).fetchall()
    return " ".join(map(str, row))


def _has_circle(keys: npt.NDArray[np.int64], parents: npt.NDArray[np.int64]) -> bool:
    """Whether events lead back to themselves, or two have one key. Each step looks twice as far up."""
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
