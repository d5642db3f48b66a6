"""Loading files into a database in memory for a few queries, by the same code that stores files.

Two things differ: rows are not inserted, but queried where they were decoded, if inserting them would take longer
than most queries; and rollups are not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import chain, islice
from typing import Final

import duckdb
import pyarrow as pa

from etq.database.rollups import describe_runs
from etq.ingest.arrow import LazyBatch, Rows
from etq.ingest.registry import is_json, read_capture
from etq.storage.capture import Options, insert_new, new_capture
from etq.storage.inserting import EVENTS
from etq.storage.naming import free_name
from etq.storage.sources import Source

# Tables that are empty for most files. If DuckDB knows this when it plans a query, it leaves out their part of the
# plan.
RARE_TABLES: Final = ("device_events", "trace_memory")


def load_ephemeral(
    database: Callable[[], tuple[duckdb.DuckDBPyConnection, Container[str]]], source: Source, options: Options
) -> None:
    """Load one file into an empty database in memory that has only these tables, for a few queries.

    `database` is called, and returns the database, when the first rows are ready.
    """
    source.start_hashing()
    reading = read_capture(source.content, source.uri, options.clock_bits)
    first = [*islice(reading, 1)]
    connection, tables = database()
    # An ETDump's events are queried where they were decoded. A trace's events are inserted: views join them by time,
    # and without their number DuckDB would choose a plan that compares every pair.
    in_place = _load(
        connection, 1, tables, chain(first, reading), source, options, zero_copy=not is_json(source.content)
    )
    for table, each in in_place.items():
        connection.register(f"_{table}_1", each)
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE VIEW {table} AS SELECT 1 AS capture_id, * FROM _{table}_1")
    for table in RARE_TABLES:
        if table in tables and not connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
            connection.execute(f"ALTER TABLE {table} RENAME TO _no_{table}")
            connection.execute(f"CREATE VIEW {table} AS FROM _no_{table} WHERE false")


def load_second(connection: duckdb.DuckDBPyConnection, source: Source, options: Options) -> int:
    """Load a second file into such a database; return its capture_id,
    or that of the first file if the content is the same.
    """
    known = connection.execute("SELECT capture_id FROM captures WHERE sha256 = ?", [source.sha256]).fetchall()
    if known:
        return int(known[0][0])
    views = {
        name for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    }
    for table in views & set(RARE_TABLES):
        connection.execute(f"DROP VIEW {table}; ALTER TABLE _no_{table} RENAME TO {table}")
    tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    reading = read_capture(source.content, source.uri, options.clock_bits)
    known_tables = {name for (name,) in tables} | views
    in_place = _load(connection, 2, known_tables, reading, source, options, zero_copy=EVENTS in views)
    for table, each in in_place.items():
        connection.register(f"_{table}_2", each)
        if table in views:
            first = f"SELECT 1 AS capture_id, * FROM _{table}_1 UNION ALL"
        else:
            first = ""
            connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {first} SELECT 2 AS capture_id, * FROM _{table}_2")
    describe_runs(connection, 2, 2)
    return 2


def _load(
    connection: duckdb.DuckDBPyConnection,
    capture_id: int,
    tables: Container[str],
    reading: Iterable[tuple[str, Rows]],
    source: Source,
    options: Options,
    *,
    zero_copy: bool,
) -> dict[str, pa.Table | LazyBatch]:
    """Insert the rows of these tables; return the rows that are not inserted: those that are computed when they are
    read, and, with `zero_copy`, events.
    """

    def is_aside(table: str, rows: Rows) -> bool:
        return table not in tables or isinstance(rows, LazyBatch) or (zero_copy and table == EVENTS)

    capture = new_capture(free_name(connection, "captures", source), source, options, reading)
    aside = [each for each in insert_new(connection, {capture_id: capture}, is_aside) if each[0] in tables]
    events = [rows for table, rows in aside if table == EVENTS]
    lazy = {table: rows for table, rows in aside if isinstance(rows, LazyBatch)}
    return lazy | ({EVENTS: pa.Table.from_batches(events)} if events else {})
