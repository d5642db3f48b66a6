"""Queries of a lake on this machine, in a Spark session for one query."""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etq import processes
from etq.database.temporary import temporary_folder
from etq.errors import EtqError
from etq.spark.queries import MEGABYTES, sql
from etq.spark.session import rows, without_warnings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of(
    lake: str, query: str, captures: str | None = None, megabytes: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of a query's result. If the query runs for several captures, rows are ordered by the
    captures' names.

    Raises EtqError if pyspark, Java or the lake is missing; QueryError as `etq.spark.sql` does.
    """
    if "://" not in lake and not Path(lake).is_dir():
        raise EtqError(f"{lake}: no such folder")
    with temporary_folder() as folder:
        spark = _session(folder)
        try:
            frame = sql(spark, query, lake, captures=captures, megabytes=megabytes or MEGABYTES)
            found = [tuple(_plain(value) for value in row) for row in rows(frame)]
            return frame.columns, found if captures is None else sorted(found, key=itemgetter(0))
        finally:
            spark.stop()


def _session(folder: str) -> SparkSession:
    """Return a quiet session on all cores, without web page.
    Other settings are those of `$SPARK_CONF_DIR` and `$SPARK_HOME`.
    """
    with without_warnings():
        try:
            from pyspark.sql import SparkSession
            from pyspark.sql.pandas.utils import require_minimum_pandas_version

            require_minimum_pandas_version()  # Spark also reads this setting when it passes on Arrow
        except ImportError:
            raise EtqError("this needs pyspark and pandas: pip install 'etq[spark]', and Java 17 or later") from None
        return _started(SparkSession.builder, folder)


def _started(builder: SparkSession.Builder, folder: str) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Executors answer with this Python and this etq.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = processes.search_path()
    settings = {
        "spark.sql.warehouse.dir": folder,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = builder.master("local[*]").appName("etq")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise EtqError(f"Spark failed to start: {str(error).splitlines()[0]} (it needs Java 17 or later)") from None


def _plain(value: Any) -> Any:
    """Return a value as DuckDB returns it: integers beyond 64 bits are numbers, too."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value
