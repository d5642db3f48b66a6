"""A lake's tables in a Spark session, and the messages of Spark's errors."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.catalog import SqlObject
from etq.errors import QueryError
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import Lake, column_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILTERS: Final = RLock()
# Java's message about a task that failed each time, after as many attempts as Spark makes.
_FAILED: Final = re.compile(r"most recent failure: .*?\): (?:[\w.]+(?:Exception|Error): )?(.*)")
# The last line of Python's message about an error in an executor.
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): (.*)$", re.MULTILINE)

# The view `labelled_captures`, written in Spark's SQL, because Spark can't run DuckDB's.
_LABELLED: Final = """
    SELECT {columns}
    FROM captures AS c
    LEFT JOIN (
        SELECT l.capture_id, map_from_entries(collect_list(struct(l.key, l.value))) AS labels
        FROM labels AS l GROUP BY l.capture_id
    ) AS b ON b.capture_id = c.capture_id
"""


def register(
    spark: SparkSession, lake: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> None:
    """Make the base tables of a lake temporary views of a session, for Spark's own SQL; and `labelled_captures`, whose
    `labels['device']` is the device of a capture.

    The views show the lake's state at the time of this call. Register the lake again to see captures that were added
    since.

    lake             a folder that all of Spark's processes see, or an address that Spark and `deltalake` know, as
                     s3a://lab/fleet
    storage_options  options of the object store, as `deltalake` takes them; Spark has its own settings

    Raises WarehouseError for what isn't a lake.
    """
    state = read(Lake.at(lake, storage_options))
    with without_warnings():
        for table in catalog.tables():
            _read_table(spark, state, table).createOrReplaceTempView(table.name)
        spark.sql(_LABELLED.format(columns=", ".join(_columns_of_captures()))).createOrReplaceTempView(
            "labelled_captures"
        )


def _columns_of_captures() -> list[str]:
    """The columns of `labelled_captures`, for `_LABELLED`."""
    labels = "coalesce(b.labels, CAST(map() AS MAP<STRING, STRING>)) AS labels"
    names = [column.name for column in catalog.named("labelled_captures").columns]
    return [labels if name == "labels" else f"c.{name}" for name in names]


def _read_table(spark: SparkSession, state: LakeState, table: SqlObject) -> DataFrame:
    """A base table of a lake: the files of its loads."""
    if paths := state.paths(table.name):
        addresses = [path if "://" in path else Path(path).as_uri().replace("%3D", "=") for path in paths]
        return spark.read.parquet(*addresses).select([f"`{column.name}`" for column in table.columns])
    from pyspark.sql.types import StructType

    # Delta Lake names types as Spark does.
    types = column_types(table.name)
    fields = [
        {"name": name, "type": types[name], "nullable": True, "metadata": {}} for name in types if name != "load_id"
    ]
    return spark.createDataFrame([], StructType.fromJson({"type": "struct", "fields": fields}))


def rows(frame: DataFrame) -> list[Any]:
    """Return the rows of a result. Raises QueryError for errors that only occur while rows are computed."""
    try:
        collected: list[Any] = frame.collect()
    except failures() as error:
        raise QueryError(message(error)) from None
    return collected


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence Spark's warnings about pandas, which isn't used here. Only one thread at a time does this, because
    threads share the filters.
    """
    with _FILTERS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyspark raises for a failed query: its own, and those of its bridge to Java."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JJavaError


def message(error: Exception) -> str:
    """Return Spark's message in one line; for a failed task, only the reason."""
    text = str(error)
    if "Traceback" in text and (raised := _RAISED.findall(text)):
        return str(raised[-1])
    if failed := _FAILED.search(text):
        return failed[1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("[")), lines[0] if lines else type(error).__name__)
