"""Stores a profiling file in a warehouse within a transaction, completely or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from etq import catalog
from etq.annotations.discovery import Discovered
from etq.annotations.labels import CAPTURED_AT, add_labels, check_label, check_labels, moment_of, set_labels
from etq.choices import UNITS
from etq.database.rollups import is_pruned
from etq.errors import ArgumentError, ArgumentTypeError
from etq.ingest.arrow import Rows, batch, integers, texts
from etq.ingest.costs.assumptions import assumptions
from etq.ingest.memory import available
from etq.ingest.registry import Given, read_capture
from etq.storage.given import check_given
from etq.storage.inserting import insert, insert_captures, set_aside
from etq.storage.linking import link, link_many
from etq.storage.naming import check_name, check_name_is_free, free_name
from etq.storage.sources import Source
from etq.version import VERSION

# Memory limit of DuckDB, in megabytes, while a file is inserted: without a limit, it caches everything that it has
# written to disk.
INSERT_MEMORY: Final = 128
# With this many threads, sorting the times takes as much memory as the file has bytes; with fewer threads, it takes
# proportionally less. All other work takes this many megabytes.
_THREADS: Final = 8
_ROOM: Final = 160
# The rollups of a trace join its host and device events: with less memory for each event, DuckDB writes the joined rows
# to disk, which takes twice the time. This happens for traces that are too large for this many megabytes.
_BYTES_PER_EVENT: Final = 900
_MOST_ROOM: Final = 768
# Units of memory limits as DuckDB prints them.
_BYTES: Final[dict[str, int]] = {
    unit: 1024**power for power, unit in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"))
}

# Findings about files that were given with a trace, which are no longer known.
OF_GIVEN: Final = ("graph capture", "graph not matched", "no graph launched")

# Columns of `captures` that refer to records and programs by key.
Links = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Options:
    """The options that a user sets for a file, and the annotations found for it; None where not set.

    Raises `ArgumentError` for invalid values, `FormatError` for files of another kind than stated.
    """

    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    captured_at: datetime | None = None
    time_scale: str | None = None
    clock_bits: int | None = None
    debug_buffer: Source | None = None
    keep_values: bool = False
    discovered: Discovered = field(default_factory=Discovered)
    metrics: tuple[Source, ...] = ()
    graph_captures: tuple[Source, ...] = ()
    assume: str | None = None

    def __post_init__(self) -> None:
        check_labels(self.labels)
        assumptions(self.assume)
        if self.captured_at is not None and not isinstance(self.captured_at, datetime):
            raise ArgumentTypeError(f"captured_at is a datetime, not {self.captured_at!r}")
        if self.time_scale is not None and self.time_scale not in UNITS:
            raise ArgumentError(f"no time scale {self.time_scale!r}; known are {', '.join(UNITS)}")
        if self.clock_bits not in (None, 32, 64):
            raise ArgumentError(f"a clock of {self.clock_bits} bits; known are 32 and 64")
        for meant, sources in (
            ("a debug buffer", () if self.debug_buffer is None else (self.debug_buffer,)),
            ("a file of metrics", self.metrics),
            ("a graph capture", self.graph_captures),
        ):
            for source in sources:
                check_given(source, meant)

    @property
    def given(self) -> Given:
        """What is known of the file besides its bytes."""
        recorded = [(source.content, source.uri) for source in self.graph_captures]
        return Given(self.clock_bits, recorded, assumptions(self.assume))


class NewCapture(NamedTuple):
    """A file with new content, its name and labels, and the tables that were read from it."""

    name: str
    source: Source
    options: Options
    labels: Mapping[str, str]
    tables: Iterable[tuple[str, Rows]]


def new_capture(name: str, source: Source, options: Options, tables: Iterable[tuple[str, Rows]]) -> NewCapture:
    """Return a file that is to be stored. Raises `ArgumentError` for an invalid name or label."""
    check_name(name)
    # Labels that the user gives override those that were found.
    labels = {**options.discovered.labels, **options.labels}
    for key, value in labels.items():
        check_label(key, value)
    moment = labels.pop(CAPTURED_AT, None)
    if moment is not None and options.captured_at is None:
        options = replace(options, captured_at=moment_of(moment))
    return NewCapture(name, source, options, labels, tables)


def store(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    options: Options,
    links: Links = (),
    reading: Iterable[tuple[str, Rows]] | None = None,
) -> tuple[int, bool]:
    """Store a file as a capture, or apply the options and links to the existing capture of the same content.

    `reading` has the tables of new content, None to read them here. Returns the capture_id, and whether it is new. The
    caller holds a transaction.
    """
    if last_id(connection) == 0:
        # The database is empty, so the content can't be known, and reading needn't wait for the hash.
        source.start_hashing()
        known = []
    else:
        known = connection.execute(
            "SELECT capture_id, name, clock_bits, time_scale, assumed FROM captures WHERE sha256 = ?", [source.sha256]
        ).fetchall()
    if not known:
        if options.name is None:
            name = free_name(connection, "captures", source)
        else:
            name = options.name
            check_name_is_free(connection, "captures", name, 0)
        if reading is None:
            reading = read_capture(source.content, source.uri, options.given)
        [capture_id] = store_new(connection, [new_capture(name, source, options, reading)], links)
        return capture_id, True
    [(capture_id, name, clock_bits, time_scale, assumed)] = known
    if options.name is not None:
        check_name_is_free(connection, "captures", options.name, capture_id)
    is_other = options.clock_bits not in (None, clock_bits) or bool(options.graph_captures)
    if options.assume is not None and options.given.assumed != assumptions(assumed):
        is_other = True
        _check_has_given(connection, capture_id, name, options)
    if is_other or options.debug_buffer is not None or is_pruned(connection, capture_id):
        read_again(connection, capture_id, name, source, options)
    _update_capture(connection, capture_id, options)
    if options.time_scale not in (None, time_scale):
        _fill_rollups(connection, capture_id)
    _annotate(connection, capture_id, options)
    _link(connection, capture_id, links)
    return capture_id, False


def _check_has_given(connection: duckdb.DuckDBPyConnection, capture_id: int, name: str, options: Options) -> None:
    """Raise `ArgumentError` if a trace that is to be read again was read with captures of its graphs, and none are
    given.
    """
    query = "SELECT 1 FROM findings AS f WHERE f.capture_id = ? AND list_contains(?::VARCHAR[], f.rule) LIMIT 1"
    if not options.graph_captures and connection.execute(query, [capture_id, [*OF_GIVEN]]).fetchall():
        raise ArgumentError(
            f"{name} was read with a capture of its graphs; give that again with the new sizes: "
            "graph_captures (--graph-capture)"
        )


def store_new(connection: duckdb.DuckDBPyConnection, captures: Sequence[NewCapture], links: Links) -> list[int]:
    """Store captures with their annotations, and link them; return their keys, which are consecutive.

    A single capture is inserted while it is read. The caller holds a transaction.
    """
    first = last_id(connection) + 1
    keyed = dict(enumerate(captures, first))
    insert_new(connection, keyed)
    metrics = {key: each.options.discovered.metrics for key, each in keyed.items()}
    if any(metrics.values()) or any(capture.options.metrics for capture in captures):
        from etq.storage.metrics import add_metrics_of_new, store_metrics

        add_metrics_of_new(connection, metrics)
        for key, each in keyed.items():
            for source in each.options.metrics:
                store_metrics(connection, key, source)
    for column, to in links:
        link_many(connection, [*keyed], column, to)
    ensure_ingest_order(connection, first)
    last = first + len(captures) - 1
    _make_room(connection, sum(len(capture.source.content) for capture in captures), first, last)
    _fill_rollups(connection, first, last, is_new=True)
    return [*keyed]


def _fill_rollups(
    connection: duckdb.DuckDBPyConnection, first: int, last: int | None = None, *, is_new: bool = False
) -> None:
    """Write rollups and advice, as `etq.advice.filling` does."""
    # Imported here, as reading a file doesn't need it.
    from etq.advice.filling import fill_rollups

    fill_rollups(connection, first, last, is_new=is_new)


def insert_new(
    connection: duckdb.DuckDBPyConnection,
    captures: Mapping[int, NewCapture],
    is_aside: Callable[[str, Rows], bool] = lambda table, rows: False,
) -> list[tuple[str, Rows]]:
    """Insert the rows of captures, by capture_id; return the rows for which `is_aside` is true instead of inserting
    them.

    This function inserts captures both into files and in memory.
    """
    aside: list[tuple[str, Rows]] = []
    logged: dict[int, list[tuple[str, Rows]]] = {key: [] for key in captures}

    def readings() -> Iterator[tuple[int, Iterable[tuple[str, Rows]]]]:
        for key, each in captures.items():
            rows = set_aside(described_tables(each), is_aside, aside)
            if each.options.debug_buffer is not None:
                rows = set_aside(rows, lambda table, _: table == "debug_values", logged[key])
            yield key, rows

    insert_captures(connection, readings())
    for key, each in captures.items():
        if each.options.debug_buffer is not None:
            from etq.storage.values import find_in_values, insert_values

            for _, rows in logged[key]:
                insert_values(connection, key, rows, each.options.debug_buffer, each.options.keep_values)
            find_in_values(connection, key, each.options.debug_buffer)
    return aside


def last_id(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the largest capture_id, 0 in an empty database."""
    return int(connection.execute("SELECT coalesce(max(capture_id), 0) FROM captures").fetchall()[0][0])


def ensure_ingest_order(connection: duckdb.DuckDBPyConnection, first_id: int) -> None:
    """Make the ingest times of captures from this key on later than all earlier ones, even if the clock was set
    back.
    """
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
    """Attach labels and metrics to a known capture. Only labels and metrics that the user gives replace
    existing ones.
    """
    when = {"captured_at"} if options.captured_at is not None else set()
    set_labels(connection, capture_id, {key: each for key, each in options.labels.items() if key not in when})
    add_labels(connection, capture_id, options.discovered.labels)
    if options.metrics or options.discovered.metrics:
        from etq.storage.metrics import add_metrics, advise_by_peaks, store_metrics

        add_metrics(connection, capture_id, options.discovered.metrics)
        for source in options.metrics:
            store_metrics(connection, capture_id, source)
        advise_by_peaks(connection, capture_id)


def _link(connection: duckdb.DuckDBPyConnection, capture_id: int, links: Links) -> None:
    """Link a known capture, unless it already has these links."""
    for column, key in links:
        query = f"SELECT 1 FROM captures AS c WHERE c.capture_id = ? AND c.{column} = ?"
        if not connection.execute(query, [capture_id, key]).fetchall():
            link(connection, capture_id, column, key)


def store_once(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    source: Source,
    name: str | None,
    rows_of_tables: Iterator[tuple[str, pa.RecordBatch]],
) -> tuple[int, bool]:
    """Store a record or program; if its content is known, only rename the stored record or program.

    `table` is `records` or `programs`; its one row in `rows_of_tables` lacks the columns that the file doesn't state,
    such as the name. Returns the key, and whether the content is new. The caller holds a transaction.
    """
    column = f"{table.removesuffix('s')}_id"
    last_key = connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}").fetchall()[0][0]
    known = []
    if last_key == 0:
        # The table is empty, so the content can't be known, and reading needn't wait for the hash.
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
    """Limit DuckDB's memory to `INSERT_MEMORY` within the block, except while advice is computed, and for a database in
    memory.
    """
    before = _byte_size(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])
    most = max(before // 10**6, 1)
    connection.execute(f"SET memory_limit = '{min(INSERT_MEMORY, most)}MB'; SET VARIABLE most_memory = {most}")
    try:
        yield
    finally:
        connection.execute(f"SET memory_limit = '{before}B'; RESET VARIABLE most_memory")


def _byte_size(limit: str) -> int:
    """Return the smallest number of bytes that DuckDB prints as this memory limit, such as 1.8 GiB.

    DuckDB cuts off all but one digit, in whole numbers of the smaller unit: 1.8 GiB is 1 GiB and 820 MiB or more. A
    larger number could exceed the limit that was set; a smaller number would lower the limit each time that it is
    restored.
    """
    number, unit = limit.split()
    whole, _, tenth = number.partition(".")
    return int(whole) * _BYTES[unit] + math.ceil(int(tenth or 0) * 1024 / 10) * _BYTES[unit] // 1024


def _make_room(connection: duckdb.DuckDBPyConnection, byte_size: int, first: int, last: int) -> None:
    """Raise the memory limit for large captures, given by the size of their files and the range of their capture_ids,
    at most up to the connection's own limit and the memory that is left.

    Their rollups sort the times of all ops, which DuckDB can't do on disk.
    """
    query = f"""
        SELECT
            getvariable('most_memory'),
            current_setting('threads'),
            (SELECT count(*) FROM trace_events AS t WHERE t.capture_id BETWEEN {first:d} AND {last:d})
    """
    [(most, threads, events)] = connection.execute(query).fetchall()
    size = byte_size >> 20
    for_trace = min(events * _BYTES_PER_EVENT >> 20, _MOST_ROOM)
    megabytes = max(min(size, _ROOM + size * threads // _THREADS), for_trace)
    megabytes = min(megabytes, available() // 10**6)
    if most is not None and megabytes > INSERT_MEMORY:
        connection.execute(f"SET memory_limit = '{min(megabytes, most)}MB'")


def described_tables(capture: NewCapture) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of all tables of a file, with its labels and the columns that the file doesn't state."""
    options = capture.options
    for table, rows in capture.tables:
        if table == "labels" and isinstance(rows, pa.RecordBatch):
            # Given labels override the labels in the file.
            labels = [each for each in rows.to_pylist() if each["key"] not in capture.labels]
            if labels:
                yield table, batch({column: texts([label[column] for label in labels]) for column in ("key", "value")})
            continue
        if table != "captures":
            yield table, rows
            continue
        described = _described(rows, capture.source, capture.name)
        columns = dict(zip(described.schema.names, described.columns, strict=True))
        # A given time overrides the time in the file.
        if options.captured_at is not None or "captured_at" not in columns:
            moment = None if options.captured_at is None else _microseconds(options.captured_at)
            columns["captured_at"] = integers([moment], np.int64).view(pa.timestamp("us"))
        yield table, batch({"time_scale": texts([options.time_scale or "ns"]), **columns})
    if capture.labels:
        keys, values = list(capture.labels), list(capture.labels.values())
        yield "labels", batch({"key": texts(keys), "value": texts(values)})


def _described(rows: pa.RecordBatch, source: Source, name: str) -> pa.RecordBatch:
    """Return the one row of a file, with the columns that the file doesn't state."""
    columns = {
        "sha256": texts([source.sha256]),
        "name": texts([name]),
        "uri": texts([source.place]),
        "size_bytes": integers([len(source.content)], np.int64),
        "ingested_at": integers([_microseconds(datetime.now(UTC))], np.int64).view(pa.timestamp("us")),
        "etq_version": texts([VERSION]),
    }
    return batch({**columns, **dict(zip(rows.schema.names, rows.columns, strict=True))})


def read_again(
    connection: duckdb.DuckDBPyConnection, capture_id: int, name: str, source: Source, options: Options
) -> None:
    """Read a file again with new options; its name, scale, dates, links and phases stay.

    Values of a debug buffer also stay, unless `options` has a debug buffer: they are not in the file itself.
    """
    kept = connection.execute(
        """
        SELECT captured_at, ingested_at, time_scale, clock_bits, record_id, program_id, assumed
        FROM captures WHERE capture_id = ?
        """,
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
    captured_at, ingested_at, time_scale, clock_bits, record_id, program_id, assumed = kept[0]
    again = replace(
        options, name=name, captured_at=captured_at, time_scale=time_scale,
        clock_bits=options.clock_bits or clock_bits, assume=assumed if options.assume is None else options.assume,
    )  # fmt: skip
    reading = read_capture(source.content, source.uri, again.given)
    # The capture's labels stay; the caller sets labels from the options.
    capture = NewCapture(name, source, again, {}, reading)
    insert_new(connection, {capture_id: capture}, lambda table, _: table in staying)
    # Keys are in the order of ingest.
    connection.execute("UPDATE captures SET ingested_at = ? WHERE capture_id = ?", [ingested_at, capture_id])
    if run_phases:
        connection.executemany("UPDATE runs SET phase = ? WHERE run_index = ? AND capture_id = ?", run_phases)
    for column, key in (("program_id", program_id), ("record_id", record_id)):
        if key is not None:
            link_many(connection, [capture_id], column, key)
    _make_room(connection, len(source.content), capture_id, capture_id)
    _fill_rollups(connection, capture_id)


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
    """Return microseconds since 1970 in UTC; a time without a time zone is in UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
