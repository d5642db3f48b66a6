"""What questions across captures need of each, in a few numbers per op and module: written beside the events."""

from __future__ import annotations

from typing import Final

import duckdb

ROLLUPS: Final = {"op_times": "_find_op_times", "module_times": "_find_module_times"}


def fill_rollups(connection: duckdb.DuckDBPyConnection, capture_id: int, last_id: int | None = None) -> None:
    """Write the rollups of a capture, or of all up to `last_id`, in place of those that are there.

    Whoever changes a capture's events, its record or the phases of its runs calls this. The caller holds a transaction.
    A database that is asked about one file and thrown away has no rollups.
    """
    if not connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'op_times'").fetchall():
        return
    keys = [capture_id, last_id or capture_id]
    for table, finder in ROLLUPS.items():
        connection.execute(f"DELETE FROM {table} WHERE capture_id BETWEEN ? AND ?", keys)
        connection.execute(f"INSERT INTO {table} FROM {finder}(?, ?)", keys)
