"""Queries in a Spark session."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from etq import catalog
from etq.database.functions import FUNCTIONS, PREFIX, in_rows
from etq.errors import QueryError
from etq.lake.state import read
from etq.lake.tables import Lake
from etq.spark.lake import read_table
from etq.spark.transpiling import engines, portable, to_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final = {"VARCHAR": "STRING"}
_QUERIES: Final = count(1)  # makes the names that a query adds to the session unique


def register(
    spark: SparkSession,
    lake: str | os.PathLike[str],
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Make the base tables of a lake, and the views that take no parameters, temporary views of a session.

    They are those of the lake as it is now, or was at a version: register it again to see what was added since.

    lake             a folder that all of Spark's processes see, or an address that Spark and `deltalake` know, as
                     s3a://lab/fleet
    storage_options  options of the object store, as `deltalake` takes them; Spark has its own settings

    Raises WarehouseError for what isn't a lake.
    """
    state = read(Lake.at(lake, storage_options), version)
    for table in catalog.tables():
        read_table(spark, state, table).createOrReplaceTempView(table.name)
    for view in catalog.public_objects():
        if view.kind == "view" and "spark" in engines(view.name):
            sql(spark, f"FROM {view.name}").createOrReplaceTempView(view.name)


def sql(spark: SparkSession, query: str) -> DataFrame:
    """Return the result of a query in DuckDB's SQL, which may use all portable views.

    DuckDB evaluates a common table expression once even if the query reads it several times; Spark would plan and
    evaluate every use. So the rows of such expressions are computed before this returns, and kept in the executors
    until the DataFrame is deleted.

    Raises QueryError for a query that can't be parsed, has no equivalent in Spark, or fails.
    """
    tree = portable(query)
    if any(each.name.startswith(PREFIX) for each in tree.find_all(exp.Anonymous)):
        _register_functions(spark)
    clause = tree.args.get("with_")
    tree.set("with_", None)
    named: list[exp.CTE] = [] if clause is None else clause.expressions
    uses = Counter(table.name for part in (*named, tree) for table in part.find_all(exp.Table))
    prefix = f"_etq_{next(_QUERIES)}_"
    names = {each.alias: prefix + each.alias for each in named}
    created: list[str] = []
    try:
        for each in named:
            frame = spark.sql(_standing_alone(each, names))
            if uses[each.alias] > 1 and not each.meta.get("is_view"):
                # With new columns: in a join of both, Spark confuses those of a checkpoint with those of its source.
                frame = frame.localCheckpoint(eager=False).toDF(*frame.columns)
            frame.createOrReplaceTempView(names[each.alias])
            created.append(names[each.alias])
        return spark.sql(to_text(_renamed(tree, names)))
    except failures() as error:
        raise QueryError(message(error)) from None
    finally:
        for name in created:
            spark.catalog.dropTempView(name)


def _register_functions(spark: SparkSession) -> None:
    """Register the functions that decide verdicts: the executors' Python needs etq for them."""
    for each in FUNCTIONS:
        fields = ", ".join(f"{name}: {_TYPES.get(kind, kind)}" for name, kind in each.returns.items())
        spark.udf.register(each.name, in_rows(each), f"array<struct<{fields}>>")


def rows(frame: DataFrame) -> list[Any]:
    """Return the rows of a result. Raises QueryError for errors that only occur while rows are computed."""
    try:
        collected: list[Any] = frame.collect()
    except failures() as error:
        raise QueryError(message(error)) from None
    return collected


def _standing_alone(each: exp.CTE, names: dict[str, str]) -> str:
    """Return the statement of one common table expression; a recursive expression stays a common table expression."""
    body = each.this
    if any(table.name == each.alias for table in body.find_all(exp.Table)):
        others = {old: new for old, new in names.items() if old != each.alias}
        query = exp.select("*").from_(exp.to_table(each.alias))
        query.set("with_", exp.With(expressions=[_renamed(each, others)], recursive=True))
        return to_text(query)
    return to_text(_renamed(body, names))


def _renamed(tree: exp.Expr, names: dict[str, str]) -> exp.Expr:
    """Return a tree with renamed tables."""
    for table in tree.find_all(exp.Table):
        if table.name in names and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(names[table.name]))
    return tree


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyspark raises for a failed query: its own, and those of its bridge to Java."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JJavaError


def message(error: Exception) -> str:
    """Return Spark's message in one line; for an error that a view raises, only the view's text."""
    text = str(error)
    if raised := re.search(r"\[USER_RAISED_EXCEPTION\] (.*?) SQLSTATE: P0001", text, re.DOTALL):
        return " ".join(raised[1].split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("[")), lines[0] if lines else type(error).__name__)
