"""Statements that are one SELECT."""

from __future__ import annotations

import duckdb

from etq.errors import EtqError, QueryError, message_of, place_in
from etq.sandbox.formats import Parameters, written


def check_is_select(query: str) -> None:
    """Raise `EtqError` for a query that isn't one SELECT, and `duckdb.Error` for one that isn't SQL."""
    kinds = [_kind(each) for each in duckdb.extract_statements(query)]
    if kinds != ["SELECT"]:
        raise EtqError(f"a safe query is one SELECT, not {', '.join(kinds) or 'nothing'}")


def selected(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, format: str, most: int
) -> list[bytes]:
    """Return the rows of one SELECT in a format, in parts, on a connection that has no access to other files, and no
    leave to write any. Raises `QueryError`, and `EtqError` for more bytes than `most`.
    """
    try:
        check_is_select(query)
        connection.execute("SET max_temp_directory_size = '0KiB'")
        connection.execute(f"SET arrow_lossless_conversion = {format == 'exact'}")
        try:
            return written(connection, query, parameters, format, most)
        finally:
            connection.execute("RESET arrow_lossless_conversion")
    except duckdb.Error as error:
        raise QueryError(message_of(error), place_in(query, error)) from error


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # Of a kind that the database's Python knows no name of.
        return "another statement"
