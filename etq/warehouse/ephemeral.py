"""Ephemeral warehouses: one file in memory, with only the tables and views that its queries name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import duckdb

from etq.choices import TimeScale
from etq.database.connection import in_memory
from etq.database.database import Database
from etq.database.defining import defining, empty, restart
from etq.database.handles import Capture, Program, Record
from etq.database.rollups import describe_runs
from etq.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

    from etq.storage.ephemeral import Read
    from etq.storage.records import ReadRecord

Result = TypeVar("Result")


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    time_scale: TimeScale | None = None,
    clock_bits: Literal[32, 64] | None = None,
    debug_buffer: str | os.PathLike[str] | None = None,
    etrecord: str | os.PathLike[str] | None = None,
    pte: str | os.PathLike[str] | None = None,
    graph_captures: Sequence[str | os.PathLike[str] | bytes] = (),
) -> Warehouse:
    """Read one profiling file (or its bytes) to ask about it, without storing it: as `etq FILE` does.

    Returns a warehouse in memory with the file's capture, `only`, which all views take where no capture is given:
    `etq.read("run.etdp").op_totals(unit="us")`. A context manager, as what `open` returns. Tables are filled when a
    query names them, and nothing is computed for questions across captures, so that such views as `trend` are empty.

    The options, and errors, are those of `Warehouse.ingest`, with the elements of the values in a debug buffer.
    """
    return open_ephemeral(
        source,
        time_scale=time_scale,
        clock_bits=clock_bits,
        etrecord=etrecord,
        debug_buffer=debug_buffer,
        program=pte,
        graph_captures=graph_captures,
    )[0]


def open_ephemeral(
    source: str | os.PathLike[str] | bytes,
    views: Iterable[str] = (),
    *,
    time_scale: TimeScale | None = None,
    clock_bits: Literal[32, 64] | None = None,
    etrecord: str | os.PathLike[str] | None = None,
    debug_buffer: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
    graph_captures: Sequence[str | os.PathLike[str] | bytes] = (),
    has_typical_runs: bool = True,
    reuses: bool = False,
) -> tuple[Warehouse, Capture]:
    """Do what `read` does; return the warehouse and the capture.

    Without `has_typical_runs`, no run is known as typical: to find them takes longer than a query for all runs.
    `views` are created while the file is read, which makes the first query faster. With `reuses`, the database is the
    one that `give_back` kept, if any. Other options and errors are those of `Warehouse.ingest`; with `etrecord` and
    `program`, the capture is linked to them; with `debug_buffer`, logged values are stored.
    """
    loaded = _Loaded(program is not None or etrecord is not None, has_typical_runs)
    # The database is created while the file is read, as DuckDB doesn't hold the interpreter's lock.
    create = _reused if reuses else _create
    creation = BackgroundCall(lambda: create(["captures", "findings", *views], loaded.fill))
    record: ReadRecord | None = None

    def database() -> duckdb.DuckDBPyConnection:
        nonlocal record
        if etrecord is not None:
            from etq.storage.records import read_record

            record = read_record(source_of(etrecord))
        return creation.result()

    try:
        from etq.storage.capture import Options
        from etq.storage.ephemeral import load_ephemeral
        from etq.storage.given import check_captures, check_takes
        from etq.storage.sources import source_of, traces_of

        buffer = None if debug_buffer is None else source_of(debug_buffer)
        options = Options(
            time_scale=time_scale,
            clock_bits=clock_bits,
            debug_buffer=buffer,
            keep_values=True,
            graph_captures=traces_of(graph_captures),
        )
        file = source_of(source)
        check_takes(file, ETRecord=etrecord, program=program, debug_buffer=debug_buffer)
        check_captures(file, options.graph_captures)
        rows = load_ephemeral(database, file, options)
    finally:
        connection = creation.result()
    loaded.complete(connection, rows)
    warehouse = Warehouse(Database(connection, None))
    [row] = connection.execute("SELECT capture_id, name, sha256, format, true FROM captures").fetchall()
    capture = warehouse.only = Capture(*row).within(warehouse)
    if program is not None:
        loaded.link("program_id", warehouse.ingest_program(program).program_id)
    if record is not None:
        loaded.link("record_id", loaded.add_record(record))
    loaded.complete_links()
    return warehouse, capture


class _Loaded:
    """The rows of a file and of its record, with which tables are filled when they are created."""

    def __init__(self, is_linked: bool, has_typical_runs: bool) -> None:
        self._is_linked = is_linked
        self._has_typical_runs = has_typical_runs
        self._has_nodes = False
        self._to_find: list[str] = []
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._created: list[str] = []  # tables
        self._rows: Read = {}
        self._of_record: dict[str, list[pa.RecordBatch]] = {}

    def complete(self, connection: duckdb.DuckDBPyConnection, rows: Read) -> None:
        """Take the rows, once they are read, and fill the tables that exist."""
        self._connection, self._rows = connection, rows
        created, self._created = self._created, []
        self.fill(created)

    def fill(self, tables: Collection[str]) -> None:
        """Fill tables that were created."""
        self._created += tables
        if self._connection is None:
            return
        from etq.storage.ephemeral import fill, fill_record

        fill(self._connection, tables, self._rows)
        fill_record(self._connection, tables, self._of_record)
        if "runs" in tables and not self._is_linked:
            self._describe_runs()
        if self._is_linked:
            self._to_find += [table for table in ("signature_ops", "signature_outputs") if table in tables]
            self._find()

    def _find(self) -> None:
        """Find what linking determines and was named, once the nodes are there: to plan the search takes longer than
        most queries.
        """
        from etq.storage.linking import find_ops, find_outputs

        while self._has_nodes and self._to_find:
            assert self._connection is not None
            find = find_ops if self._to_find.pop(0) == "signature_ops" else find_outputs
            find(self._connection, 1)

    def add_record(self, record: ReadRecord) -> int:
        """Store a record; its tables, but `records`, are filled when a query names them. Returns its key."""
        from etq.storage.ephemeral import fill_record, load_record

        assert self._connection is not None
        key, self._of_record = load_record(self._connection, record)
        fill_record(self._connection, self._created, self._of_record)
        return key

    def link(self, column: str, key: int) -> None:
        """Set the record or program of the capture, by the column of `captures` that has its key."""
        assert self._connection is not None
        self._connection.execute(f"UPDATE captures SET {column} = ?", [key])

    def complete_links(self) -> None:
        """Find the methods and nodes of the linked record or program, and what describes the runs."""
        if not self._is_linked:
            return
        from etq.storage.linking import find_nodes, set_methods

        assert self._connection is not None
        find_nodes(self._connection, 1)
        set_methods(self._connection, [1])
        self._has_nodes = True
        self._find()
        self._describe_runs()

    def _describe_runs(self) -> None:
        """Write the derived columns of the runs."""
        assert self._connection is not None
        [(format,)] = self._connection.execute("SELECT c.format FROM captures AS c").fetchall()
        has_executes = self._has_typical_runs and format != "torch_trace"
        describe_runs(self._connection, 1, 1, has_executes=has_executes)


def _create(
    names: Iterable[str] = (), fill: Callable[[Collection[str]], None] = lambda tables: None
) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database in memory, as of `defining`."""
    return defining(in_memory(), names, fill)


# An emptied database with its macros, by process: a forked process can't use its parent's.
_kept: dict[int, duckdb.DuckDBPyConnection] = {}


def _reused(names: Iterable[str], fill: Callable[[Collection[str]], None]) -> duckdb.DuckDBPyConnection:
    """Return a connection as `_create` does, to the database that `give_back` kept if there is one."""
    connection = _kept.pop(os.getpid(), None)
    if connection is None:
        return _create(names, fill)
    restart(connection, names, fill)
    return connection


def give_back(warehouse: Warehouse) -> None:
    """Empty an ephemeral warehouse that nothing uses any more, and keep its database for the next file: to create its
    macros takes longer than to read a small file.
    """
    with suppress(duckdb.Error):
        empty(warehouse.connection)
        _kept[os.getpid()] = warehouse.connection


class BackgroundCall(Thread, Generic[Result]):
    """A call on another thread.

    Importing `concurrent.futures` instead would take 5 ms, 2 % of the total time for a small file.
    """

    def __init__(self, call: Callable[[], Result]) -> None:
        super().__init__()
        self._call = call
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Result:
        """Wait for the call; return its result, or raise its error."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._result


def open_ephemeral_record(path: str | os.PathLike[str]) -> tuple[Warehouse, Record]:
    """Load one ETRecord into a warehouse in memory. Errors are those of `Warehouse.ingest_record`."""
    warehouse = Warehouse(Database(_create(), None))
    return warehouse, warehouse.ingest_record(path)


def open_ephemeral_program(path: str | os.PathLike[str]) -> tuple[Warehouse, Program]:
    """Load one program into a warehouse in memory. Errors are those of `Warehouse.ingest_program`."""
    warehouse = Warehouse(Database(_create(), None))
    return warehouse, warehouse.ingest_program(path)
