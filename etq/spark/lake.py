"""Where a lake keeps a table, and how Spark reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etq.catalog import SqlObject
from etq.errors import WarehouseError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, lake: str, table: SqlObject) -> DataFrame:
    """A base table of a lake: all Parquet files below `LAKE/TABLE`, without the columns of their folders' names.

    Raises WarehouseError where there are none, or they lack one of the table's columns.
    """
    from pyspark.errors import AnalysisException

    place = f"{lake.rstrip('/')}/{table.name}"
    try:
        files = spark.read.parquet(place)
        return files.select(*(f"`{column.name}`" for column in table.columns))
    except AnalysisException as error:
        raise WarehouseError(f"{place}: no table {table.name} of a lake: {str(error).splitlines()[0]}") from None
