"""Ephemeral warehouses: one file in memory, with only the views that a query needs, created in a few milliseconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import duckdb

from etq import catalog
from etq.choices import TimeScale
from etq.database import schema
from etq.database.connection import settings
from etq.database.database import Database
from etq.database.handles import Capture, Program, Record
from etq.database.rollups import describe_runs
from etq.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from etq.storage.records import ReadRecord

Result = TypeVar("Result")


def open_ephemeral(
    source: str | os.PathLike[str] | bytes,
    views: Iterable[str],
    *,
    time_scale: TimeScale | None = None,
    clock_bits: Literal[32, 64] | None = None,
    etrecord: str | os.PathLike[str] | None = None,
    debug_buffer: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
) -> tuple[Warehouse, Capture]:
    """Load one file (or its bytes) into a warehouse in memory that has only the named views.

    This is the fast way to ask a few questions about one file. Options and errors are those of `Warehouse.ingest`; with
    `etrecord` and `program`, the capture is linked to them; with `debug_buffer`, logged values are stored.
    """
    needed = [*views, *(catalog.objects_of_linking() if etrecord or program else ())]
    if program:
        from etq.storage.programs import program_tables

        needed += program_tables()
    needed += catalog.objects_of_values() if debug_buffer else ()
    # The database is created while the file is read, as DuckDB doesn't hold the interpreter's lock.
    creation = BackgroundCall(lambda: _create(needed))
    record: ReadRecord | None = None

    def database() -> tuple[duckdb.DuckDBPyConnection, list[str]]:
        nonlocal record
        if etrecord is not None:
            from etq.storage.records import read_record

            record = read_record(source_of(etrecord))
        return creation.result()

    try:
        from etq.storage.capture import Options
        from etq.storage.ephemeral import load_ephemeral
        from etq.storage.sources import source_of

        buffer = None if debug_buffer is None else source_of(debug_buffer)
        options = Options(time_scale=time_scale, clock_bits=clock_bits, debug_buffer=buffer, keep_values=True)
        load_ephemeral(database, source_of(source), options)
    finally:
        connection, tables = creation.result()
    warehouse = Warehouse(Database(connection, None))
    [row] = connection.execute("SELECT capture_id, name, sha256, format, true FROM captures").fetchall()
    capture = Capture(*row)
    if program is not None:
        _link(connection, capture, "program_id", warehouse.ingest_program(program).program_id)
    if record is not None:
        _link(connection, capture, "record_id", _store(connection, record))
    if "runs" in tables:
        key = capture.capture_id
        describe_runs(connection, key, key, has_executes=capture.format != "torch_trace")
    return warehouse, capture


def _link(connection: duckdb.DuckDBPyConnection, capture: Capture, column: str, key: int) -> None:
    """Link a capture, without writing rollups, which only help questions across captures."""
    from etq.storage.linking import link_many

    schema.in_transaction(connection, lambda: link_many(connection, [capture.capture_id], column, key))


def _store(connection: duckdb.DuckDBPyConnection, record: ReadRecord) -> int:
    """Store the first record in such a database; return its key."""
    from etq.storage.records import store_read

    return schema.in_transaction(connection, lambda: store_read(connection, record))[0]


def _create(names: list[str]) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    """A database in memory that has only these objects, and the names of its tables."""
    connection = duckdb.connect(":memory:", config=settings())
    return connection, schema.create_only(connection, names)


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


def open_ephemeral_record(path: str | os.PathLike[str], views: Iterable[str]) -> tuple[Warehouse, Record]:
    """Load one ETRecord into a warehouse in memory that has only the named views.

    Errors are those of `Warehouse.ingest_record`.
    """
    connection = duckdb.connect(":memory:", config=settings())
    schema.create_only(connection, [*catalog.objects_of_linking(), *views])
    warehouse = Warehouse(Database(connection, None))
    return warehouse, warehouse.ingest_record(path)


def open_ephemeral_program(path: str | os.PathLike[str], views: Iterable[str]) -> tuple[Warehouse, Program]:
    """Load one program into a warehouse in memory that has only the named views.

    Errors are those of `Warehouse.ingest_program`.
    """
    from etq.storage.programs import program_tables

    connection = duckdb.connect(":memory:", config=settings())
    schema.create_only(connection, [*program_tables(), *views])
    warehouse = Warehouse(Database(connection, None))
    return warehouse, warehouse.ingest_program(path)
