"""A warehouse: a DuckDB database with etq's tables and views, and captures that are put into it.

with etq.open("lab.duckdb") as warehouse:
    warehouse.ingest("run.etdp", labels={"device": "pixel8"})
    warehouse.sql("FROM op_totals($capture)", capture="run").show()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import duckdb

from etq.choices import TimeScale
from etq.database import schema
from etq.database.connection import connect, explained
from etq.database.database import Database
from etq.database.handles import Capture, Program, Record
from etq.database.locking import WriteLock
from etq.errors import EtqError, QueryError, WarehouseError, message_of
from etq.storage.sources import checked_clock_bits, checked_moment, checked_time_scale
from etq.warehouse.views import Views

if TYPE_CHECKING:
    from etq.storage.bulk import Outcome
    from etq.storage.sources import Source
    from etq.warehouse.metadata_decoder import Decoder

    Given = str | os.PathLike[str] | bytes

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
    if path is None:
        connection = duckdb.connect(":memory:")
        schema.create(connection)
        return Warehouse(Database(connection, None))
    path = os.fspath(path)
    if path in ("", ":memory:"):
        raise WarehouseError(f"{path!r} is not a file; etq.open() without a path opens a warehouse in memory")
    if os.path.isdir(path):
        return _open_lake(path)
    with WriteLock(path):
        connection = connect(path, read_only, wait)
        try:
            if not read_only and schema.is_empty(connection):
                schema.in_transaction(connection, lambda: schema.create(connection))
            else:
                schema.update_definitions(connection, path, read_only=read_only)
        except duckdb.Error as error:
            connection.close()
            raise WarehouseError(f"{path}: {explained(path, error)}") from error
        except BaseException:
            connection.close()
            raise
        return Warehouse(Database(connection, path, read_only=read_only))


def _open_lake(path: str) -> Warehouse:
    from etq.lake.log import is_lake
    from etq.lake.reading import connect

    if not is_lake(path):
        raise WarehouseError(f"{path}: a folder; a warehouse is a file, or a lake that etq lake makes")
    return Warehouse(Database(connect(Path(path)), path, read_only=True))


class Warehouse(Views):
    """An open warehouse, made by `open`. A context manager; `close` may be called more than once.

    Threads may share one: they are served one after the other. A relation, which is asked when it is read, is for one
    thread while no other asks; `rows` is for all.

    Each public table macro of the SQL is a method of its name, which returns a relation of DuckDB: `.show()`,
    `.fetchall()`, `.df()`, `.to_arrow_table()`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection. Raises `WarehouseError` once the warehouse is closed."""
        return self._database.connection

    @property
    def path(self) -> str | None:
        """The file, or the folder of a lake; None in memory."""
        return self._database.path

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._database.read_only

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self._database.is_open

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if not self.is_open else "read-only" if self.read_only else "open"
        return f"<etq.Warehouse {self.path or ':memory:'} ({state})>"

    def sql(self, query: str, /, **parameters: Any) -> duckdb.DuckDBPyRelation:
        """The result of a query as a relation; `$name` in it is that parameter: also a `Capture` or the like.

        Raises `QueryError` where the query is wrong; errors in the data show when the relation is read.
        """
        try:
            with self._database.lock:
                return self.connection.sql(query, params=_values(parameters))
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

    def rows(self, query: str, /, **parameters: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of a query's columns, and all its rows: sooner there than through `sql`, which plans it twice.

        Raises `QueryError` where the query is wrong or the data have none of what is asked for.
        """
        try:
            with self._database.lock:
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
        from etq.sandbox.client import ask

        if self.path is None or not self.read_only:
            what = "it is in memory" if self.path is None else "open it with read_only=True"
            raise WarehouseError(f"{self.path or 'memory'}: another process can't read it: {what}")
        return ask(self.path, query, _values(parameters), seconds, megabytes)

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

    def captures(self) -> duckdb.DuckDBPyRelation:
        """All captures with their labels: one row each, in the order of ingest."""
        return self.sql("FROM capture_summary")

    def record(self, selector: str) -> Record:
        """The one record of a name or hash prefix. Raises `QueryError` where there is none or more than one."""
        query = (
            "SELECT r.record_id, r.name, r.sha256, r.is_complete FROM records AS r WHERE r.record_id = _record_id(?)"
        )
        try:
            return Record(*self._database.fetch(query, [selector])[0])
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

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
        from etq.annotations.discovery import found_about, labels_of_git
        from etq.storage.capture import Options, store
        from etq.storage.sources import source_of

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
        link_to: Sequence[str | Record | Program] = (),
        progress: Callable[[Given, Capture | EtqError], None] | None = None,
    ) -> list[Capture | EtqError]:
        """Read many profiling files (or their bytes) into the warehouse, several times as fast as one by one.

        Returns, in the order of the files, the capture of each, or the error for which it was left out: each file is
        ingested whole or not at all, and none stops the others. Of files of the same content, the first is new.

        link_to   records and programs (or names of records) that the captures are linked to
        progress  called with each file, and its capture or error, once that is in the warehouse to stay

        The other options are those of `ingest`, and count for every file. Names are the files' stems, with folders
        before them where other content has that.

        Raises `WarehouseError` for options that are none and for a warehouse that is read-only, `QueryError` for a
        record that there isn't, and `EtqError` for a folder without git; then nothing was ingested.
        """
        from etq.annotations.discovery import found_about, labels_of_git
        from etq.annotations.labels import check_labels
        from etq.storage.bulk import files_of, store_many
        from etq.storage.capture import Options

        if isinstance(sources, str | bytes | os.PathLike):
            raise WarehouseError("ingest_many takes a list of files; one file is for ingest")
        self._database.check_writable()
        check_labels(labels or {})
        moment, scale = checked_moment(captured_at), checked_time_scale(time_scale)
        said = Options(None, labels or {}, moment, scale, checked_clock_bits(clock_bits))
        of_git = {} if label_git is None else labels_of_git(label_git)
        links = [self._link(each) for each in link_to]
        listed = list(sources)
        find = partial(found_about, pattern=label_from, of_git=of_git, sidecar=sidecar)
        stored = store_many(self.connection, files_of(listed, said, find), links)
        results: list[Capture | EtqError] = []
        while (outcomes := self._next(stored)) is not None:
            for each in self._captures(outcomes):
                if progress is not None:
                    progress(listed[len(results)], each)
                results.append(each)
        return results

    def ingest_record(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Record:
        """Read an ETRecord into the warehouse: all of it, or, at an error, nothing. Known content adds nothing.

        Raises `FormatError` for a file that can't be read, is damaged or is no ETRecord, and `WarehouseError` for a
        name that is taken and for a warehouse that can't be written.
        """
        from etq.storage.records import store_record

        record_id, is_new = self._stored(source, lambda file: store_record(self.connection, file, name))
        query = "SELECT record_id, name, sha256, is_complete, ?::BOOLEAN FROM records WHERE record_id = ?"
        return Record(*self._database.fetch(query, [is_new, record_id])[0])

    def ingest_program(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Program:
        """Read an ExecuTorch program (`.pte`, or its bytes) into the warehouse: all of it, or, at an error, nothing.

        Content that is there already adds no rows: a name given is applied to it, and `is_new` is False.

        name  unique name; by default the file's stem, with folders before it where another program has that

        Raises `FormatError` for a file that can't be read or is damaged, `WarehouseError` for a name that is taken
        and for a warehouse that can't be written.
        """
        from etq.storage.programs import store_program

        program_id, is_new = self._stored(source, lambda file: store_program(self.connection, file, name))
        query = "SELECT program_id, name, sha256, ?::BOOLEAN FROM programs WHERE program_id = ?"
        return Program(*self._database.fetch(query, [is_new, program_id])[0])

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

        `etq.torch.reference.reference_values` runs a graph. Raises `QueryError` where there is no such record, and
        `WarehouseError` for a graph that it hasn't, a name that is taken and a warehouse that can't be written.
        """
        from etq.storage.reference import store_reference

        record_id = (self.record(record) if isinstance(record, str) else record).record_id
        capture_id, is_new = self._database.write(
            lambda: store_reference(self.connection, record_id, graph, values, name)
        )
        query = "SELECT capture_id, name, sha256, format, ?::BOOLEAN FROM captures WHERE capture_id = ?"
        return self._capture_of(query, [is_new, capture_id])

    def attach_second(self, path: str | os.PathLike[str], *, time_scale: str | None = None) -> Capture:
        """Put one more file into a warehouse that `look_at` gave; options and errors are those of `ingest`."""
        from etq.storage.capture import Options, load_second
        from etq.storage.sources import source_of

        options = Options(None, {}, None, checked_time_scale(time_scale), None)
        capture_id = load_second(self.connection, source_of(path), options)
        query = "SELECT capture_id, name, sha256, format, true FROM captures WHERE capture_id = ?"
        return self._capture_of(query, [capture_id])

    def link(self, capture: str | Capture, to: str | Record | Program) -> None:
        """Say that a capture is of a record's program, so that its events can be told their ops and modules; or of a
        program, so that the methods of its runs can be told.

        The methods are inferred from the record, or from the program where there is no record. What doesn't fit is told
        of in `findings`. Raises `QueryError` where there is no such capture or record.
        """
        from etq.storage.linking import link

        found = capture if isinstance(capture, Capture) else self.capture(capture)
        target = self.record(to) if isinstance(to, str) else to
        column, key = (
            ("program_id", target.program_id) if isinstance(target, Program) else ("record_id", target.record_id)
        )
        self._database.write(lambda: link(self.connection, found.capture_id, column, key))

    def label(self, capture: str | Capture, /, **labels: str | None) -> dict[str, str]:
        """Give a capture labels, in place of those of the same keys; None takes one away. Returns all it has then.

        `captured_at` is no label: it says when the capture was measured, in ISO 8601, in UTC without a time zone.
        Keys that are no names of Python's are given as `**{"soc-rev": "2"}`.

        Raises `QueryError` where there is no such capture; `WarehouseError` for keys that are empty or hold commas,
        equals signs, quotation marks, @ or control characters, for values that hold these last, for a captured_at that
        is no time, and for a warehouse that can't be written.
        """
        from etq.annotations.labels import labels_of, set_labels

        key = self._key(capture)

        def labelled() -> dict[str, str]:
            set_labels(self.connection, key, labels)
            return labels_of(self.connection, key)

        return self._database.write(labelled)

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
        """Say a number beside a capture's events, in place of what was said of that name; None takes that away.

        unit    what it counts; by default as in `known_metrics`, to whose unit times and memory are converted
        better  lower or higher; by default as in `known_metrics`; None for conditions, such as a temperature
        run     the run that it is about; by default the capture as a whole

        Raises `QueryError` where there is no such capture; `WarehouseError` for a value that is no finite number, a
        name or unit that is none, a run that there isn't and a warehouse that can't be written.
        """
        from etq.ingest.metrics.rows import Metric
        from etq.storage.metrics import set_metric

        key = self._key(capture)
        given = name if value is None else Metric(name, value, unit, better)
        gone = self._database.write(lambda: set_metric(self.connection, key, given, run))
        if value is None and not gone:
            raise WarehouseError(f"no metric {name!r} was said by hand of {capture}")

    def ingest_metrics(self, capture: str | Capture, source: str | os.PathLike[str] | bytes) -> int:
        """Read a file's metrics (or its bytes) to a capture: all of it, or, at an error, nothing.

        The file is a log of ExecuTorch's runner of language models, `benchmark_results.json` of its benchmark apps,
        records of PyTorch's benchmark database, or JSON with numbers by name: told by its content.

        Returns the number of metrics added: 0 where the same content was read to the capture before.

        Raises `QueryError` where there is no such capture, `FormatError` for a file that can't be read or is damaged,
        and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.storage.metrics import store_metrics
        from etq.storage.sources import source_of

        key, file = self._key(capture), source_of(source)
        return self._database.write(lambda: store_metrics(self.connection, key, file))

    def phase(
        self,
        capture: str | Capture,
        phase: str | None,
        *,
        runs: str | Iterable[int] | None = None,
        name: str | None = None,
        method: str | None = None,
    ) -> int:
        """Say what runs of a capture were for. Returns the number of runs it was said of.

        phase   load, prefill, decode or other; None takes back what was said
        runs    their numbers: integers, or a text such as 1-39,45 or 40-
        name    runs of that name: Execute, Default
        method  runs of that method, as inferred from the linked record or program

        Runs that all of what is given chooses; one at least must be given. Raises `QueryError` where there is no such
        capture, and `WarehouseError` for another phase, runs that there aren't, rules that choose none and a warehouse
        that can't be written.
        """
        from etq.annotations.phases import set_phase

        key = self._key(capture)
        return self._database.write(lambda: set_phase(self.connection, key, phase, runs, name, method))

    def phases_from_metrics(self, capture: str | Capture) -> dict[str, int]:
        """Say the phases of a language model's runs by the tokens that its runner counted (`ingest_metrics`).

        Only where these fit the runs that execute exactly, and in one way: a prompt in one run or a token a run, then
        a run for each token generated, the first of them perhaps out of the prompt. Runs that load are said to.
        Returns the number of runs by phase.

        Raises `QueryError` where there is no such capture, and `WarehouseError`, which says why, where the counts don't
        fit, where there are none, and for a warehouse that can't be written.
        """
        from etq.annotations.phases import set_phases_from_metrics

        key = self._key(capture)
        return self._database.write(lambda: set_phases_from_metrics(self.connection, key))

    def remove(self, *captures: str | Capture) -> None:
        """Take captures out, with all that was said of them: all of these, or, at an error, none.

        Records and programs stay. The file doesn't get smaller before `compact`.

        Raises `QueryError` where there is no such capture or a selector means several, and `WarehouseError` for a
        warehouse that can't be written.
        """
        from etq.maintenance.retention import remove_captures

        keys = [self._key(each) for each in captures]
        self._database.write(lambda: remove_captures(self.connection, keys))

    def prune(
        self,
        keep_last: int,
        by: Sequence[str] = (),
        *,
        selectors: Sequence[str] | None = None,
        keep_rollups: bool = False,
        dry_run: bool = False,
    ) -> list[Capture]:
        """Take out all captures but the last ones, and return them.

        keep_last     number of captures of each group that stay: the last by when they were captured, then ingested
        by            keys of labels: captures of a group have the same values of these; by default all are one group
        selectors     only what matches any of these counts
        keep_rollups  whether captures stay with what comparisons need, with their labels and metrics: only their
                      events go, and what asks for these then is an error that says so; ingesting the file again
                      brings them back
        dry_run       whether nothing is done: captures are only told

        Raises `WarehouseError` for a number below 0, a key that no label has, and for a warehouse that can't be
        written.
        """
        from etq.maintenance.retention import outdated_captures, prune_events, remove_captures

        found = outdated_captures(self._database, keep_last, by, selectors, keep_rollups=keep_rollups)
        keys = [each.capture_id for each in found]
        if keys and not dry_run:
            work = prune_events if keep_rollups else remove_captures
            self._database.write(lambda: work(self.connection, keys))
        return found

    def compact(self) -> tuple[int, int]:
        """Write the file anew, so that the space of what was removed is given back. Returns its bytes before and after.

        The old file stays until the new one is whole, and in place of it. Relations that were asked for before end.

        Raises `WarehouseError` for a warehouse in memory or opened read-only, and where the new file can't be written
        or another process has taken the old one; then the old file is as it was.
        """
        from etq.maintenance.compaction import compact

        return compact(self._database)

    def export(self, capture: str | Capture, to: str, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a capture as a file of another tool: to is chrome, speedscope, hud or model-explorer.

        A file whose name ends in .gz is compressed. One that is there is overwritten, once the new one is whole.

        runs     list of run_index: these runs alone (chrome, speedscope)
        by       what one op is, as in `op_totals`, whose times are then written, too (hud)
        method   the method whose graph is meant (model-explorer), by default the one that ran
        graph    edge_dialect_exported_program, the default, or exported_program (model-explorer)
        unit     unit of times (model-explorer), by default as in all views

        and what chooses among runs, as in all views: skip_first, wait, warmup, active, repeat, skip_first_wait, phase.

        Raises `QueryError` where there is no such capture, format or option and where the capture has nothing that the
        format could hold, and `WarehouseError` for a file that can't be written.
        """
        from etq.export import parts, to_file

        to_file(parts(self, capture, to, **options), os.fspath(path))

    def decoded_metadata(self, capture: str | Capture, decoder: Decoder) -> duckdb.DuckDBPyRelation:
        """What delegates logged beside times, by a function from an event's name and its bytes to a mapping or None.

        One row a field: block_index, slot, event_name, field, value (text), runs; what the function knows nothing of
        (None) is one row without a field, in hexadecimal. `delegate_metadata` knows the common backends' by itself.

        Raises `QueryError` where there is no such capture, and where the function raises.
        """
        from etq.warehouse.metadata_decoder import decoded_metadata

        found = capture if isinstance(capture, Capture) else self.capture(capture)
        return self.connection.from_arrow(decoded_metadata(self, found, decoder))

    def _capture_of(self, query: str, parameters: list[Any]) -> Capture:
        """The capture that a query finds."""
        return Capture(*self._database.fetch(query, parameters)[0]).within(self)

    def _stored(
        self, source: str | os.PathLike[str] | bytes, store: Callable[[Source], tuple[int, bool]]
    ) -> tuple[int, bool]:
        """The result of storing a file, in a transaction of its own."""
        from etq.storage.capture import in_little_memory
        from etq.storage.sources import source_of

        self._database.check_writable()
        file = source_of(source)
        with self._database.writing(), in_little_memory(self.connection) if self.path else nullcontext():
            return self._database.write(lambda: store(file))

    def _key(self, capture: str | Capture) -> int:
        return (self.capture(capture) if isinstance(capture, str) else capture).capture_id

    def _link(self, to: str | Record | Program) -> tuple[str, int]:
        """The column of `captures` that links to a record or program, and its key."""
        target = self.record(to) if isinstance(to, str) else to
        return ("program_id", target.program_id) if isinstance(target, Program) else ("record_id", target.record_id)

    def _next(self, stored: Iterator[list[Outcome]]) -> list[Outcome] | None:
        """What became of the next files; None behind the last."""
        from etq.storage.capture import in_little_memory

        with self._database.writing(), in_little_memory(self.connection) if self.path else nullcontext():
            return next(stored, None)

    def _captures(self, outcomes: Sequence[Outcome]) -> Iterator[Capture | EtqError]:
        keys = [each[0] for each in outcomes if not isinstance(each, EtqError)]
        query = """
            SELECT c.capture_id, c.name, c.sha256, c.format FROM captures AS c
            WHERE c.capture_id IN (SELECT unnest($keys::INTEGER[]))
        """
        found = {row[0]: Capture(*row) for row in self._database.fetch(query, {"keys": keys})}
        for each in outcomes:
            yield each if isinstance(each, EtqError) else replace(found[each[0]], is_new=each[1]).within(self)


def _values(parameters: dict[str, Any]) -> dict[str, Any] | None:
    """Parameters as the database takes them; None where there are none, so that a query may hold several statements."""
    return {
        name: value.sha256 if isinstance(value, Capture | Program | Record) else value
        for name, value in parameters.items()
    } or None
