"""etq's SQL on Spark: executors answer it with DuckDB, on the files of a lake."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from etq.database.functions import register_for
from etq.database.nearest import explained
from etq.database.results import subquery
from etq.database.temporary import temporary_folder
from etq.errors import QueryError, message_of
from etq.lake.reading.connection import connect, read_parquet, see_only
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import Lake
from etq.spark.columns import cells, schema
from etq.spark.session import without_warnings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# The most captures of a task. A task opens the lake, which takes as long as a query or two.
_AT_ONCE: Final = 20
_ROWS_AT_ONCE: Final = 10_000
MEGABYTES: Final = 512


@dataclass(frozen=True)
class Chosen:
    """A capture of a lake, and the load that wrote its rows."""

    load: str
    capture_id: int
    name: str
    sha256: str


@dataclass(frozen=True)
class Job:
    """The input of each task of a query: the query, and the state of the lake when the query was asked.

    captures  the captures for which the query runs, by task; None if it runs once, on the whole lake
    """

    query: str
    state: LakeState
    captures: Sequence[Sequence[Chosen]] | None
    megabytes: int


def sql(
    spark: SparkSession,
    query: str,
    lake: str | os.PathLike[str],
    *,
    captures: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    megabytes: int = MEGABYTES,
) -> DataFrame:
    """Return the result of a query in etq's SQL. Spark's executors answer it with DuckDB.

    By default, one task answers the query on the whole lake. This suits views of one capture, and views that compare
    captures, because these read small tables. With `captures`, tasks run it once for each of these captures, as if the
    lake had no other:

        etq.spark.sql(spark, "FROM op_totals($capture, unit := 'us')", "fleet", captures="model=mlp")

    lake             a folder that all of Spark's processes see, or an address of an object store, as s3a://lab/fleet
    captures         a selector, or a name; $capture in the query stands for each of the captures. The first column of
                     the result, capture_name, has the capture's name. A capture's rows are in the order of the query
    storage_options  options of the object store, as `deltalake` takes them; otherwise those of each process's
                     environment
    megabytes        the most memory that DuckDB takes in a task; if a query needs more, it uses the executor's disk

    Executors need etq[spark]. The result is that of the lake's state at the time of this call. It is computed whenever
    it is read, unless it is cached.

    Raises QueryError for a query that is wrong or isn't a single SELECT, and for a selector that no capture matches;
    WarehouseError if the path has no lake. Errors of the data occur when the result is read.
    """
    state = read(Lake.at(lake, storage_options))
    with closing(connect(state.lake, state, external_access=False)) as connection:
        try:
            named = _parameters(query, of_captures=captures is not None)
            chosen = None if captures is None else _by_task(_chosen(connection, state, captures), _cores(spark))
            register_for(connection, query)
            result = connection.sql(query, params=dict.fromkeys(named, "") or None)
        except duckdb.Error as error:
            raise QueryError(explained(connection, message_of(error), query)) from error
        columns = schema(result.columns, result.types)
        if casts := cells(result.types):
            query = f"SELECT {casts} FROM {subquery(query)}"
    if chosen is not None:
        columns = f"capture_name STRING, {columns}"
    tasks = 1 if chosen is None else len(chosen)
    with without_warnings():
        return spark.range(0, tasks, 1, tasks).mapInArrow(partial(work, Job(query, state, chosen, megabytes)), columns)


def _parameters(query: str, *, of_captures: bool) -> set[str]:
    """Return the parameters of a query; the only one that it may have is capture. Raises `QueryError` for other
    parameters, and for other statements.
    """
    statements = duckdb.extract_statements(query)
    if len(statements) != 1 or not _is_select(statements[0]):
        raise QueryError("expected one query: a SELECT, or FROM")
    named = {*statements[0].named_parameters}
    if unknown := named - ({"capture"} if of_captures else set()):
        known = "only $capture has a value" if of_captures else "choose the captures for which $capture stands"
        raise QueryError(f"${min(unknown)} has no value: {known}")
    return named


def _is_select(statement: duckdb.Statement) -> bool:
    try:
        return bool(statement.type == duckdb.StatementType.SELECT)
    except ValueError:  # A kind of statement for which DuckDB's Python package has no name.
        return False


def _chosen(connection: duckdb.DuckDBPyConnection, state: LakeState, selector: str) -> list[Chosen]:
    """The captures that a selector matches, with the captures of a load next to each other. Raises `QueryError` if none
    match.
    """
    found: list[Chosen] = []
    if state.of("captures"):
        rows = connection.execute(
            f"""
            SELECT k.filename, k.capture_id, k.name, k.sha256
            FROM {read_parquet(state.paths("captures"), "filename = true")} AS k
            SEMI JOIN _matching_captures($selector) AS m USING (capture_id)
            ORDER BY ALL
            """,
            {"selector": selector},
        ).fetchall()
        found = [Chosen(Path(file).parent.name.removeprefix("load_id="), *row) for file, *row in rows]
    if not found:
        query = "SELECT r.missing FROM _resolved_captures($selector) AS r"
        [(missing,)] = connection.execute(query, {"selector": selector}).fetchall()
        raise QueryError(explained(connection, missing))
    return found


def _by_task(chosen: Sequence[Chosen], cores: int) -> list[Sequence[Chosen]]:
    """Return the captures of each task, for enough tasks to use all cores. The captures of a task are neighbours, whose
    rows are in the same files.
    """
    size = max(1, min(_AT_ONCE, len(chosen) // (2 * cores)))
    return [chosen[start : start + size] for start in range(0, len(chosen), size)]


def _cores(spark: SparkSession) -> int:
    context = getattr(spark, "sparkContext", None)  # Spark Connect has no sparkContext.
    return 1 if context is None else int(context.defaultParallelism)


def work(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answer the query for the tasks whose numbers are given; runs in an executor. Raises `QueryError`."""
    for batch in batches:
        for place in batch.column(0).to_pylist():
            yield from _answers(job) if job.captures is None else _answers_for(job, job.captures[place])


def _answers(job: Job) -> Iterator[pa.RecordBatch]:
    with _opened(job, job.state) as connection:
        yield from _rows(connection, job.query, None)


def _answers_for(job: Job, captures: Sequence[Chosen]) -> Iterator[pa.RecordBatch]:
    """The rows for each capture, with its name."""
    import pyarrow as pa

    named = _parameters(job.query, of_captures=True)
    with _opened(
        job, job.state.only("capture", {capture.load for capture in captures}), of_one_capture=True
    ) as connection:
        for capture in captures:
            see_only(connection, capture.capture_id)
            try:
                for batch in _rows(connection, job.query, dict.fromkeys(named, capture.sha256) or None):
                    names = pa.array([capture.name] * len(batch), pa.string())
                    yield pa.RecordBatch.from_arrays([names, *batch.columns], ["capture_name", *batch.schema.names])
            except QueryError as error:
                raise QueryError(f"{capture.name}, seen alone: {error}") from error


@contextmanager
def _opened(job: Job, state: LakeState, *, of_one_capture: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection that takes no more than a task's share of an executor's memory and cores."""
    with temporary_folder() as folder:
        config = {"memory_limit": f"{job.megabytes}MiB", "temp_directory": folder, "threads": "1"}
        connection = connect(state.lake, state, external_access=False, of_one_capture=of_one_capture, config=config)
        with closing(connection):
            register_for(connection, job.query)
            yield connection


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, str] | None
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        yield from connection.sql(query, params=parameters).to_arrow_reader(_ROWS_AT_ONCE)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise QueryError(explained(connection, message_of(error), query)) from error
