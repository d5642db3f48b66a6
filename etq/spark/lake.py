"""Where a lake keeps a table, and how Spark reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from etq.catalog import SqlObject
from etq.errors import WarehouseError
from etq.lake import log, reading
from etq.spark.dialect import EtqDuckDB, EtqSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, lake: str, table: SqlObject) -> DataFrame:
    """A base table of a lake: the files that its log names, as the lake is now.

    Of a folder without a log, as one on an object store, all Parquet files below `LAKE/TABLE` are read, without the
    columns of their folders' names: copy what no writer changes meanwhile, and `etq lake compact` it before.

    Raises WarehouseError for a damaged log, for missing files, and for files that lack a column of the table.
    """
    from pyspark.errors import AnalysisException

    place = f"{lake.rstrip('/')}/{table.name}"
    paths = [place]
    if log.is_lake(lake):
        root = Path(lake).absolute()
        paths = [Path(path).as_uri() for path in reading.files(root, log.read(root), table.name)]
    try:
        if not paths:
            return spark.sql(_empty(table))
        files = spark.read.parquet(*paths)
        return files.select(*(f"`{column.name}`" for column in table.columns))
    except AnalysisException as error:
        raise WarehouseError(f"{place}: not a table {table.name} of a lake: {str(error).splitlines()[0]}") from None


def _empty(table: SqlObject) -> str:
    """A query that has the table's columns and no rows."""
    statement = sqlglot.parse_one(table.statement, read=EtqDuckDB)
    columns = [
        exp.cast(exp.null(), each.args["kind"]).as_(each.this.copy()) for each in statement.find_all(exp.ColumnDef)
    ]
    return exp.select(*columns).where(exp.false()).sql(EtqSpark)
