"""A warehouse: a DuckDB database with etq's tables and views, into which captures are ingested.

with etq.open("lab.duckdb") as warehouse:
    warehouse.ingest("run.etdp", labels={"device": "pixel8"})
    warehouse.sql("FROM op_totals($capture)", capture="run").show()
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeVar

import duckdb

from etq import catalog
from etq.catalog import SELECTORS, identifier
from etq.choices import TimeScale
from etq.database import schema
from etq.database.clocks import READ_BY, write_clocks
from etq.database.connection import (
    check_name,
    check_path,
    connect,
    expanded,
    explained,
    in_memory,
    is_lake_path,
    is_without_access,
)
from etq.database.cursors import database_of
from etq.database.database import Database
from etq.database.file_locks import check_locks
from etq.database.functions import register_for
from etq.database.handles import Capture, Program, Record
from etq.database.locking import WriteLock, refuse_gone
from etq.database.nearest import explained as explained_query
from etq.database.publishing import NO_FOLDER
from etq.database.results import QueryResult
from etq.database.rollups import ANSWERED
from etq.errors import (
    EXPLAINED,
    ArgumentError,
    ArgumentTypeError,
    CallError,
    EtqError,
    FormatError,
    QueryError,
    StoreError,
    WarehouseError,
    counted,
    message_of,
    path_of,
    place_in,
    printable_lines,
)
from etq.ingest.stores import is_address
from etq.warehouse.compared import Compared
from etq.warehouse.result import Result
from etq.warehouse.views import Views

if TYPE_CHECKING:
    from etq.lake.reading.tables import Lake
    from etq.storage.again import Again
    from etq.storage.bulk import FileToStore, Outcome
    from etq.storage.capture import Links
    from etq.storage.sources import Source
    from etq.warehouse.metadata_decoder import Decoder

    Given = str | os.PathLike[str] | bytes

Changed = TypeVar("Changed")
# DuckDB's error for a name without a database: it looks in the library's database.
_READ_ONLY: Final = "which is attached in read-only mode"
_OF_LIBRARY: Final = re.compile(f'on database "etq(_library)?" {_READ_ONLY}')
_ROWS_AT_ONCE: Final = 10_000
# For untrusted queries: DuckDB's memory limit doesn't cover rows in Python.
_MOST_ROWS: Final = 1_000_000

__all__ = ("Capture", "Program", "Record", "TimeScale", "Warehouse", "open")


def open(
    path: str | os.PathLike[str] | None = None,
    *,
    read_only: bool = False,
    wait: float | None = None,
    external_access: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Warehouse:
    """Open a warehouse file, which is created if it doesn't exist, or a lake; without a path, a warehouse in memory.

    read_only        whether to open an existing file for reading, as other processes may at the same time; otherwise no
                     other process can have it open. A lake stays as it is when it is opened, but for what is changed
                     through this warehouse: labels, metrics, phases, comments and links, and captures that are removed
                     or read anew
    wait             how long to wait for a file that other processes hold, in seconds; by default $ETQ_WAIT, or 30
    external_access  whether queries may read and write other files, and load extensions. By default they can't, as a
                     warehouse may come from anyone; with a warehouse in memory they can
    storage_options  of a lake in an object store, as `deltalake` takes them; otherwise those of the environment

    Raises `WarehouseError` for a file that isn't a DuckDB database or a warehouse, that another version of etq made,
    that can't be opened, or that another process holds; and for one whose tables are not etq's.
    """
    if path is None:
        connection = in_memory()
        schema.create(connection)
        return Warehouse(Database(connection, None))
    path = path_of(path)
    if path in ("", ":memory:"):
        raise ArgumentError(f"{path!r} is not a file; etq.open() without a path opens a warehouse in memory")
    path = expanded(path)
    if path.startswith(("http://", "https://")):
        raise WarehouseError(f"{path}: download the file; a server is opened in a browser, or asked at its /api/query")
    if is_lake_path(path):
        return _open_lake(path, storage_options, read_only=read_only, external_access=external_access)
    if storage_options is not None:
        raise WarehouseError(f"{path}: a file; only a lake has storage options")
    check_name(path)
    _check_is_no_profiling_file(path)
    with WriteLock(path):
        is_new = not read_only and _create(path)
        connection = connect(path, read_only, wait, external_access=external_access, is_own=is_new)
        try:
            if is_new:
                schema.note_creation(connection)
            else:
                schema.check(connection, path)
        except duckdb.Error as error:
            connection.close()
            raise WarehouseError(f"{path}: {explained(path, error)}") from error
        except BaseException:
            connection.close()
            raise
        return Warehouse(Database(connection, path, read_only=read_only))


def _create(path: str) -> bool:
    """Make a warehouse at a path unless a file exists there; return whether it was made."""
    check_path(path)
    if Path(path).exists() and (not Path(path).is_file() or Path(path).stat().st_size):
        return False
    if not Path(path).parent.is_dir():
        raise WarehouseError(f"{path}: {NO_FOLDER}")
    refuse_gone(path)
    check_locks(path)
    try:
        return schema.create_file(path)
    except OSError as error:
        raise WarehouseError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}") from error


def _check_is_no_profiling_file(path: str) -> None:
    """Raise `WarehouseError` for a file that a warehouse ingests. DuckDB takes some of them for databases."""
    if not Path(path).is_file():
        return  # opening a pipe may block forever
    try:
        with Path(path).open("rb") as file:
            if file.read(12)[8:] == b"DUCK":
                return
    except OSError:
        return
    from etq.ingest.recognition import KINDS, kind_of

    if (what := KINDS.get(kind_of(path))) is not None:
        raise WarehouseError(
            f"{path}: {what}, not a warehouse; `etq {shlex.quote(path)}` shows it, `etq ingest` stores it (records and "
            "programs by --etrecord and --pte)"
        )


def _open_lake(
    path: str, storage_options: Mapping[str, str] | None, *, read_only: bool, external_access: bool
) -> Warehouse:
    from etq.lake.reading.connection import connect
    from etq.lake.reading.tables import Lake

    lake = Lake.at(path, storage_options)
    make = partial(connect, lake, external_access=external_access)
    try:
        connection = make()
    except WarehouseError:
        if lake.exists():
            raise
        what, hint = "an address", ""
        if not lake.is_remote:
            what, hint = "a folder", f"; to make one of its files: etq ingest {shlex.quote(path)}"
        raise WarehouseError(f"{path}: {what}; a warehouse is a file, or a lake that etq lake makes{hint}") from None
    warehouse = Warehouse(Database(connection, path, read_only=True))
    if not read_only:
        warehouse._lake = _OpenLake(lake, make)
    return warehouse


class _OpenLake(NamedTuple):
    """A lake that may be changed, and a function that connects to its current state."""

    lake: Lake
    connect: Callable[[], duckdb.DuckDBPyConnection]


class Warehouse(Views):
    """An open warehouse, returned by `open`. A context manager; `close` may be called more than once.

    Threads may share a warehouse: each has its own connection, so that any of them may query, and read results of
    others, at any time. Writes take turns. What a thread makes on its `connection`, such as temporary tables and
    transactions, is its own.

    Each view (public table macro of the SQL) is a method of the same name, which returns a `Result`: `.show()`,
    `.fetchall()`, `.df()`, `.to_arrow_table()`; each table is an attribute, `warehouse.all_op_totals`. `dir(warehouse)`
    lists both, and `help(warehouse.op_totals)` is the documentation of a view.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # The capture of the file that `etq.read` read: views use it if no other is given.
        self.only: Capture | None = None
        # None for a file, and for a lake that was opened read-only.
        self._lake: _OpenLake | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """This thread's DuckDB connection. Raises `WarehouseError` once the warehouse is closed."""
        return self._database.connection

    @contextmanager
    def locked(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide this thread's connection, which stays open until the `with` block ends."""
        with self._database.lock:
            yield self.connection

    def share(self) -> None:
        """Call this before several threads use the warehouse: storing then doesn't lower their memory limit."""
        self._database.is_shared = True

    @property
    def path(self) -> str | None:
        """The path of the file or of a lake's folder; None in memory."""
        return self._database.path

    @property
    def read_only(self) -> bool:
        """Whether the warehouse was opened only for reading, or is a lake, into which `etq.lake.add` reads files."""
        return self._database.read_only

    @property
    def is_open(self) -> bool:
        """Whether the warehouse is open."""
        return self._database.is_open

    def close(self) -> None:
        """Close the file, once the queries of other threads have ended."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if not self.is_open else "read-only" if self.read_only else "open"
        held = "" if self.only is None else f" of {self.only.name}, {self.only.format}"
        return f"<etq.Warehouse{held} {self.path or ':memory:'} ({state})>"

    def sql(self, query: str, /, **parameters: Any) -> Result:
        """Return the result of a query. `$name` is a parameter: a value, `Capture`, `Record` or `Program`.

        A parameter that is a table (of pandas, Polars or Arrow, or another result) is one that the query can join by
        that name: `warehouse.sql("FROM captures JOIN meta USING (name)", meta=frame)`. Such a query runs at once.

        Raises `QueryError` for a wrong query; errors in the data are raised when the result is read.
        """
        try:
            make = self._relations(query, parameters)
            return None if make is None else Result(make, query)
        except QueryError as error:
            raise self._of_python(error, query, parameters) from error.__cause__

    def relation(self, query: str, /, **parameters: Any) -> duckdb.DuckDBPyRelation:
        """Return the result as DuckDB's relation, on this thread's connection."""
        make = self._relations(query, parameters)
        return None if make is None else make()

    def _relations(self, query: str, parameters: dict[str, Any]) -> Callable[[], duckdb.DuckDBPyRelation]:
        """Return a function that makes a query's relation for a thread; None for statements without rows. A query that
        reads the caller's tables, or has side effects, runs immediately, and once.
        """
        _check_query(query)
        try:
            reads = _only_reads(query)
            if reads and not any(map(_is_table, parameters.values())):
                return partial(self._relation, query, parameters)
            self._database.is_altered |= not reads
            with self._database.lock, self._joined(parameters) as values:
                relation = self.connection_for(query).sql(query, params=self._values(values))
                if relation is None:
                    return None
                table = relation.to_arrow_table()
        except duckdb.Error as error:
            raise self._query_error(error, query) from error
        return lambda: self.connection.from_arrow(table)

    def _relation(self, query: str, parameters: dict[str, Any]) -> duckdb.DuckDBPyRelation:
        try:
            with self._database.lock:
                return self.connection_for(query).sql(query, params=self._values(parameters))
        except duckdb.Error as error:
            raise self._query_error(error, query) from error

    def rows(self, query: str, /, **parameters: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of a query's columns, and all its rows. Faster than `sql`, which plans a query twice.

        Raises `QueryError` for a wrong query, and for errors in the data.
        """
        try:
            with self._database.lock, self._joined(parameters) as values:
                answer = QueryResult(self.connection_for(query), query, self._values(values))
                return answer.columns, answer.all()
        except duckdb.Error as error:
            raise self._query_error(error, query) from error

    @contextmanager
    def rows_in_parts(
        self, query: str, /, **parameters: Any
    ) -> Iterator[tuple[list[str], Iterator[list[tuple[Any, ...]]]]]:
        """Provide the names of a query's columns, and its rows in lists of up to 10,000, read while the query runs.

        Run no other query in this thread until the `with` block ends. Raises `QueryError` as `rows` does.
        """
        try:
            with self._database.lock:
                answer = QueryResult(self.connection_for(query), query, self._values(parameters))
                yield answer.columns, iter(lambda: answer.next(_ROWS_AT_ONCE), [])
        except duckdb.Error as error:
            raise self._query_error(error, query) from error

    def connection_for(self, query: str) -> duckdb.DuckDBPyConnection:
        """Return the connection, with the functions of etq and, in memory, the answers that a query needs."""
        _check_query(query)
        with self._database.lock:
            register_for(self.connection, query)
            if self._database.path is None:
                self._complete_for({*re.findall(r"\w+", query.lower())})
            return self.connection

    def _complete_for(self, names: Set[str]) -> None:
        """Write postponed answers in memory, if the names in a query show that it reads them."""
        if not ANSWERED.isdisjoint(names):
            self.complete()
        if "metric_values" in names:  # the metrics of traces include the MFU
            keys = self.connection.execute("SELECT c.capture_id FROM captures AS c").fetchall()
            self.complete_steps([key for (key,) in keys])
        if not READ_BY.isdisjoint(names):
            with self._database.writing():
                write_clocks(self.connection)

    def complete(self) -> None:
        """Write the tables `all_...` of a warehouse in memory, which are postponed until a query reads them."""
        if self._database.path is None:
            from etq.advice.filling import write_once

            with self._database.lock, self._database.writing():  # one thread computes it; others wait
                write_once(self.connection)

    def complete_steps(self, keys: Sequence[int]) -> None:
        """Write the steps of these traces with their operations in memory, which takes less time than the advice."""
        if self._database.path is None:
            from etq.advice.filling import write_steps

            with self._database.lock, self._database.writing():
                write_steps(self.connection, keys)

    def safe_sql(
        self, query: str, /, *, seconds: float = 10, **parameters: Any
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of a query's columns, and all its rows, as `rows` does, but for untrusted SQL.

        The query must be one SELECT. It reads tables and nothing else, and writes nothing. Its memory is limited like
        that of all queries of the warehouse, by `SET memory_limit` before opening it, or by etq --megabytes.

        seconds    limit of the query's time

        Raises `QueryError` for a query that is wrong, isn't one SELECT, exceeds a limit or has over a million rows.
        """
        from etq.database.limited import ask

        values = self._values(parameters)

        def answer(cursor: duckdb.DuckDBPyConnection) -> tuple[list[str], list[tuple[Any, ...]]]:
            found = QueryResult(cursor, query, values, is_limited=True)
            rows: list[tuple[Any, ...]] = []
            while block := found.next(_ROWS_AT_ONCE):
                rows += block
                if len(rows) > _MOST_ROWS:
                    raise QueryError(f"the query has more than {_MOST_ROWS:,} rows; limit it")
            return found.columns, rows

        return ask(self.connection_for(query), query, answer, seconds, values)

    def capture(self, selector: str) -> Capture:
        """Return the capture of a name, hash prefix or selector (key=value,key=value, since=7d, @latest, @previous, and
        @NAME of a named view).

        Raises `QueryError` if none matches, with the nearest names, or several do.
        """
        if not isinstance(selector, str):
            raise CallError(f"a selector is a text, not {selector!r}")
        query = "SELECT c.capture_id, c.name, c.sha256, c.format FROM captures AS c WHERE "
        try:
            # Planning a selector takes 7 ms, finding a name 0.5; a text of the length of a hash may be one.
            rows = self._database.fetch(query + "c.name = ? AND length(c.name) <> 64", [selector])
            meant = [self.expanded(selector)]
            rows = rows or self._database.fetch(query + "c.capture_id = _any_capture_id(?)", meant)
            return Capture(*rows[0]).within(self)
        except duckdb.Error as error:
            raise self._query_error(error) from error

    def captures(self, selector: str | None = None) -> Result:
        """Return the captures that a selector matches, or all, with their labels, one row each, in the order of ingest.

        There are no rows if none matches.
        """
        if selector is None:
            return self.sql("FROM capture_summary")
        chosen = "SELECT m.name FROM _matching_captures($selector) AS m"
        return self.sql(f"FROM capture_summary AS s WHERE s.name IN ({chosen})", selector=selector)

    def compare(self, base: str | Capture, new: str | Capture, **options: Any) -> Compared:
        """Compare two sides, each one capture or, by a selector, several. `show()` prints what changed.

        options  as of `compare_ops`: unit, quantile, phase, history, alpha, min_effect, allow_mismatch

        Raises `QueryError` for an unknown capture or option, and for sides that can't be compared.
        """
        from etq.analysis.comparison import verdicts_of

        base, new = (side.sha256 if isinstance(side, Capture) else side for side in (base, new))
        for side in (base, new):
            if not isinstance(side, str):
                raise ArgumentTypeError(f"a side is a capture, or a selector of several such as build=41, not {side!r}")
        given = {name: value for name, value in options.items() if value is not None}
        return Compared(self, base, new, given, verdicts_of(self, base, new, given))

    def report(
        self, captures: str | Capture | Sequence[str | Capture], path: str | os.PathLike[str], **options: Any
    ) -> None:
        """Write the report of a capture, or of two sides (a list), to an HTML file, which is replaced.

        options  as of `etq.report.write`: of one capture unit, method, runs; of two sides those of `compare`

        Raises `QueryError` for an unknown capture or unit, and for sides that can't be compared; `EtqError` for an
        unknown option.
        """
        from etq.report import write

        write(self, captures, path_of(path), **options)

    def record(self, selector: str) -> Record:
        """Return the record of a name or hash prefix. Raises `QueryError` if none matches, or several do."""
        query = """
            SELECT r.record_id, r.name, r.sha256, r.is_complete FROM records AS r
            WHERE r.record_id = _key_of('record', ?)
        """
        try:
            return Record(*self._database.fetch(query, [selector])[0])
        except duckdb.Error as error:
            raise self._query_error(error) from error

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
        etrecord: str | os.PathLike[str] | bytes | None = None,
        pte: str | os.PathLike[str] | bytes | None = None,
        graph_captures: Sequence[str | os.PathLike[str] | bytes] = (),
        assume: str | None = None,
    ) -> Capture:
        """Ingest a profiling file (or its bytes): all of it, or, at an error, nothing.

        The file may be in an object store, such as s3://lab/raw/run.etdp; credentials are given as for a lake. Its
        first bytes determine the format: ETDump, also in a log, prof_result or PyTorch trace. If the warehouse already
        has the content, no rows are added: the options are applied to it, and `is_new` is False.

        name          unique name; by default the file's stem (x for x.prof_result.bin), with folders before it if
                      other content has that name
        labels        key=value pairs that distinguish captures
        captured_at   time of the measurement; in UTC if it has no time zone; by default a trace's own, else unknown
        time_scale    unit of one tick; by default ns
        clock_bits    width of the clock's counter; by default 32 if a wraparound is evident, else 64
        debug_buffer  file (or its bytes) with the values that the runtime logged
        keep_values   whether to store the elements of these values, which `numeric_gap` needs, with their statistics
        label_from    pattern for labels from the file's path, such as {model}/{device}/{build}.etdp
        label_git     folder whose repository's commit, commit_time, branch and dirty become labels; if another label
                      names the commit, only the commit_time of that one
        sidecar       whether to read labels and metrics from run.etdp.json or run.etdp.toml next to the file
        metrics       files of metrics (or their bytes), as for `ingest_metrics`
        etrecord      the ETRecord of its program (or its bytes), which is ingested and linked, as with `ingest_record`
        pte           its program (or its bytes), which is ingested and linked, as with `ingest_program`
        graph_captures  of a trace: traces of the capture of its CUDA or HIP graphs, or annotations of their kernels (or
                      their bytes, or folders), from which the graphs' kernels get their ops and modules
        assume        of a trace: sizes that it lacks, such as top_k=4,experts=128, for the costs of ops; known content
                      is read again with them; by default those that it has stay, and an empty text removes them

        Labels with the same key are taken from `labels`, else from the sidecar, else from the path, else from git. For
        a capture that is already stored, only `labels` replace existing labels.

        Raises `FormatError` for a file that can't be read or is damaged, also a record or program, `ArgumentError` for
        an option that isn't possible and a name that is taken, `WarehouseError` for a warehouse that can't be written,
        `EtqError` for a path that doesn't fit and a folder without git.
        """
        # Imported here, as queries don't need the modules that read files.
        from etq.annotations.discovery import Repository, discover
        from etq.storage.capture import Options, store
        from etq.storage.given import check_captures, check_takes
        from etq.storage.records import store_program, store_record
        from etq.storage.sources import source_of, traces_of

        self._check_takes_files()
        if keep_values and debug_buffer is None:
            raise ArgumentError("keep_values needs debug_buffer, the file that values are read from")
        repository = None if label_git is None else Repository(label_git)
        options = Options(
            name,
            labels or {},
            captured_at,
            time_scale,
            clock_bits,
            debug_buffer=None if debug_buffer is None else source_of(debug_buffer),
            keep_values=keep_values,
            discovered=discover(
                None if isinstance(source, bytes) else path_of(source), label_from, repository, sidecar, labels
            ),
            metrics=tuple(map(source_of, metrics)),
            graph_captures=traces_of(graph_captures),
            assume=assume,
        )
        program, record = (None if each is None else source_of(each) for each in (pte, etrecord))

        def stored(file: Source) -> tuple[int, bool]:
            check_takes(file, ETRecord=etrecord, program=pte, debug_buffer=debug_buffer)
            check_captures(file, options.graph_captures)
            links = []
            if program is not None:
                links.append(("program_id", store_program(self.connection, program, None)[0]))
            if record is not None:
                links.append(("record_id", store_record(self.connection, record, None)[0]))
            return store(self.connection, file, options, links)

        capture_id, is_new = self._stored(source, stored)
        return self._capture_of(capture_id, is_new)

    def ingest_many(
        self,
        sources: Iterable[Given],
        *,
        labels: Mapping[str, str] | None = None,
        captured_at: datetime | None = None,
        time_scale: TimeScale | None = None,
        clock_bits: Literal[32, 64] | None = None,
        label_from: str | None = None,
        label_git: str | os.PathLike[str] | None = None,
        sidecar: bool = True,
        assume: str | None = None,
        link_to: Sequence[str | Record | Program] = (),
        progress: Callable[[Given, Capture | EtqError], None] | None = None,
        on_read: Callable[[], None] = lambda: None,
    ) -> list[Capture | EtqError]:
        """Ingest many profiling files (or their bytes), several times as fast as one by one.

        Returns the capture of each file, or the error for which it was left out, in the order of the files. Each file
        is ingested completely or not at all; a failure doesn't stop the others. Of files of the same content, the first
        is new.

        link_to   records and programs (or names of records) that the captures are linked to
        progress  called with each file, and its capture or error, after it is committed
        on_read   called when another small file was read, before it is committed together with others

        The other options are those of `ingest`, and apply to every file. Names are the files' stems, with folders
        before them if other content has that name.

        Raises `ArgumentError` for invalid options, `WarehouseError` for a warehouse that is read-only, `QueryError` for
        an unknown record, and `EtqError` for a folder without git; then nothing is ingested. Raises `WarehouseError`,
        with the number of files that are stored, if the warehouse can't be written any more, as on a full disk, and
        `StoreError` if an object store can't be read.
        """
        from etq.annotations.discovery import Repository, discover
        from etq.storage.bulk import files_of
        from etq.storage.capture import Options

        if isinstance(sources, str | bytes | os.PathLike):
            raise ArgumentTypeError("ingest_many takes a list of files; one file is for ingest")
        self._check_takes_files()
        self._database.check_writable()
        options = Options(None, labels or {}, captured_at, time_scale, clock_bits, assume=assume)
        repository = None if label_git is None else Repository(label_git)
        links = [self._link(each) for each in link_to]
        listed = list(sources)
        find = partial(discover, pattern=label_from, repository=repository, sidecar=sidecar, given=labels)
        results: list[Capture | EtqError] = []
        try:
            with self._ranks_together():
                for each in self._ingested(files_of(listed, options, find), links, on_read):
                    if progress is not None:
                        progress(listed[len(results)], each)
                    results.append(each)
        except (WarehouseError, StoreError) as error:
            stored = sum(isinstance(each, Capture) for each in results)
            raise type(error)(f"{error}; {stored} of {counted(len(listed), 'file')} are stored") from error.__cause__
        return results

    def ingest_again(
        self,
        selector: str | None = None,
        *,
        folders: Sequence[str | os.PathLike[str]] = (),
        progress: Callable[[Again], None] | None = None,
    ) -> list[Again]:
        """Read the files of stored captures again: those that a selector matches, or all, in the order of ingest.

        A file belongs to a capture if it has the capture's content. Names, labels, metrics, phases, times, comments and
        links stay. Each capture's rows are replaced by those that its file gives now. A capture stays unchanged after
        an error, if its file isn't found or has other content, if its events were pruned, or if it was read together
        with other files.

        folders   folders in which the files are, at the paths that were stored or by name alone, or addresses of those
                  in a store; by default the present one and that of the warehouse
        progress  called with the outcome of each capture after it is committed: of a lake, up to 2,000 together

        Raises `QueryError` for an invalid selector, and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.storage.again import outcome_of, stored

        self._check_changeable()
        beside = () if self.path is None or is_address(self.path) else (Path(self.path).absolute().parent,)
        places = [os.fspath(each) for each in folders or (".", *beside)]
        keys = None
        if selector is not None:
            query = "SELECT m.capture_id FROM _matching_captures($selector) AS m"
            keys = [key for (key,) in self.rows(query, selector=selector)[1]]
        if self._lake is not None:
            from etq.lake.writing.again import read_again

            return self._changed(lambda lake: read_again(lake, keys, places, progress))

        outcomes = []
        with self._ranks_together():
            for each in stored(self.connection, keys):
                outcomes.append(outcome_of(self.connection, each, places, self._write))
                if progress is not None:
                    progress(outcomes[-1])
        return outcomes

    def ingest_ranks(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        labels: Mapping[str, str] | None = None,
        captured_at: datetime | None = None,
        label_from: str | None = None,
        label_git: str | os.PathLike[str] | None = None,
        sidecar: bool = True,
        assume: str | None = None,
    ) -> list[Capture]:
        """Ingest a trace into which the traces of several ranks were merged, as SGLang and TraceLens do: a capture
        of each rank, with the labels `rank` and `job`. The job is named as the file, with its folders where another has
        its name, unless a label names it. Options are those of `ingest`.

        Returns the captures, ordered by rank; none for any other file, which isn't ingested. If a rank can't be stored,
        none is. Raises `FormatError` for a file that can't be read or is damaged, `WarehouseError` for a warehouse that
        can't be written.
        """
        from etq.annotations.discovery import Repository, discover
        from etq.ingest.registry import is_json
        from etq.ingest.trace.ranks import ranks_in
        from etq.storage.bulk import FileToStore
        from etq.storage.capture import Options
        from etq.storage.naming import names_for
        from etq.storage.sources import Source, source_of

        file = source_of(source)
        ranks = ranks_in(file.content, file.uri) if is_json(file.content) else []
        if not ranks:
            return []
        repository = None if label_git is None else Repository(label_git)
        path = None if isinstance(source, bytes) else os.fspath(source)
        found = discover(path, label_from, repository, sidecar, labels)
        names = [*names_for(file.uri, lambda: file.sha256)]
        sources = [
            # The bytes of a packed rank depend on the version of zlib.
            Source.known(
                sha256(f"{file.sha256} {rank.name}".encode()).hexdigest(),
                os.path.join(os.path.dirname(file.path), f"{names[0]}.{rank.name}.json.gz"),  # noqa: PTH120
                rank.content,
            )
            for rank in ranks
        ]
        query = "SELECT j.value, c.sha256 FROM labels AS j JOIN captures AS c USING (capture_id) WHERE j.key = 'job'"
        others = {job for job, content in self.rows(query)[1] if content not in {each.sha256 for each in sources}}
        default = next((name for name in names if name not in others), names[-1])
        job = {"job": default, **found.labels, **(labels or {})}["job"]
        files = [
            FileToStore(
                source,
                Options(
                    labels={**(labels or {}), "job": job, "rank": str(rank.number)},
                    captured_at=captured_at,
                    discovered=found,
                    assume=assume,
                ),
            )
            for source, rank in zip(sources, ranks, strict=True)
        ]
        results: list[Capture | EtqError] = []
        try:
            with self._ranks_together():
                results.extend(self._ingested(files, []))
        except WarehouseError:
            self.remove(*(each for each in results if isinstance(each, Capture) and each.is_new))
            raise
        captures = [each for each in results if isinstance(each, Capture)]
        for of_rank, rank, failed in zip(sources, ranks, results, strict=True):
            if isinstance(failed, EtqError):
                self.remove(*(each for each in captures if each.is_new))
                raise FormatError(file.uri, f"rank {rank.number}: {str(failed).removeprefix(f'{of_rank.uri}: ')}")
        return captures

    def ingest_opened(
        self, files: Iterable[FileToStore], *, program: Source | None = None, record: Source | None = None
    ) -> list[Capture | EtqError]:
        """Ingest files that are already open, each with its own options, and link them: for files that a server
        received.

        The results are those of `ingest_many`. Only the first of several files may have a given name. Raises
        `FormatError` for a program or record that can't be read; then nothing is ingested.
        """
        from etq.storage.records import store_program, store_record

        self._database.check_writable()
        links = []
        for column, store, source in (("program_id", store_program, program), ("record_id", store_record, record)):
            if source is not None:
                links.append((column, self._write(partial(store, self.connection, source, None))[0]))
        with self._ranks_together():
            return [*self._ingested(files, links)]

    def _ranks_together(self) -> AbstractContextManager[None]:
        """Return a context for adding captures; at its end, the advice about ranks is written once."""
        from etq.advice.filling import ranks_together

        return ranks_together(self.connection, self._write)

    def _ingested(
        self, files: Iterable[FileToStore | EtqError], links: Links, on_read: Callable[[], None] = lambda: None
    ) -> Iterator[Capture | EtqError]:
        from etq.storage.bulk import store_many

        stored = store_many(self.connection, files, links, on_read)
        while True:
            with self._storing():
                outcomes = next(stored, None)
            if outcomes is None:
                return
            yield from self._captures(outcomes)

    def ingest_record(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Record:
        """Ingest an ETRecord (or its bytes): all of it, or, at an error, nothing. Known content adds nothing.

        Raises `FormatError` for a file that can't be read, is damaged or isn't an ETRecord, `ArgumentError` for a name
        that is taken, and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.storage.records import store_record

        return self._record_of(*self._stored(source, lambda file: store_record(self.connection, file, name)))

    def ingest_program(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Program:
        """Ingest an ExecuTorch program (`.pte`, or its bytes): all of it, or, at an error, nothing.

        If the warehouse already has the content, no rows are added: `name` is applied to it, and `is_new` is False.

        name  unique name; by default the file's stem, with folders before it if another program has that name

        Raises `FormatError` for a file that can't be read or is damaged, `ArgumentError` for a name that is taken,
        and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.storage.records import store_program

        return self._program_of(*self._stored(source, lambda file: store_program(self.connection, file, name)))

    def ingest_reference(
        self,
        record: str | Record,
        values: Mapping[str, Sequence[Any]],
        *,
        graph: str = "exported_program",
        name: str | None = None,
    ) -> Capture:
        """Store the outputs of the nodes of a record's graph as a capture, for `numeric_gap` to compare with.

        values  by node name, in the order of execution: the node's outputs, each a numpy array or a number
        graph   the graph's stage or member, as in `graphs`: exported_program, edge_dialect_exported_program, or
                another, as edge_after_transform/forward
        name    unique name; by default the record's, followed by `-reference`, or by the graph if another graph of the
                record has this name

        `etq.torch.reference.reference_values` runs a graph. Raises `QueryError` for an unknown record, `ArgumentError`
        for a name that is taken, and `WarehouseError` for a graph that it lacks and a warehouse that can't be written.
        """
        from etq.storage.reference import store_reference

        record_id = (self.record(record) if isinstance(record, str) else record).record_id
        capture_id, is_new = self._database.write(
            lambda: store_reference(self.connection, record_id, graph, values, name)
        )
        return self._capture_of(capture_id, is_new)

    def attach_second(self, path: str | os.PathLike[str], *, time_scale: str | None = None) -> Capture:
        """Load a second file into a warehouse of `read`; options and errors are those of `ingest`."""
        from etq.storage.capture import Options
        from etq.storage.ephemeral import load_second
        from etq.storage.sources import source_of

        capture_id = load_second(self.connection, source_of(path), Options(time_scale=time_scale))
        return self._capture_of(capture_id, True)

    def link(
        self, capture: str | Capture, to: str | Record | Program | os.PathLike[str], *, force: bool = True
    ) -> Record | Program:
        """Link a capture to a record, which maps its events to ops and modules, or to a program, which names methods.

        `to` is a stored record or program, the name of a stored record, or a file: a `Path`, or its address in a store.
        The file is ingested if it is linked. The methods are inferred from the record, or from the program if there
        isn't a record. Findings report what doesn't fit; without `force`, a record or program that fits no block of the
        capture's events is not linked. Returns the record or program.

        Raises `QueryError` for an unknown capture or record, `FormatError` for a file that can't be read, and
        `WarehouseError` for what is not linked.
        """
        from etq.storage.linking import link
        from etq.storage.records import store_program, store_record
        from etq.storage.sources import source_of

        found = self._found(capture)
        file = None
        if isinstance(to, os.PathLike) or (isinstance(to, str) and is_address(to)):
            file = source_of(to)
            column, content = "program_id" if _is_program(to) else "record_id", file.sha256
        else:
            to = self.record(to) if isinstance(to, str) else to
            column, content = self._link(to)[0], to.sha256
        kind = column.removesuffix("_id")
        of_content = f"SELECT {column} FROM {kind}s WHERE sha256 = ?"
        known = [key for (key,) in self._database.fetch(of_content, [content])]
        if file is None and not known:
            raise WarehouseError(f"{to}: of another warehouse; give its file")

        def linked(connection: duckdb.DuckDBPyConnection, keys: Sequence[int]) -> None:
            if file is not None:
                (store_program if kind == "program" else store_record)(connection, file, None)
            [(key,)] = connection.execute(of_content, [content]).fetchall()
            link(connection, keys[0], column, key, must_fit=not force)

        with self._storing() if self._lake is None else nullcontext():
            self._change([found], linked, others={kind: known})
        [(key,)] = self._database.fetch(of_content, [content])
        return self._program_of(key, not known) if kind == "program" else self._record_of(key, not known)

    def label(self, capture: str | Capture, /, **labels: str | None) -> dict[str, str]:
        """Attach labels to a capture, replacing those of the same keys; None removes one. Returns all its labels.

        `captured_at` sets the time of the measurement instead, in ISO 8601; in UTC if it has no time zone. Pass keys
        that are not Python identifiers as `**{"soc-rev": "2"}`.

        Raises `QueryError` for an unknown capture; `ArgumentError` for keys that are empty or have commas, equals
        signs, quotation marks, @ or control characters, for values with control characters, for a captured_at that is
        not a time; `WarehouseError` for a warehouse that can't be written.
        """
        from etq.annotations.labels import RANKS, labels_of, set_labels

        def labelled(connection: duckdb.DuckDBPyConnection, keys: Sequence[int]) -> dict[str, str]:
            set_labels(connection, keys[0], labels)
            return labels_of(connection, keys[0])

        jobs = [job] if (job := labels.get("job")) is not None else []
        return self._change([capture], labelled, with_ranks=not RANKS.isdisjoint(labels), jobs=jobs)

    def metric(
        self,
        capture: str | Capture,
        name: str,
        value: float | None,
        unit: str | None = None,
        better: str | None = None,
        *,
        run: int | None = None,
    ) -> None:
        """Attach a metric to a capture, replacing any value of that name; the value None removes the metric.

        unit    unit of the value; by default as in `known_metrics`, to whose unit times and memory are converted
        better  lower or higher; by default as in `known_metrics`; None for conditions, such as a temperature
        run     index of the run that it describes; by default the whole capture

        Raises `QueryError` for an unknown capture; `ArgumentError` for a value that is not a finite number, an invalid
        name or unit, and an unknown run; `WarehouseError` for a warehouse that can't be written.
        """
        from etq.ingest.metrics.rows import Metric
        from etq.storage.metrics import set_metric

        metric = name if value is None else Metric(name, value, unit, better)
        removed = self._change([capture], lambda connection, keys: set_metric(connection, keys[0], metric, run))
        if value is None and not removed:
            raise ArgumentError(f"{capture}: no metric {name!r} was attached by hand")

    def ingest_metrics(self, capture: str | Capture, source: str | os.PathLike[str] | bytes) -> int:
        """Attach the metrics of a file (or its bytes) to a capture: all of them, or, at an error, none.

        The file is a log of ExecuTorch's runner of language models, `benchmark_results.json` of its benchmark apps, the
        log of their tests on Apple devices, records of PyTorch's benchmark database, or JSON with numbers by name; its
        content determines which.

        Returns the number of metrics added: 0 if the same content was attached before.

        Raises `QueryError` for an unknown capture, `FormatError` for a file that can't be read or is damaged, and
        `WarehouseError` for a warehouse that can't be written.
        """
        from etq.storage.metrics import advise_by_peaks, store_metrics
        from etq.storage.sources import source_of

        file = source_of(source)

        def store(connection: duckdb.DuckDBPyConnection, keys: Sequence[int]) -> int:
            added = store_metrics(connection, keys[0], file)
            advise_by_peaks(connection, keys[0])
            return added

        return self._change([capture], store)

    def phase(
        self,
        capture: str | Capture,
        phase: str | None,
        *,
        runs: str | Iterable[int] | None = None,
        name: str | None = None,
        method: str | None = None,
    ) -> int:
        """Set the phase of runs of a capture. Returns the number of these runs.

        phase   load, prefill, decode, mixed or other; None removes the phase
        runs    numbers of runs: integers, or a text such as 1-39,45 or 40-
        name    name of runs: Execute, Default
        method  method of runs, as inferred from the linked record or program

        Give at least one of these rules; the phase is set for runs that fit all of them. Raises `QueryError` for an
        unknown capture, `ArgumentError` for another phase, runs that don't exist and rules that no run fits, and
        `WarehouseError` for pruned events and for a warehouse that can't be written.
        """
        from etq.annotations.phases import set_phase

        return self._change(
            [capture], lambda connection, keys: set_phase(connection, keys[0], phase, runs, name, method)
        )

    def phases_from_metrics(self, capture: str | Capture) -> dict[str, int]:
        """Set the phases of a language model's runs from the tokens that its runner counted (`ingest_metrics`).

        The counts must fit the runs that execute exactly, and in one way: a prompt in one run or a token per run, then
        a run for each generated token, the first of which may come from the prompt. Runs that load get the phase load.
        Returns the number of runs by phase.

        Raises `QueryError` for an unknown capture, and `WarehouseError` with the reason if the counts don't fit or are
        missing, and for a warehouse that can't be written.
        """
        from etq.annotations.phases import set_phases_from_metrics

        return self._change([capture], lambda connection, keys: set_phases_from_metrics(connection, keys[0]))

    def comment(
        self,
        first_bad: str,
        text: str,
        selector: str | None = None,
        *,
        what: str = "total",
        item: str | None = None,
        over: str | None = None,
        by: str | None = None,
        author: str | None = None,
        accepted: bool = False,
    ) -> int:
        """Write a comment on a change of series. Returns its number.

        first_bad  label of the first capture after the change, as `regressions` has it; captures have it
        selector   labels of the series' captures, as key=value,key=value; by default all captures
        what, item as in `trend`: what changed; `all` is the total with all ops, modules and metrics
        over       key of the label by which captures are ordered, or captured_at; by default as in `trend`
        by         keys of the labels that separate series, by default as in `trend`
        accepted   whether the change is accepted: it is no regression any more, and the level of the series starts
                   anew there: later changes are measured against the level after it

        Raises `QueryError` if no capture has that label, `EtqError` for an invalid text or selector, and
        `WarehouseError` for a warehouse that can't be written.
        """
        from etq.analysis.commenting import commented
        from etq.annotations.comments import ACCEPTED, NOTE, add_comment

        self._check_changeable()
        verdict, meant = ACCEPTED if accepted else NOTE, None if selector is None else self.expanded(selector)
        made = commented(self, first_bad, meant, what, item, over, by, verdict=verdict, text=text, author=author)
        return self._change_whole("change_comments", lambda connection: add_comment(connection, made))

    def remove_comment(self, number: int) -> None:
        """Remove a comment; a change that it accepted is a regression again.

        Raises `EtqError` for an unknown number, and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.annotations.comments import remove_comment

        self._change_whole("change_comments", lambda connection: remove_comment(connection, number))

    def expanded(self, selector: str) -> str:
        """Return a selector with that of a named view in place of its name, as in `@NAME` or `@NAME,build>90`; others
        as they are.
        """
        if not selector.startswith("@"):
            return selector
        from etq.annotations.named_views import expanded

        with self._database.lock:
            return expanded(self.connection, selector)

    def save_view(
        self, name: str, selector: str, *, sort_by: str | None = None, columns: Sequence[str] | None = None
    ) -> None:
        """Save what is looked at under a name, in place of a view of that name: `@NAME` is then its selector.

        selector  captures, as in `captures`; another named view in it becomes its selector
        sort_by   column or label by which commands and pages sort tables that have it
        columns   columns that they show of tables that have them, in this order

        The table `named_views` has all. Raises `ArgumentError` for a name that selectors can't contain and for texts
        that can't be displayed, and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.annotations.named_views import NamedView, save

        self._check_changeable()
        shown = tuple(dict.fromkeys(columns)) if columns else None
        view = NamedView(name, self.expanded(selector), sort_by, shown)
        self._change_whole("named_views", lambda connection: save(connection, view))

    def remove_view(self, name: str) -> None:
        """Remove a named view; its captures stay.

        Raises `ArgumentError` for an unknown name, and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.annotations.named_views import remove

        self._change_whole("named_views", lambda connection: remove(connection, name))

    def remove(self, *captures: str | Capture) -> None:
        """Remove captures with their annotations. If an error occurs, none is removed.

        Records and programs stay. Call `compact` to give back the space.

        Raises `QueryError` for an unknown capture and for a selector that matches several, and `WarehouseError` for a
        warehouse that can't be written.
        """
        from etq.maintenance.retention import REMOVING, remove_captures

        self._change(captures, remove_captures, frees=True, reads=REMOVING)

    def prune(
        self,
        keep_last: int,
        by: Sequence[str] = (),
        *,
        over: str | None = None,
        selectors: Sequence[str] | None = None,
        keep_rollups: bool = False,
        dry_run: bool = False,
    ) -> list[Capture]:
        """Remove all captures but the latest ones, and return those removed.

        keep_last     number of captures of each group that stay: those recorded last, as for @latest
        over          captured_at, or the key of a label, such as build, as in `trend`: its last values are the latest;
                      captures without it stay, and are not counted
        by            keys of labels: captures with the same values are a group; by default all are one group
        selectors     selectors of the captures to consider; by default all
        keep_rollups  whether only events are removed: labels, metrics and what comparisons need stay. Views of the
                      events raise an error then; ingesting the file again restores them
        dry_run       whether to return the captures without removing anything

        Raises `ArgumentError` for a number below 0 and a key that no label has, and `WarehouseError` for a warehouse
        that can't be written.
        """
        from etq.maintenance.retention import PRUNING, REMOVING, outdated_captures, prune_events, remove_captures

        chosen = None if selectors is None else [self.expanded(each) for each in selectors]
        found = outdated_captures(self._database, keep_last, by, chosen, over=over, keep_rollups=keep_rollups)
        if found and not dry_run:
            work, reads = (prune_events, PRUNING) if keep_rollups else (remove_captures, REMOVING)
            self._change(found, work, frees=True, reads=reads)
        return found

    def compact(self) -> tuple[int, int]:
        """Rewrite the file to give back free space. Returns its bytes before and after.

        The new file replaces the old one when it is complete. Relations that were created before become invalid.

        Raises `WarehouseError` for a warehouse in memory or opened read-only, and if the new file can't be written or
        another process has opened the old one; then the old file stays.
        """
        from etq.maintenance.compaction import compact

        return compact(self._database)

    def export(self, capture: str | Capture, to: str, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a capture as a file for another tool. `to` is chrome, speedscope, hud, model-explorer or replay.

        A file whose name ends in .gz is compressed. An existing file is replaced when the new one is complete.

        runs     list of run_index: only these runs (chrome, speedscope)
        counters whether to add counters: queue lengths of streams, bandwidth of copies (chrome, of PyTorch traces)
        by       the grouping of ops, as in `op_totals`; adds the times of ops (hud)
        method   method of the graph (model-explorer); by default the one that ran
        graph    edge_dialect_exported_program, the default, or exported_program (model-explorer)
        unit     unit of times (model-explorer); by default as in all views
        op       name of the op (replay)
        shapes   its inputs, as in `op_efficiency` (replay); by default those of most time

        and, but for replay, the options that select runs in all views: steps, phase.

        Raises `QueryError` for an unknown capture, format or option and for a capture without content for the format,
        and `WarehouseError` for a file that can't be written.
        """
        from etq.export import parts, to_file

        to_file(parts(self, self._found(capture), to, **options), path_of(path))

    def decoded_metadata(self, capture: str | Capture, decoder: Decoder) -> Result:
        """Metadata that delegates log with times, decoded by a function of an event's name and its bytes, which returns
        a mapping, or None for bytes that it doesn't know.

        One row per field: block_index, slot, event_name, field, value (text), runs. None gives one row without a field,
        with the bytes in hexadecimal. The view `delegate_metadata` decodes those of common backends.

        Raises `QueryError` for an unknown capture, and if the function raises.
        """
        from etq.warehouse.metadata_decoder import decoded_metadata

        table = decoded_metadata(self, self._found(capture), decoder)
        return Result(lambda: self.connection.from_arrow(table))

    @contextmanager
    def _joined(self, parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Register parameters that are tables under their names; provide the others."""
        tables = {name: value for name, value in parameters.items() if _is_table(value)}
        for name in tables:
            if catalog.found(name) is not None:
                raise QueryError(f"{name}: a table or view of etq; give the table that is joined another name")
        try:
            for name, table in tables.items():
                self.connection.register(name, table.to_arrow_table() if isinstance(table, Result) else table)
            yield {name: value for name, value in parameters.items() if name not in tables}
        finally:
            for name in tables:
                self.connection.unregister(name)

    def _values(self, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Return parameters as DuckDB expects them; None if there are none, as only then a query may have several
        statements.
        """
        return {name: self._value(value, name in SELECTORS) for name, value in parameters.items()} or None

    def _value(self, value: Any, is_selector: bool = False) -> Any:
        """Return the key of a capture, by which views are planned fastest, and the hash of another handle; also of a
        capture that isn't here: it was removed, or is of another warehouse. A named view becomes its selector.
        """
        if is_selector and isinstance(value, str | list | tuple):
            return self.expanded(value) if isinstance(value, str) else [self._value(each, True) for each in value]
        if isinstance(value, Capture):
            query = "SELECT c.capture_id FROM captures AS c WHERE c.sha256 = ?"
            # A column of keys is never a HUGEINT: by this type, `_lacking` recognises a single capture.
            keys = (duckdb.Value(key, duckdb.type("HUGEINT")) for (key,) in self._database.fetch(query, [value.sha256]))
            return next(keys, value.sha256)
        return value.sha256 if isinstance(value, Program | Record) else value

    def _query_error(self, error: duckdb.Error, query: str = "") -> QueryError:
        """Return the error to raise for DuckDB's error about a query."""
        with self._database.lock:
            self._database.end_snapshot()
            message = message_of(error)
            if self.read_only and _READ_ONLY in message:
                message = "the warehouse is open for reading only; in Python, etq.open(path) opens it for writing"
            elif _OF_LIBRARY.search(message):
                name = identifier(database_of(self.connection))
                message = f"name the database of what is created or dropped: CREATE TABLE {name}.main.NAME"
            return QueryError(explained_query(self.connection, message, query))

    def _of_python(self, error: QueryError, query: str, parameters: dict[str, Any]) -> QueryError:
        """Return an error about a query as a traceback shows it: with its place in the query, or how to allow files."""
        cause = error.__cause__
        if is_without_access(cause):
            return QueryError(f"{error}; etq.open(PATH, external_access=True) allows it")
        if isinstance(cause, duckdb.Error) and self.is_open:
            error.place = place_in(query, cause) or self._planned_place(query, parameters)
            if error.place:
                error.add_note(printable_lines(error.place))
        return error

    def _planned_place(self, query: str, parameters: dict[str, Any]) -> str:
        """Return the place that DuckDB names when it plans a query: errors of its relations name none."""
        try:
            with self._database.lock, self._joined(parameters) as values:
                self._database.fetch(f"{EXPLAINED}{query}", self._values(values))
        except duckdb.Error as error:
            return place_in(query, error)
        return ""

    def _capture_of(self, key: int, is_new: bool) -> Capture:
        query = "SELECT capture_id, name, sha256, format, ?::BOOLEAN FROM captures WHERE capture_id = ?"
        return Capture(*self._database.fetch(query, [is_new, key])[0]).within(self)

    def _record_of(self, key: int, is_new: bool) -> Record:
        query = "SELECT record_id, name, sha256, is_complete, ?::BOOLEAN FROM records WHERE record_id = ?"
        return Record(*self._database.fetch(query, [is_new, key])[0])

    def _program_of(self, key: int, is_new: bool) -> Program:
        query = "SELECT program_id, name, sha256, ?::BOOLEAN FROM programs WHERE program_id = ?"
        return Program(*self._database.fetch(query, [is_new, key])[0])

    def _stored(
        self, source: str | os.PathLike[str] | bytes, store: Callable[[Source], tuple[int, bool]]
    ) -> tuple[int, bool]:
        """Store a file in a transaction of its own and return the result."""
        from etq.storage.sources import source_of

        self._database.check_writable()
        file = source_of(source)
        return self._write(lambda: store(file))

    def _change(
        self,
        captures: Sequence[str | Capture],
        work: Callable[[duckdb.DuckDBPyConnection, list[int]], Changed],
        *,
        frees: bool = False,
        **of_lake: Any,
    ) -> Changed:
        """Run `work` on captures, given by a connection and their keys, in a transaction. For a lake, it runs on a copy
        that replaces them. `of_lake` are options of `etq.lake.writing.changing.change`.
        """
        keys = [self._found(each).capture_id for each in captures]
        self._check_changeable()
        if self._lake is None:
            return self._database.write(lambda: work(self.connection, keys), frees=frees)
        from etq.lake.writing.changing import change

        return self._changed(lambda lake: change(lake, keys, work, **of_lake))

    def _change_whole(self, table: str, work: Callable[[duckdb.DuckDBPyConnection], Changed]) -> Changed:
        """Run `work` on a table about no one capture: of a lake, on a copy, which takes its place."""
        self._check_changeable()
        if self._lake is None:
            return self._database.write(lambda: work(self.connection))
        from etq.lake.writing.changing import change_whole

        return self._changed(lambda lake: change_whole(lake, table, work))

    def _changed(self, change: Callable[[Lake], Changed]) -> Changed:
        """Change the lake; queries then read its new state."""
        assert self._lake is not None
        result, connect = change(self._lake.lake), self._lake.connect
        with self._database.alone() as connection:
            connection.close()
            self._database.reopen(lambda _: connect())
        return result

    def _check_changeable(self) -> None:
        """Raise `WarehouseError` for a file or lake that was opened read-only."""
        if self._lake is not None:
            return
        if self.path is not None and is_lake_path(self.path):
            raise WarehouseError(f"{self.path}: opened read-only; open it for writing")
        self._database.check_writable()

    def _check_takes_files(self) -> None:
        """Raise `WarehouseError` if a single file was read without storing it: its tables are views of its rows."""
        if self.only is not None:
            raise WarehouseError(f"etq.read has read {self.only}, and takes no other file; store files with etq.open()")

    def _write(self, work: Callable[[], Changed]) -> Changed:
        with self._storing():
            return self._database.write(work)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        from etq.storage.capture import in_little_memory

        is_alone = self.path is not None and not self._database.is_shared
        with self._database.writing(), in_little_memory(self.connection) if is_alone else nullcontext():
            yield

    def _found(self, capture: str | Capture) -> Capture:
        return capture if isinstance(capture, Capture) else self.capture(capture)

    def _link(self, to: str | Record | Program) -> tuple[str, int]:
        """Return the column of `captures` that refers to a record or program, and the key."""
        target = self.record(to) if isinstance(to, str) else to
        if not isinstance(target, Program | Record):
            raise ArgumentTypeError(f"a capture is linked to a record's name, a Record or a Program, not {to!r}")
        return ("program_id", target.program_id) if isinstance(target, Program) else ("record_id", target.record_id)

    def _captures(self, outcomes: Sequence[Outcome]) -> Iterator[Capture | EtqError]:
        keys = [each[0] for each in outcomes if not isinstance(each, EtqError)]
        query = """
            SELECT c.capture_id, c.name, c.sha256, c.format FROM captures AS c
            WHERE c.capture_id IN (SELECT unnest($keys::INTEGER[]))
        """
        found = {row[0]: Capture(*row) for row in self._database.fetch(query, {"keys": keys})}
        for each in outcomes:
            yield each if isinstance(each, EtqError) else replace(found[each[0]], is_new=each[1]).within(self)


def _is_table(value: Any) -> bool:
    return hasattr(value, "__arrow_c_stream__")


def _check_query(query: object) -> None:
    if not isinstance(query, str):
        raise ArgumentTypeError(f"a query is a text, not {query!r}")


def _only_reads(query: str) -> bool:
    """Whether all statements are SELECT, so that they may run again. Raises `QueryError` if there are none."""
    statements = duckdb.extract_statements(query)
    if not statements:
        raise QueryError("the query is empty; write a statement")
    return all(each.type == duckdb.StatementType.SELECT for each in statements)


def _is_program(path: str | os.PathLike[str]) -> bool:
    from etq.ingest.recognition import PROGRAM, kind_of

    return kind_of(os.fspath(path)) == PROGRAM
