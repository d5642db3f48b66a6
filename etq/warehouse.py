"""A warehouse: a DuckDB database with etq's tables and views, and captures that are put into it.

with etq.open("lab.duckdb") as warehouse:
    warehouse.ingest("run.etdp", labels={"device": "pixel8"})
    warehouse.sql("FROM op_totals($capture)", capture="run").show()
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import duckdb

from etq import schema
from etq.connecting import connect, explained, identity
from etq.errors import QueryError, WarehouseError, message_of
from etq.exporting import Exporting
from etq.handles import Capture, Program, Record
from etq.house import Keeping
from etq.sources import checked_clock_bits, checked_moment, checked_time_scale
from etq.waiting import Turn
from etq.words import TimeScale

if TYPE_CHECKING:
    from etq.metadata import Decoder
    from etq.sources import Source

__all__ = ("Capture", "Program", "Record", "TimeScale", "Warehouse", "open")


def open(
    path: str | os.PathLike[str] | None = None, *, read_only: bool = False, wait: float | None = None
) -> Warehouse:
    """Open the warehouse in a file, or make it there; without a path, one in memory. A lake is opened as it is now.

    read_only  opens an existing file beside other readers; else no other process can have it open; a lake is always
               only read
    wait       how long to wait for a file that other processes hold, in seconds; by default $ETQ_WAIT, or 30

    Raises `WarehouseError` for a file that is no DuckDB database or no warehouse, that a newer etq wrote, that can't
    be opened, or that another process holds.
    """
    if "IPython" in sys.modules:
        from etq.notebook import register

        register()
    if path is None:
        connection = duckdb.connect(":memory:")
        schema.create(connection)
        return Warehouse(connection, None)
    path = os.fspath(path)
    if path in ("", ":memory:"):
        raise WarehouseError(f"{path!r} is no file; a warehouse in memory is made by etq.open()")
    if os.path.isdir(path):
        return _open_lake(path)
    with Turn(path):
        connection = connect(path, read_only, wait)
        try:
            if not read_only and schema.is_empty(connection):
                schema.in_transaction(connection, lambda: schema.create(connection))
            else:
                schema.bring_forward(connection, path, read_only=read_only)
        except duckdb.Error as error:
            connection.close()
            raise WarehouseError(f"{path}: {explained(path, error)}") from error
        except BaseException:
            connection.close()
            raise
        return Warehouse(connection, path, read_only=read_only)


def _open_lake(path: str) -> Warehouse:
    from etq.lake.log import is_lake
    from etq.lake.reading import connect

    if not is_lake(path):
        raise WarehouseError(f"{path}: a folder; a warehouse is a file, or a lake that etq lake makes")
    return Warehouse(connect(Path(path)), path, read_only=True)


class Warehouse(Keeping, Exporting):
    """An open warehouse, made by `open`. A context manager; `close` may be called more than once.

    Threads may share one: they are served one after the other. A relation, which is asked when it is read, is for one
    thread while no other asks; `rows` is for all.

    Each public table macro of the SQL is a method of its name, which returns a relation of DuckDB: `.show()`,
    `.fetchall()`, `.df()`, `.to_arrow_table()`.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: str | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._file = None if path is None else identity(path)
        self._turn = Turn(path)
        self._alone = RLock()
        self._connection: duckdb.DuckDBPyConnection | None = connection

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection. Raises `WarehouseError` once the warehouse is closed."""
        if self._connection is None:
            raise WarehouseError(f"{self.path or 'the warehouse in memory'} is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether it wasn't closed yet."""
        return self._connection is not None

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._connection is None else "read-only" if self.read_only else "open"
        return f"<etq.Warehouse {self.path or ':memory:'} ({state})>"

    def sql(self, query: str, **parameters: Any) -> duckdb.DuckDBPyRelation:
        """The result of a query as a relation; `$name` in it is that parameter: also a `Capture` or the like.

        Raises `QueryError` where the query is wrong; errors in the data show when the relation is read.
        """
        return self._ask(query, parameters)

    def rows(self, query: str, **parameters: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of a query's columns, and all its rows: sooner there than through `sql`, which plans it twice.

        Raises `QueryError` where the query is wrong or the data have none of what is asked for.
        """
        try:
            with self._alone:
                answer = self.connection.execute(query, _values(parameters))
                # No answer at all is what an empty query has.
                return ([column[0] for column in answer.description or ()], answer.fetchall()) if answer else ([], [])
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

    def safe_sql(
        self, query: str, /, *, seconds: float = 10, megabytes: int = 512, **parameters: Any
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of a query's columns, and all its rows, as of `rows`: for SQL that isn't trusted.

        It must be one SELECT and is asked in a process of its own, which reads the file (or the files of the lake) and
        nothing else: no other files, settings, extensions, environment or variables of Python's, and writes nothing.
        What it may see are all tables, and the path of the file.

        seconds    how long it may take
        megabytes  how much memory it may take, with its result

        Raises `QueryError` where the query is wrong or is anything else than that, or takes more, and `WarehouseError`
        for a warehouse in memory or open for writing, which no other process can read.
        """
        from etq.sandbox import ask

        if self.path is None or not self.read_only:
            what = "it is in memory" if self.path is None else "open it with read_only=True"
            raise WarehouseError(f"{self.path or 'memory'}: another process can't read it: {what}")
        return ask(self.path, query, _values(parameters), seconds, megabytes)

    def _ask(self, query: str, parameters: dict[str, Any]) -> duckdb.DuckDBPyRelation:
        try:
            with self._alone:
                return self.connection.sql(query, params=_values(parameters))
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

    def _check_capture(self, capture: str | Capture | None) -> None:
        if isinstance(capture, str):
            self.capture(capture)

    def capture(self, selector: str) -> Capture:
        """The one capture of a name, hash prefix or selector (key=value,key=value, @latest, @previous).

        Raises `QueryError`, naming the nearest, where there is none or more than one.
        """
        query = """
            SELECT c.capture_id, c.name, c.sha256, c.format FROM captures AS c
            WHERE c.capture_id = _any_capture_id(?)
        """
        try:
            return self._capture_of(query, [selector])
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

    def _capture_of(self, query: str, parameters: list[Any]) -> Capture:
        """The capture that a query finds."""
        return Capture(*self._fetched(query, parameters)[0]).within(self)

    def ingest(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        captured_at: datetime | None = None,
        time_scale: TimeScale | None = None,
        clock_bits: Literal[32, 64] | None = None,
        debug_buffer: str | os.PathLike[str] | bytes | None = None,
        keep_values: bool = False,
        label_from: str | None = None,
        label_git: str | os.PathLike[str] | None = None,
        sidecar: bool = True,
        metrics: Sequence[str | os.PathLike[str] | bytes] = (),
    ) -> Capture:
        """Read a profiling file (or its bytes) into the warehouse: all of it, or, at an error, nothing. Its format is
        told by its first bytes: ETDump, also in a log, or prof_result.

        Content that is there already adds no rows: the options given are applied to it, and `is_new` is False.

        name          unique name; by default the file's stem (of x.prof_result.bin, x), with folders before it where
                      other content has that
        labels        key=value pairs that tell captures apart
        captured_at   when it was measured; without a time zone in UTC; unknown by default, as files don't say
        time_scale    what one tick is; ns by default
        clock_bits    width of the clock's counter; by default 32 where a wraparound is evident, else 64
        debug_buffer  the file (or its bytes) that the values that the runtime logged lie in
        keep_values   whether their elements are kept, as `numeric_gap` needs, and not only what they are like
        label_from    labels from the file's path, as {model}/{device}/{build}.etdp
        label_git     a folder whose repository's commit, commit_time, branch and dirty become labels
        sidecar       whether labels and metrics are read from run.etdp.json or run.etdp.toml beside the file
        metrics       files of metrics (or their bytes), as `ingest_metrics` takes

        Labels given win over the sidecar's, these over the path's, these over git's; of a capture that has labels, only
        those given replace some.

        Raises `FormatError` for a file that can't be read or is damaged, `WarehouseError` for a name that is taken
        and for a warehouse that can't be written, `EtqError` for a path that doesn't fit and a folder without git.
        """
        # What reads files is imported where files are read: asking needs none of it.
        from etq.found_labels import found_about, labels_of_git
        from etq.sources import source_of
        from etq.storing import Options, store

        bits = checked_clock_bits(clock_bits)
        if keep_values and debug_buffer is None:
            raise WarehouseError("keep_values goes with debug_buffer, the file that values are read from")
        buffer = None if debug_buffer is None else source_of(debug_buffer)
        scale = checked_time_scale(time_scale)
        of_git = {} if label_git is None else labels_of_git(label_git)
        found = found_about(None if isinstance(source, bytes) else os.fspath(source), label_from, of_git, sidecar)
        beside = tuple(source_of(each) for each in metrics)
        moment = checked_moment(captured_at)
        options = Options(name, labels or {}, moment, scale, bits, buffer, keep_values, found, beside)
        capture_id, is_new = self._stored(source, lambda file: store(self.connection, file, options))
        query = "SELECT capture_id, name, sha256, format, ?::BOOLEAN FROM captures WHERE capture_id = ?"
        return self._capture_of(query, [is_new, capture_id])

    def ingest_record(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Record:
        """Read an ETRecord into the warehouse: all of it, or, at an error, nothing. Known content adds nothing.

        Raises `FormatError` for a file that can't be read, is damaged or is no ETRecord, and `WarehouseError` for a
        name that is taken and for a warehouse that can't be written.
        """
        from etq.storing_records import store_record

        record_id, is_new = self._stored(source, lambda file: store_record(self.connection, file, name))
        query = "SELECT record_id, name, sha256, is_complete, ?::BOOLEAN FROM records WHERE record_id = ?"
        return Record(*self._fetched(query, [is_new, record_id])[0])

    def link(self, capture: str | Capture, to: str | Record | Program) -> None:
        """Say that a capture is of a record's program, so that its events can be told their ops and modules; or of a
        program, so that the methods of its runs can be told.

        The methods are inferred from the record, or from the program where there is no record. What doesn't fit is told
        of in `findings`. Raises `QueryError` where there is no such capture or record.
        """
        from etq.linking import link

        found = capture if isinstance(capture, Capture) else self.capture(capture)
        target = self.record(to) if isinstance(to, str) else to
        column, key = (
            ("program_id", target.program_id) if isinstance(target, Program) else ("record_id", target.record_id)
        )
        self._write(lambda: link(self.connection, found.capture_id, column, key))

    def record(self, selector: str) -> Record:
        """The one record of a name or hash prefix. Raises `QueryError` where there is none or more than one."""
        query = (
            "SELECT r.record_id, r.name, r.sha256, r.is_complete FROM records AS r WHERE r.record_id = _record_id(?)"
        )
        try:
            return Record(*self._fetched(query, [selector])[0])
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

    def lay_beside(self, path: str | os.PathLike[str], *, time_scale: str | None = None) -> Capture:
        """Put one more file into a warehouse that `look_at` gave; options and errors are those of `ingest`."""
        from etq.sources import source_of
        from etq.storing import Options, lay_beside

        options = Options(None, {}, None, checked_time_scale(time_scale), None)
        capture_id = lay_beside(self.connection, source_of(path), options)
        query = "SELECT capture_id, name, sha256, format, true FROM captures WHERE capture_id = ?"
        return self._capture_of(query, [capture_id])

    def _stored(
        self, source: str | os.PathLike[str] | bytes, store: Callable[[Source], tuple[int, bool]]
    ) -> tuple[int, bool]:
        """The result of storing a file, in a transaction of its own."""
        from etq.sources import source_of
        from etq.storing import in_little_memory

        self._check_writable()
        file = source_of(source)
        with self._alone, self._turn, in_little_memory(self.connection) if self.path else nullcontext():
            return self._write(lambda: store(file))

    def ingest_program(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Program:
        """Read an ExecuTorch program (`.pte`, or its bytes) into the warehouse: all of it, or, at an error, nothing.

        Content that is there already adds no rows: a name given is applied to it, and `is_new` is False.

        name  unique name; by default the file's stem, with folders before it where another program has that

        Raises `FormatError` for a file that can't be read or is damaged, `WarehouseError` for a name that is taken
        and for a warehouse that can't be written.
        """
        from etq.storing_programs import store_program

        program_id, is_new = self._stored(source, lambda file: store_program(self.connection, file, name))
        query = "SELECT program_id, name, sha256, ?::BOOLEAN FROM programs WHERE program_id = ?"
        return Program(*self._fetched(query, [is_new, program_id])[0])

    def ingest_reference(
        self,
        record: str | Record,
        values: Mapping[str, Sequence[Any]],
        *,
        graph: str = "exported_program",
        name: str | None = None,
    ) -> Capture:
        """Put what the nodes of a record's graph give into the warehouse: a capture for `numeric_gap` to compare with.

        values  by node name, in the order of running: the node's outputs, each a numpy array or a number
        graph   the graph's stage, as in `graphs`: exported_program or edge_dialect_exported_program
        name    unique name; by default the record's, with `-reference` behind it

        `etq.reference.reference_values` runs a graph. Raises `QueryError` where there is no such record, and
        `WarehouseError` for a graph that it hasn't, a name that is taken and a warehouse that can't be written.
        """
        from etq.storing_reference import store_reference

        record_id = (self.record(record) if isinstance(record, str) else record).record_id
        capture_id, is_new = self._write(lambda: store_reference(self.connection, record_id, graph, values, name))
        query = "SELECT capture_id, name, sha256, format, ?::BOOLEAN FROM captures WHERE capture_id = ?"
        return self._capture_of(query, [is_new, capture_id])

    def decoded_metadata(self, capture: str | Capture, decoder: Decoder) -> duckdb.DuckDBPyRelation:
        """What delegates logged beside times, by a function from an event's name and its bytes to a mapping or None.

        One row a field: block_index, slot, event_name, field, value (text), runs; what the function knows nothing of
        (None) is one row without a field, in hexadecimal. `delegate_metadata` knows the common backends' by itself.

        Raises `QueryError` where there is no such capture, and where the function raises.
        """
        from etq.metadata import decoded_metadata

        found = capture if isinstance(capture, Capture) else self.capture(capture)
        return self.connection.from_arrow(decoded_metadata(self, found, decoder))

    def captures(self) -> duckdb.DuckDBPyRelation:
        """All captures with their labels: one row each, in the order of ingest."""
        return self.sql("FROM capture_summary")


def _values(parameters: dict[str, Any]) -> dict[str, Any] | None:
    """Parameters as the database takes them; None where there are none, so that a query may hold several statements."""
    return {
        name: value.sha256 if isinstance(value, Capture | Program | Record) else value
        for name, value in parameters.items()
    } or None
