"""Ephemeral warehouses: files in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final, Generic, Literal, TypeVar

import duckdb

from etq.choices import TimeScale
from etq.database import schema
from etq.database.connection import in_memory
from etq.database.database import Database
from etq.database.handles import Capture
from etq.database.rollups import describe_runs, leave_answers
from etq.errors import ArgumentError, EtqError, FormatError, WarehouseError, path_of
from etq.warehouse.warehouse import Warehouse, open

Result = TypeVar("Result")
Given = str | os.PathLike[str] | bytes
# DuckDB's memory limit while a job is read and queried: 64 ranks of 100 MB then need less than 2 GB.
_MEMORY_OF_JOB: Final = "768MiB"


def read(
    *sources: Given | Sequence[Given],
    time_scale: TimeScale | None = None,
    clock_bits: Literal[32, 64] | None = None,
    debug_buffer: str | os.PathLike[str] | None = None,
    etrecord: str | os.PathLike[str] | None = None,
    pte: str | os.PathLike[str] | None = None,
    graph_captures: Sequence[str | os.PathLike[str] | bytes] = (),
    assume: str | None = None,
) -> Warehouse:
    """Read profiling files (or their bytes) to query them without storing them, as `etq FILE` does.

    Returns a warehouse in memory, a context manager as what `open` returns. For one file, the capture is its attribute
    `only`, which all views use if no capture is given: `etq.read("run.etdp").op_totals(unit="us")`; `trend` and
    `regressions` need several. Several files, a list of them, a folder or a pattern (`"runs/*.etdp"`) are
    ingested as by `Warehouse.ingest_many`, each under its name, with the labels of sidecars.

    Options and errors are those of `Warehouse.ingest`; elements of values in a debug buffer are kept. Options with
    files that belong to a capture, such as `etrecord`, need a single file. Raises the error of the first file that
    can't be read.
    """
    files = [each for source in sources for each in _files_of(source)]
    if not files:
        raise ArgumentError("no files to read; name one or more")
    if len(files) != 1:
        of_one = {"debug_buffer": debug_buffer, "etrecord": etrecord, "pte": pte, "graph_captures": graph_captures}
        if given := [name for name, value in of_one.items() if value]:
            raise ArgumentError(f"{given[0]} needs a single file, and there are {len(files)}")
        return _of_several(files, time_scale, clock_bits, assume)
    return open_ephemeral(
        files[0],
        time_scale=time_scale,
        clock_bits=clock_bits,
        etrecord=etrecord,
        debug_buffer=debug_buffer,
        program=pte,
        graph_captures=graph_captures,
        assume=assume,
    )[0]


def _files_of(source: Given | Sequence[Given]) -> Sequence[Given]:
    """The files that an argument names: the file itself, or those of a list, a folder or a pattern."""
    if isinstance(source, bytes):
        return [source]
    if isinstance(source, list | tuple):
        return [each for item in source for each in _files_of(item)]
    from etq.ingest.found_files import files_of

    return files_of(path_of(source))[0]


def _of_several(
    files: Sequence[Given], time_scale: TimeScale | None, clock_bits: Literal[32, 64] | None, assume: str | None
) -> Warehouse:
    warehouse = open()
    for result in warehouse.ingest_many(files, time_scale=time_scale, clock_bits=clock_bits, assume=assume):
        if isinstance(result, EtqError):
            warehouse.close()
            raise result
    return warehouse


def open_ephemeral(
    source: str | os.PathLike[str] | bytes,
    *,
    time_scale: TimeScale | None = None,
    clock_bits: Literal[32, 64] | None = None,
    etrecord: str | os.PathLike[str] | None = None,
    debug_buffer: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
    graph_captures: Sequence[str | os.PathLike[str] | bytes] = (),
    assume: str | None = None,
    is_for_all_runs: bool = False,
    has_nodes: bool = True,
) -> tuple[Warehouse, Capture]:
    """Do what `read` does; return the warehouse and the capture.

    If it `is_for_all_runs`, for a single query, typical runs, logged results of ops, advice and the capture's hash
    aren't computed: each would take as long as the query. Unless it `has_nodes`, only the methods of its runs are
    known; the caller finds the nodes and ops of its events when it needs them. Other options and errors are those of
    `Warehouse.ingest`; with `etrecord` and `program`, the capture is linked to them; with `debug_buffer`, logged values
    are stored.
    """
    # The database is created on another thread while modules are imported, because DuckDB releases the interpreter's
    # lock.
    creation = BackgroundCall(_create)
    try:
        from etq.storage.capture import Options
        from etq.storage.ephemeral import load
        from etq.storage.given import check_captures, check_takes
        from etq.storage.sources import source_of, traces_of

        options = Options(
            time_scale=time_scale,
            clock_bits=clock_bits,
            debug_buffer=None if debug_buffer is None else source_of(debug_buffer),
            keep_values=True,
            graph_captures=traces_of(graph_captures),
            assume=assume,
        )
        file = source_of(source)
        check_takes(file, ETRecord=etrecord, program=program, debug_buffer=debug_buffer)
        check_captures(file, options.graph_captures)
        if is_for_all_runs:
            file.skip_hashing()
        else:
            file.start_hashing()
    finally:
        connection = creation.result()
    load(connection, 1, file, options)
    if not is_for_all_runs:
        leave_answers(connection, 1, 1)
    warehouse = Warehouse(Database(connection, None))
    [row] = connection.execute("SELECT capture_id, name, sha256, format, true FROM captures").fetchall()
    capture = warehouse.only = Capture(*row).within(warehouse)
    links = {}
    if program is not None:
        links["program_id"] = warehouse.ingest_program(program).program_id
    if etrecord is not None:
        links["record_id"] = warehouse.ingest_record(etrecord).record_id
    if links:
        from etq.storage.linking import find_nodes, find_ops, link_new
        from etq.storage.node_sets import find_costs
        from etq.storage.outputs import find_op_values, find_outputs

        link_new(connection, 1, links)
        if has_nodes:
            find_nodes(connection, 1)
            find_ops(connection, 1)
            find_costs(connection, 1)
        if not is_for_all_runs:
            find_outputs(connection, 1)
            find_op_values(connection, [1])
    describe_runs(connection, 1, 1, has_executes=not is_for_all_runs and capture.format != "torch_trace")
    return warehouse, capture


def _create() -> duckdb.DuckDBPyConnection:
    connection = in_memory()
    schema.create(connection)
    return connection


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


def open_ephemeral_ranks(path: str | os.PathLike[str]) -> Warehouse:
    """Load the ranks of a merged trace into a warehouse in memory, as a capture per rank. Errors are those of
    `Warehouse.ingest_ranks`, and `FormatError` for another file.
    """
    warehouse = open()
    if not warehouse.ingest_ranks(path):
        raise FormatError(os.fspath(path), "not a trace of several ranks; ingest the ranks' files, with a label job")
    return warehouse


@contextmanager
def open_ephemeral_jobs(
    jobs: Mapping[str, Mapping[int, Given]], progress: Callable[[], None] = lambda: None
) -> Iterator[Warehouse]:
    """Provide a temporary warehouse with the traces of jobs, each given as files (or their bytes) by rank.

    Files are read one by one into a temporary file, so that memory holds the events of only one file. No advice or
    rollups are computed. `progress` is called after each file. Raises the error of the first file that can't be read.
    """
    from etq.database.connection import connect, explained
    from etq.ingest.registry import read_capture
    from etq.storage.capture import Options, insert_new, new_capture
    from etq.storage.naming import free_name
    from etq.storage.sources import source_of

    given = [(job, rank, file) for job, ranks in jobs.items() for rank, file in sorted(ranks.items())]
    with TemporaryDirectory(prefix="etq-job-") as folder:
        path = str(Path(folder) / "job.duckdb")
        schema.create_file(path)
        connection = connect(path, read_only=False)
        with Warehouse(Database(connection, None)) as warehouse:
            connection.execute(f"SET memory_limit = '{_MEMORY_OF_JOB}'")
            for key, (job, rank, file) in enumerate(given, 1):
                source = source_of(file)
                options = Options(labels={"job": job, "rank": str(rank)})
                reading = read_capture(source.content, source.uri)
                capture = new_capture(free_name(connection, "captures", source), source, options, reading)
                try:
                    schema.in_transaction(connection, partial(insert_new, connection, {key: capture}))
                except duckdb.Error as error:
                    raise WarehouseError(f"{source.uri}: {explained(path, error)}") from error
                progress()
            yield warehouse
