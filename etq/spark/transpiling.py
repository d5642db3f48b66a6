"""Spark SQL of a question in DuckDB's, and which views have it."""

from __future__ import annotations

from sqlglot import exp

from etq import catalog
from etq.errors import QueryError
from etq.spark.dialect import EtqSpark
from etq.spark.inlining import inlined, used
from etq.spark.rewrites import rewritten


def engines(name: str) -> tuple[str, ...]:
    """The engines that answer a table, view or macro: `duckdb`, and `spark` unless its file excludes it."""
    return catalog.objects()[name].engines


def portable(query: str) -> exp.Query:
    """The tree of a query for Spark: base tables alone. Raises QueryError as `spark_sql`."""
    tree = inlined(query)
    for name in sorted(used(query)):
        each = catalog.objects()[name]
        if each.is_public and "spark" not in each.engines:
            raise QueryError(f"{name} only runs in DuckDB: {each.engines_reason}")
    return rewritten(tree)


def to_text(tree: exp.Expr, *, pretty: bool = False) -> str:
    """A mended tree as Spark's SQL."""
    return tree.sql(EtqSpark, pretty=pretty, comments=False)


def spark_sql(query: str, *, pretty: bool = False) -> str:
    """The Spark SQL of a query in DuckDB's SQL that may use all portable views: it only reads base tables.

    Raises QueryError for what can't be read, has no equivalent in Spark, or uses a view that is for DuckDB alone.
    """
    return to_text(portable(query), pretty=pretty)
