"""What kind of statement a query is."""

from __future__ import annotations

import duckdb

from etq.errors import EtqError


def check_is_select(query: str) -> None:
    """Raise `EtqError` for a query that isn't one SELECT, and `duckdb.Error` for one that isn't SQL."""
    kinds = [_kind(each) for each in duckdb.extract_statements(query)]
    if kinds != ["SELECT"]:
        raise EtqError(f"a safe query is one SELECT, not {', '.join(kinds) or 'nothing'}")


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # Of a kind that the database's Python knows no name of.
        return "another statement"
