"""Removing captures, and keeping only the latest ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import duckdb

from etq import catalog
from etq.advice.filling import ranks_of, refill, write_once
from etq.database.database import Database
from etq.database.handles import Capture
from etq.database.nearest import unknown_key
from etq.database.rollups import PRUNED
from etq.errors import ArgumentError

# The tables whose size depends on the number of events, and the tables of costs; pruning empties them if it keeps
# rollups.
EVENT_TABLES: Final = (
    "event_ticks", "allocations", "debug_values", "trace_events", "op_arguments", "device_events", "event_counters",
    "host_collectives", "host_waits", "device_gaps", "gap_parts", "trace_memory", "event_memory", "call_costs",
    "costed_ops", "op_values",
)  # fmt: skip
# The tables whose rows `remove_captures` and `prune_events` read for these captures; rows of other tables are only
# deleted.
REMOVING: Final = ("captures", "labels")
PRUNING: Final = tuple(table.name for table in catalog.tables() if table.name not in EVENT_TABLES)


def outdated_captures(
    database: Database,
    keep_last: int,
    by: Sequence[str],
    selectors: Sequence[str] | None,
    *,
    over: str | None = None,
    keep_rollups: bool,
) -> list[Capture]:
    """Return the captures to prune, as `Warehouse.prune` documents; with `keep_rollups`, without those already pruned.

    Raises `ArgumentError` for a number below 0 and a key that no label has.
    """
    if isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 0:
        raise ArgumentError(f"keep_last must be a number of captures, not {keep_last!r}")
    with database.lock:
        _check_keys(database.connection, by)
        _check_keys(database.connection, [over] if over not in (None, "captured_at") else [])
    query = """
        SELECT c.capture_id, c.name, c.sha256, c.format
        FROM _outdated_captures(
            $keep_last, "by" := $keys::VARCHAR[], selectors := $selectors::VARCHAR[], over := $over::VARCHAR
        ) AS o
        JOIN captures AS c ON c.capture_id = o.capture_id
        WHERE NOT (o.is_pruned AND $keep_rollups)
        ORDER BY o.group_values, o.age DESC
    """
    parameters = {"keep_last": keep_last, "keys": list(by), "keep_rollups": keep_rollups, "over": over}
    chosen = None if selectors is None else list(selectors)
    return [Capture(*row) for row in database.fetch(query, {**parameters, "selectors": chosen})]


def remove_captures(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> None:
    """Delete all rows of these captures. The caller holds a transaction."""
    ranks = ranks_of(connection, capture_ids)
    for table in catalog.tables():
        if any(column.name == "capture_id" for column in table.columns):
            _delete(connection, table.name, capture_ids)
    refill(connection, sorted({*ranks} - {*capture_ids}))


def prune_events(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> None:
    """Delete the events of these captures, and add a finding about it. The caller holds a transaction."""
    write_once(connection)  # while there are events
    for table in EVENT_TABLES:
        _delete(connection, table, capture_ids)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    detail = f"pruned at {when} UTC; rollups, labels and metrics are kept, and ingesting the file again brings all back"
    connection.execute(
        "INSERT INTO findings SELECT unnest($keys::INTEGER[]), $rule, $detail",
        {"keys": list(capture_ids), "rule": PRUNED, "detail": detail},
    )
    # The rank that others waited for may be gone.
    refill(connection, ranks_of(connection, capture_ids))


def _delete(connection: duckdb.DuckDBPyConnection, table: str, capture_ids: Sequence[int]) -> None:
    query = f"DELETE FROM {table} WHERE capture_id IN (SELECT unnest($keys::INTEGER[]))"
    connection.execute(query, {"keys": list(capture_ids)})


def _check_keys(connection: duckdb.DuckDBPyConnection, keys: Sequence[str]) -> None:
    if isinstance(keys, str):
        raise ArgumentError(f"by must be a list of keys of labels, not {keys!r}")
    known = [key for (key,) in connection.execute("SELECT DISTINCT l.key FROM labels AS l ORDER BY 1").fetchall()]
    if missing := [key for key in keys if key not in known]:
        raise ArgumentError(unknown_key(missing[0], known))
