"""How Spark reads the tables of a lake: the files that the Delta logs list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from etq.catalog import SqlObject
from etq.errors import WarehouseError
from etq.lake.reading.state import LakeState
from etq.lake.reading.tables import column_types, kind_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, state: LakeState, table: SqlObject) -> DataFrame:
    """A base table of a lake, as it was when its logs were read.

    Of loads that were never finished, and of captures that others replaced, rows are left out.

    Raises WarehouseError for missing files, and for files that lack a column of the table.
    """
    from pyspark.errors import AnalysisException

    columns = [f"`{column.name}`" for column in table.columns]
    try:
        whole, parts = (state.paths(table.name, whole=each) if kind_of(table.name) else [] for each in (True, False))
        rows = spark.read.parquet(*map(_address, whole)).select(*columns) if whole else None
        frame = _empty(spark, table) if rows is None else rows
        if parts:
            keys = [f"{kind_of(table.name)}_id", "load_id"]
            held = _of_loads(spark, state, f"{kind_of(table.name)}s", state.paths(f"{kind_of(table.name)}s")).select(
                *keys
            )
            frame = frame.unionByName(
                _of_loads(spark, state, table.name, parts).join(held, keys, "left_semi").select(*columns)
            )
        return frame
    except AnalysisException as error:
        place = state.lake.uri(table.name)
        raise WarehouseError(f"{place}: not a table {table.name} of a lake: {str(error).splitlines()[0]}") from None


def _of_loads(spark: SparkSession, state: LakeState, table: str, paths: list[str]) -> DataFrame:
    """Rows of files, with the column load_id, from their folders' names."""
    return spark.read.option("basePath", _address(state.lake.uri(table))).parquet(*map(_address, paths))


def _address(path: str) -> str:
    return path if "://" in path else Path(path).as_uri().replace("%3D", "=")


def _empty(spark: SparkSession, table: SqlObject) -> DataFrame:
    """A table without rows."""
    from pyspark.sql.types import StructType

    types = column_types(table.name)
    # Delta Lake names types as Spark does.
    fields = [{"name": each.name, "type": types[each.name], "nullable": True, "metadata": {}} for each in table.columns]
    return spark.createDataFrame([], StructType.fromJson({"type": "struct", "fields": fields}))
