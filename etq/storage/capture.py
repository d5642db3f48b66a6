"""Storing one profiling file in a warehouse: within a transaction, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from etq import catalog
from etq.annotations.discovery import Discovered
from etq.annotations.labels import add_labels, set_labels
from etq.database.rollups import describe_runs, fill_rollups, is_pruned
from etq.ingest.arrow import LazyBatch, Rows, batch, integers, texts
from etq.ingest.events.rows import EVENT_TICKS
from etq.ingest.registry import is_json, read_capture
from etq.storage.linking import link
from etq.storage.naming import check_name_is_free, free_name
from etq.storage.sources import Source
from etq.version import VERSION

# Memory limit of DuckDB while a file is inserted: without a limit it caches all that it has written to disk.
INSERT_MEMORY: Final = "128MB"
# So many threads sort times in as much memory as the file has bytes, and fewer in less; the rest needs these megabytes.
_THREADS: Final = 8
_ROOM: Final = 64
# An ETDump's events are read where they were decoded: to insert them takes longer than most questions. A trace's are
# inserted: views join them by time, and DuckDB compares each with each where it doesn't know how many there are. Rows
# that are made when somebody reads them, such as a trace's `op_arguments`, are never inserted.
_ZERO_COPY: Final = "event_ticks"
# Tables that are empty for most files. If that is known when a query is planned, their part of the plan is left out.
RARE_TABLES: Final = ("device_events", "trace_memory")


@dataclass(frozen=True)
class Options:
    """The options that a user sets for a file, and the annotations found for it; None where not set."""

    name: str | None
    labels: Mapping[str, str]
    captured_at: datetime | None
    time_scale: str | None
    clock_bits: int | None
    debug_buffer: Source | None = None
    keep_values: bool = False
    discovered: Discovered = field(default_factory=Discovered)
    metrics: tuple[Source, ...] = ()


def store(connection: duckdb.DuckDBPyConnection, source: Source, options: Options) -> tuple[int, bool]:
    """Store a file as a capture, or apply the options to the existing capture of the same content.

    Returns the capture_id, and whether it is new. The caller holds a transaction.
    """
    last_id = connection.execute("SELECT coalesce(max(capture_id), 0) FROM captures").fetchall()[0][0]
    if last_id == 0:
        # No content is known yet, so that reading needn't wait for the hash.
        source.start_hashing()
        known = []
    else:
        known = connection.execute(
            "SELECT capture_id, name, clock_bits FROM captures WHERE sha256 = ?", [source.sha256]
        ).fetchall()
    if not known:
        capture_id = last_id + 1
        name = free_name(connection, "captures", source) if options.name is None else options.name
        check_name_is_free(connection, "captures", name, capture_id)
        _insert_rows(connection, capture_id, name, source, options)
        ensure_ingest_order(connection, capture_id)
    else:
        [(capture_id, name, clock_bits)] = known
        if options.name is not None:
            check_name_is_free(connection, "captures", options.name, capture_id)
        is_other = options.clock_bits not in (None, clock_bits)
        if is_other or options.debug_buffer is not None or is_pruned(connection, capture_id):
            _read_again(connection, capture_id, name, source, options)
        _update_capture(connection, capture_id, options)
    _annotate(connection, capture_id, options)
    return capture_id, not known


def ensure_ingest_order(connection: duckdb.DuckDBPyConnection, first_id: int) -> None:
    """Make the ingest times of captures from this key on later than earlier ones, even if the clock was set back."""
    query = """
        SELECT
            max(c.ingested_at) FILTER (WHERE c.capture_id < $first),
            min(c.ingested_at) FILTER (WHERE c.capture_id >= $first)
        FROM captures AS c
    """
    [(before, first)] = connection.execute(query, {"first": first_id}).fetchall()
    if before is not None and first <= before:
        update = "UPDATE captures SET ingested_at = $before + to_microseconds(1) WHERE capture_id >= $first"
        connection.execute(update, {"before": before, "first": first_id})


def _annotate(connection: duckdb.DuckDBPyConnection, capture_id: int, options: Options) -> None:
    """Attach labels and metrics to a capture. Those that a user gives, now or before, replace those that were found."""
    when = {"captured_at"} if options.captured_at is not None else set()
    set_labels(connection, capture_id, {key: each for key, each in options.labels.items() if key not in when})
    add_labels(connection, capture_id, options.discovered.labels)
    if options.metrics or options.discovered.metrics:
        from etq.storage.metrics import add_metrics, store_metrics

        add_metrics(connection, capture_id, options.discovered.metrics)
        for source in options.metrics:
            store_metrics(connection, capture_id, source)


def store_once(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    source: Source,
    name: str | None,
    rows_of_tables: Iterator[tuple[str, pa.RecordBatch]],
) -> tuple[int, bool]:
    """Store a record or program, or name the existing one of the same content.

    `table` is `records` or `programs`, whose one row among `rows_of_tables` lacks what the file doesn't state. Returns
    the key, and whether it is new. The caller holds a transaction.
    """
    column = f"{table.removesuffix('s')}_id"
    last_key = connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}").fetchall()[0][0]
    known = []
    if last_key == 0:
        # No content is known yet, so that reading needn't wait for the hash.
        source.start_hashing()
    else:
        known = connection.execute(f"SELECT {column} FROM {table} WHERE sha256 = ?", [source.sha256]).fetchall()
    if known:
        [(key,)] = known
        if name is not None:
            check_name_is_free(connection, table, name, key)
            connection.execute(f"UPDATE {table} SET name = ? WHERE {column} = ?", [name, key])
        return key, False
    key = last_key + 1
    unique_name = free_name(connection, table, source) if name is None else name
    check_name_is_free(connection, table, unique_name, key)
    for filled, rows in rows_of_tables:
        insert(connection, filled, key, _described(rows, source, unique_name) if filled == table else rows, column)
    return key, True


@contextmanager
def in_little_memory(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Limit DuckDB's memory to `INSERT_MEMORY`; not for a database in memory, which must hold everything."""
    before = connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    connection.execute(f"SET memory_limit = '{INSERT_MEMORY}'; SET VARIABLE memory_is_little = true")
    try:
        yield
    finally:
        connection.execute(f"SET memory_limit = '{before}'; RESET VARIABLE memory_is_little")


def _make_room(connection: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Raise the memory limit for a large file: rollups sort all times of its ops, which DuckDB can't spill."""
    query = "SELECT getvariable('memory_is_little'), current_setting('threads')"
    [(is_little, threads)] = connection.execute(query).fetchall()
    size = len(source.content) >> 20
    megabytes = min(size, _ROOM + size * threads // _THREADS)
    if is_little and megabytes > int(INSERT_MEMORY.removesuffix("MB")):
        connection.execute(f"SET memory_limit = '{megabytes}MB'")


def load_ephemeral(
    database: Callable[[], tuple[duckdb.DuckDBPyConnection, Container[str]]], source: Source, options: Options
) -> None:
    """Load one file into an empty database in memory that has only these tables, for a few queries.

    `database` is called when there is something to load.
    """
    source.start_hashing()
    reading = read_capture(source.content, source.uri, options.clock_bits)
    first = [*islice(reading, 1)]
    connection, tables = database()
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
    """Load a second file into such a database; returns its capture_id, or the first one's for the same content."""
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
    in_place = _load(connection, 2, known_tables, reading, source, options, zero_copy=_ZERO_COPY in views)
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
    """Insert the rows of these tables; but not lazy ones, and with `zero_copy` not those of `_ZERO_COPY`: these are
    returned."""
    in_place: dict[str, LazyBatch] = {}
    events: list[pa.RecordBatch] = []
    for table, rows in described_tables(reading, free_name(connection, "captures", source), source, options):
        if table not in tables:
            continue
        if isinstance(rows, LazyBatch):
            in_place[table] = rows
        elif table == _ZERO_COPY and zero_copy:
            events.append(rows)
        else:
            _insert_part(connection, table, capture_id, rows, options)
    return in_place | ({_ZERO_COPY: pa.Table.from_batches(events)} if events else {})


def _insert_rows(
    connection: duckdb.DuckDBPyConnection,
    capture_id: int,
    name: str,
    source: Source,
    options: Options,
    staying: Container[str] = (),
) -> None:
    """Insert the rows of all tables: events while they are decoded, in one stream, and then the smaller tables.

    `staying` names the tables that have theirs already.
    """
    others: list[tuple[str, pa.RecordBatch]] = []
    failures: list[BaseException] = []

    def events() -> Iterator[pa.RecordBatch]:
        try:
            reading = read_capture(source.content, source.uri, options.clock_bits)
            for table, rows in described_tables(reading, name, source, options):
                if table == "event_ticks":
                    yield rows
                elif table not in staying:
                    others.append((table, rows))
        except BaseException as error:
            failures.append(error)
            raise

    try:
        insert(connection, "event_ticks", capture_id, pa.RecordBatchReader.from_batches(EVENT_TICKS, events()))
    except duckdb.Error:
        # The decoder's errors pass through the database, which reports only that reading failed.
        if failures:
            raise failures[0] from None
        raise
    for table, rows in others:
        _insert_part(connection, table, capture_id, rows, options)
    if options.debug_buffer is not None:
        from etq.storage.values import find_in_values

        find_in_values(connection, capture_id, options.debug_buffer)
    _make_room(connection, source)
    fill_rollups(connection, capture_id)


def _insert_part(
    connection: duckdb.DuckDBPyConnection, table: str, capture_id: int, rows: pa.RecordBatch, options: Options
) -> None:
    if table == "debug_values" and options.debug_buffer is not None:
        from etq.storage.values import insert_values

        insert_values(connection, capture_id, rows, options.debug_buffer, options.keep_values)
    else:
        insert(connection, table, capture_id, rows)


def insert(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    key: int,
    rows: pa.RecordBatch | pa.RecordBatchReader | pa.Table,
    column: str = "capture_id",
) -> None:
    """Insert rows that lack their first key, the column of that name."""
    connection.register("_rows", rows)
    # The key is part of the statement: a parameter would be a column to fill.
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {key:d} AS {column}, * FROM _rows")
    connection.unregister("_rows")


def described_tables(
    reading: Iterable[tuple[str, Rows]], name: str, source: Source, options: Options
) -> Iterator[tuple[str, Rows]]:
    """The rows of all tables that a file is read into, with the columns of `captures` that the file doesn't state."""
    for table, rows in reading:
        if table != "captures":
            yield table, rows
            continue
        captured_at = None if options.captured_at is None else _microseconds(options.captured_at)
        described = _described(rows, source, name)
        options_columns = {
            "captured_at": integers([captured_at], np.int64).view(pa.timestamp("us")),
            "time_scale": texts([options.time_scale or "ns"]),
        }
        yield table, batch({**options_columns, **dict(zip(described.schema.names, described.columns, strict=True))})


def _described(rows: pa.RecordBatch, source: Source, name: str) -> pa.RecordBatch:
    """The one row of a file, with the columns that the file doesn't state."""
    columns = {
        "sha256": texts([source.sha256]),
        "name": texts([name]),
        "uri": texts([source.uri]),
        "byte_size": integers([len(source.content)], np.int64),
        "ingested_at": integers([_microseconds(datetime.now(UTC))], np.int64).view(pa.timestamp("us")),
        "etq_version": texts([VERSION]),
    }
    return batch({**columns, **dict(zip(rows.schema.names, rows.columns, strict=True))})


def _read_again(
    connection: duckdb.DuckDBPyConnection, capture_id: int, name: str, source: Source, options: Options
) -> None:
    """Read a file again with new options; its name, scale, date, links and phases stay.

    Values of a debug buffer stay, too, unless `options` has a debug buffer: the file alone doesn't have them.
    """
    kept = connection.execute(
        "SELECT captured_at, time_scale, clock_bits, record_id, program_id FROM captures WHERE capture_id = ?",
        [capture_id],
    ).fetchall()
    phases = connection.execute(
        "SELECT phase, run_index FROM runs WHERE capture_id = ? AND phase NOT NULL", [capture_id]
    )
    run_phases = [(*each, capture_id) for each in phases.fetchall()]
    staying = {"labels", "metrics"} | ({"debug_values"} if options.debug_buffer is None else set())
    for table in catalog.tables():
        if table.name not in staying and any(column.name == "capture_id" for column in table.columns):
            connection.execute(f"DELETE FROM {table.name} WHERE capture_id = ?", [capture_id])
    captured_at, time_scale, clock_bits, record_id, program_id = kept[0]
    again = replace(
        options, name=name, captured_at=captured_at, time_scale=time_scale, clock_bits=options.clock_bits or clock_bits
    )
    _insert_rows(connection, capture_id, name, source, again, staying)
    if run_phases:
        connection.executemany("UPDATE runs SET phase = ? WHERE run_index = ? AND capture_id = ?", run_phases)
        fill_rollups(connection, capture_id)
    for column, key in (("program_id", program_id), ("record_id", record_id)):
        if key is not None:
            link(connection, capture_id, column, key)


def _update_capture(connection: duckdb.DuckDBPyConnection, capture_id: int, options: Options) -> None:
    captured_at = None if options.captured_at is None else _in_utc(options.captured_at)
    connection.execute(
        """
        UPDATE captures
        SET name = coalesce(?, name),
            captured_at = coalesce(?, captured_at),
            time_scale = coalesce(?, time_scale)
        WHERE capture_id = ?
        """,
        [options.name, captured_at, options.time_scale, capture_id],
    )


def _microseconds(moment: datetime) -> int:
    """Microseconds since 1970 in UTC; a moment without a time zone is in UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
