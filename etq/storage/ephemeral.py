"""Loading files into a database in memory for a few queries, by the same code that stores files.

Three things differ: the rows of a table are not inserted before a query names the table; rows are queried where they
were decoded if inserting them would take longer than most queries; and rollups are not computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice

import duckdb
import pyarrow as pa

from etq import catalog
from etq.database.rollups import describe_runs
from etq.ingest.arrow import LazyBatch, Rows
from etq.ingest.registry import is_json, read_capture
from etq.storage.capture import Options, insert_new, new_capture, store_once
from etq.storage.inserting import EVENTS, insert, insert_captures
from etq.storage.naming import free_name
from etq.storage.records import ReadRecord
from etq.storage.sources import Source

# The rows of a capture by table.
Read = Mapping[str, list[Rows]]


def load_ephemeral(database: Callable[[], duckdb.DuckDBPyConnection], source: Source, options: Options) -> Read:
    """Load one file into an empty database in memory; return the rows that are not inserted yet, for `fill`.

    `database` is called, and returns a connection as of `defining`, when the first rows are ready.
    """
    source.start_hashing()
    reading = read_capture(source.content, source.uri, options.clock_bits, options.recorded)
    first = [*islice(reading, 1)]
    connection = database()
    # An ETDump's events are queried where they were decoded. A trace's events are inserted: views join them by time,
    # and without their number DuckDB would choose a plan that compares every pair.
    zero_copy = not is_json(source.content)
    # What is found in values is found in tables.
    is_inserted = options.debug_buffer is not None
    return _load(
        connection,
        1,
        chain(first, reading),
        source,
        options,
        lambda table, rows: _is_in_place(table, rows, zero_copy) or (table != EVENTS and not is_inserted),
    )


def fill(connection: duckdb.DuckDBPyConnection, tables: Iterable[str], read: Read) -> None:
    """Fill tables that were created with the rows of the first file."""
    for table in tables:
        rows = read.get(table, [])
        if rows and _is_in_place(table, rows[0], True):
            connection.register(f"_{table}_1", _joined(rows))
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"CREATE VIEW {table} AS SELECT 1 AS capture_id, * FROM _{table}_1")
        elif rows:
            insert_captures(connection, [(1, [(table, part) for part in rows])])


def load_record(
    connection: duckdb.DuckDBPyConnection, record: ReadRecord
) -> tuple[int, dict[str, list[pa.RecordBatch]]]:
    """Store the first record of such a database; return its key, and the other tables' rows, for `fill_record`."""
    aside: dict[str, list[pa.RecordBatch]] = {}
    for table, rows in record.rows:
        aside.setdefault(table, []).append(rows)
    own = [("records", rows) for rows in aside.pop("records")]
    key, _ = store_once(connection, "records", record.source, None, iter(own))
    return key, aside


def fill_record(
    connection: duckdb.DuckDBPyConnection, tables: Iterable[str], read: Mapping[str, list[pa.RecordBatch]]
) -> None:
    """Fill tables that were created with the rows of the first record."""
    for table in tables:
        for rows in read.get(table, []):
            insert(connection, table, 1, rows, "record_id")


def load_second(connection: duckdb.DuckDBPyConnection, source: Source, options: Options) -> int:
    """Load a second file into such a database; return its capture_id,
    or that of the first file if the content is the same.
    """
    known = connection.execute("SELECT capture_id FROM captures WHERE sha256 = ?", [source.sha256]).fetchall()
    if known:
        return int(known[0][0])
    # To have all filled with the rows of the first file: while rows are inserted, others can't be.
    of_captures = [table.name for table in catalog.tables() if table.columns[0].name == "capture_id"]
    connection.execute("; ".join(f"FROM {table} LIMIT 0" for table in of_captures))
    views = {
        name for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    }
    reading = read_capture(source.content, source.uri, options.clock_bits, options.recorded)
    zero_copy = EVENTS in views
    read = _load(connection, 2, reading, source, options, lambda table, rows: _is_in_place(table, rows, zero_copy))
    for table, rows in read.items():
        connection.register(f"_{table}_2", _joined(rows))
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
    reading: Iterable[tuple[str, Rows]],
    source: Source,
    options: Options,
    is_aside: Callable[[str, Rows], bool],
) -> Read:
    """Insert the rows of a file, except those for which `is_aside` is true; return these."""
    capture = new_capture(free_name(connection, "captures", source), source, options, reading)
    read: defaultdict[str, list[Rows]] = defaultdict(list)
    for table, rows in insert_new(connection, {capture_id: capture}, is_aside):
        read[table].append(rows)
    return read


def _is_in_place(table: str, rows: Rows, zero_copy: bool) -> bool:
    """Whether rows are queried where they were decoded: those that are computed when they are read, and, with
    `zero_copy`, events.
    """
    return isinstance(rows, LazyBatch) or (zero_copy and table == EVENTS)


def _joined(rows: list[Rows]) -> pa.Table | LazyBatch:
    [*batches] = (part for part in rows if isinstance(part, pa.RecordBatch))
    return pa.Table.from_batches(batches) if batches else rows[-1]
