"""Checks of the rows that queries rely on: keys are unique, and events are within each other without a circle.

Queries join rows by their keys: equal keys multiply rows, with each join. And they follow the events that contain an
event to the outermost one: in a circle they would not end. A warehouse from others may have such rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final

import duckdb

from etq.errors import WarehouseError
from etq.ingest import memory

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Columns that no two rows of a table have in common. `etq check` compares rollups as a whole.
KEYS: Final = (
    ("labels", ("capture_id", "key")),
    ("metrics", ("capture_id", "run_index", "name", "source", "sample")),
    ("runs", ("capture_id", "run_index")),
    ("signatures", ("capture_id", "signature_index")),
    ("event_ticks", ("capture_id", "run_index", "event_index")),
    ("signature_ops", ("capture_id", "signature_index")),
    ("threads", ("capture_id", "thread_index")),
    ("trace_events", ("capture_id", "run_index", "event_index")),
    ("trace_steps", ("capture_id", "run_index")),
    ("device_events", ("capture_id", "run_index", "event_index")),
    ("op_arguments", ("capture_id", "run_index", "event_index")),
    ("event_counters", ("capture_id", "run_index", "event_index", "counter")),
    ("graphs", ("record_id", "graph_id")),
    ("op_nodes", ("record_id", "graph_id", "node_index")),
    ("record_members", ("record_id", "member_index")),
    ("methods", ("program_id", "method_index")),
    ("methods", ("program_id", "method")),
    ("instructions", ("program_id", "method", "chain_index", "instruction_id")),
    ("program_values", ("program_id", "method", "value_index")),
    ("change_comments", ("comment_id",)),
)  # fmt: skip
# Captures in which some events come before and some after the one that contains them, and how many have one: ETDumps
# write an event when it ends, and have no others; traces write events in any order.
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
# What an event takes as arrays, and while DuckDB makes them (measured: 73).
_ROW_BYTES: Final = 80


def check_rows(connection: duckdb.DuckDBPyConnection, path: str, prefix: str, lacks: Container[str] = ()) -> None:
    """Raise `WarehouseError` if rows have the same key, or events of a capture contain each other in a circle.

    `prefix` is that of the tables' names; `lacks` are the tables that its schema does not have. Raises `FormatError`
    for more events than there is memory for.
    """
    for table, columns in KEYS:
        if table in lacks:
            continue
        query = f"SELECT 1 FROM {prefix}{table} GROUP BY {', '.join(columns)} HAVING count(*) > 1 LIMIT 1"
        if connection.execute(query).fetchall():
            raise WarehouseError(
                f"{path}: damaged: rows of {table} have the same {', '.join(columns)}; use a copy of it"
            )
    for capture_id in in_circles(connection, f"{prefix}event_ticks", path):
        raise WarehouseError(
            f"{path}: damaged: events of the capture {capture_id} contain each other; use a copy of it"
        )


def in_circles(connection: duckdb.DuckDBPyConnection, events: str, path: str) -> Iterator[int]:
    """Yield the keys of captures with events that contain each other, of rows of `event_ticks`.

    Raises `FormatError` for the file at `path` if a capture has more events than there is memory for.
    """
    for capture_id, rows in connection.execute(_MIXED.format(events=events)).fetchall():
        memory.refuse_beyond(path, f"to check the {rows:,} events of the capture {capture_id}", rows * _ROW_BYTES)
        found = connection.execute(_EVENTS.format(events=events), {"capture_id": capture_id}).fetchnumpy()
        if _has_circle(found["key"], found["parent"]):
            yield capture_id


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
