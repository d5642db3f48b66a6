"""Translates queries from DuckDB's SQL to Spark SQL, and determines which views can be translated."""

from __future__ import annotations

from sqlglot import exp

from etq import catalog
from etq.errors import QueryError
from etq.spark.dialect import EtqSpark
from etq.spark.inlining import inlined, used
from etq.spark.rewrites import rewritten


def engines(name: str) -> tuple[str, ...]:
    """Return the engines that support a table, view or macro: `duckdb`, and `spark` unless its file excludes it."""
    return catalog.objects()[name].engines


def portable(query: str) -> exp.Query:
    """Return the tree of a query for Spark, which only reads base tables. Raises QueryError as `spark_sql` does."""
    tree = inlined(query)
    for name in sorted(used(query)):
        each = catalog.objects()[name]
        if each.is_public and "spark" not in each.engines:
            raise QueryError(f"{name} only runs in DuckDB: {each.engines_reason}")
    return rewritten(tree)


def to_text(tree: exp.Expr, *, pretty: bool = False) -> str:
    """Return a rewritten tree as Spark SQL."""
    return tree.sql(EtqSpark, pretty=pretty, comments=False)


def spark_sql(query: str, *, pretty: bool = False) -> str:
    """Return a query in DuckDB's SQL, which may use all portable views, as Spark SQL, which only reads base tables.

    Raises QueryError for a query that can't be parsed, has no equivalent in Spark, or uses a view that only DuckDB
    supports.
    """
    return to_text(portable(query), pretty=pretty)
