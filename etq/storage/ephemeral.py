"""Loading files into a database in memory for a few queries, by the same code that stores files.

Two things differ: rows are queried in place, without inserting them, if inserting would take longer than most queries;
and there are no rollups.
"""

from __future__ import annotations

from collections import defaultdict

import duckdb
import pyarrow as pa

from etq.database.cursors import database_of, register
from etq.database.rollups import describe_runs, leave_answers
from etq.ingest.arrow import LazyBatch, Rows
from etq.ingest.events.own_times import UNSETTLED
from etq.ingest.registry import is_json, read_capture
from etq.storage.capture import Options, insert_new, new_capture
from etq.storage.inserting import EVENTS, settle_runs, settled
from etq.storage.naming import free_name
from etq.storage.sources import Source


def load(connection: duckdb.DuckDBPyConnection, capture_id: int, source: Source, options: Options) -> None:
    """Load a file into a database in memory, as a capture with this key, without the row that marks postponed
    answers.
    """
    reading = read_capture(source.content, source.uri, options.given)
    capture = new_capture(free_name(connection, "captures", source), source, options, reading)
    # An ETDump's events are queried in place. A trace's events are inserted: views join them by time, and if DuckDB
    # didn't know their number, it would choose a plan that compares every pair. Events of a second file are kept in the
    # same way as those of the first.
    is_dump = not is_json(source.content) if capture_id == 1 else _view_of(connection, EVENTS) is not None

    def is_in_place(table: str, rows: Rows) -> bool:
        return isinstance(rows, LazyBatch) or (is_dump and table in (EVENTS, UNSETTLED))

    read: defaultdict[str, list[Rows]] = defaultdict(list)
    for table, rows in insert_new(connection, {capture_id: capture}, is_in_place):
        read[table].append(rows)
    is_unsettled = read.pop(UNSETTLED, None) is not None
    for table, of_table in read.items():
        _see(connection, table, capture_id, of_table)
    if is_unsettled:
        register(connection, f"_{EVENTS}_{capture_id}", settled(connection, capture_id))
        settle_runs(connection, capture_id, capture_id)


def _see(connection: duckdb.DuckDBPyConnection, table: str, capture_id: int, rows: list[Rows]) -> None:
    """Make queries read decoded rows in place, after the rows of the table."""
    [*batches] = (part for part in rows if isinstance(part, pa.RecordBatch))
    register(connection, f"_{table}_{capture_id}", pa.Table.from_batches(batches) if batches else rows[-1])
    seen = f"SELECT {capture_id:d} AS capture_id, * FROM _{table}_{capture_id}"
    place = f"{database_of(connection)}.main.{table}"
    if (view := _view_of(connection, table)) is not None:
        statement = view.rstrip().removesuffix(";").replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)
        connection.execute(f"{statement} UNION ALL {seen}")
    elif connection.execute(f"SELECT 1 FROM {place} LIMIT 1").fetchall():
        connection.execute(f"INSERT INTO {place} BY NAME {seen}")
    else:
        connection.execute(f"DROP TABLE {place}; CREATE VIEW {place} AS {seen}")


def _view_of(connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
    """Return the definition of the view that replaces a table; None if it isn't replaced."""
    query = "SELECT sql FROM duckdb_views() WHERE view_name = ? AND database_name = ? AND NOT temporary"
    found = connection.execute(query, [table, database_of(connection)]).fetchall()
    return found[0][0] if found else None


def load_second(connection: duckdb.DuckDBPyConnection, source: Source, options: Options) -> int:
    """Load a second file into such a database; return its capture_id,
    or that of the first file if the content is the same.
    """
    known = connection.execute("SELECT capture_id FROM captures WHERE sha256 = ?", [source.sha256]).fetchall()
    if known:
        return int(known[0][0])
    load(connection, 2, source, options)
    leave_answers(connection, 2, 2)
    describe_runs(connection, 2, 2)
    return 2
