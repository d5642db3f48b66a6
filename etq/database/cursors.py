"""Connections: the database of each, and how it looks up the names in a query, which each cursor of it must be told."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import duckdb

# A macro of the SQL, by types: so a key is planned without the search for a text, and a text without that for a key. It
# replaces the other one for etq, as DuckDB before 2.0.1 can't bind columns to it in LATERAL.
TYPED: Final = "MACRO _any_capture_id(capture VARCHAR) AS (_id_of_text(capture)), (capture) AS (_id_of_key(capture))"


class Found(NamedTuple):
    """The database of a connection, whether its own views and macros are used, and what sets up each cursor: statements
    and tables of Python.
    """

    database: str
    is_own: bool
    setting: str
    tables: tuple[tuple[str, Any], ...] = ()


_found: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, Found]] = WeakKeyDictionary()


def cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return another connection to the database of a connection, which finds names as it does."""
    made = connection.cursor()
    set_up(made, _found[connection])
    return made


def run_on_each(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Run a statement on a connection, and on each cursor that is made of it later."""
    found = _found[connection]
    connection.execute(statement)
    _found[connection] = found._replace(setting=f"{found.setting}; {statement}")


def register(connection: duckdb.DuckDBPyConnection, name: str, table: Any) -> None:
    """Have queries find a table by a name on a connection, and on each cursor that is made of it later."""
    found = _found[connection]
    connection.register(name, table)
    _found[connection] = found._replace(tables=(*found.tables, (name, table)))


def database_of(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the name of a connection's database: DuckDB's `current_database()` may be the library."""
    return _found[connection].database


def is_own(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the views and macros of a connection's own database are used, which somebody else can't have made."""
    return _found[connection].is_own


def set_up(connection: duckdb.DuckDBPyConnection, found: Found) -> None:
    """Have a connection find names so."""
    connection.execute(found.setting)
    for name, table in found.tables:
        connection.register(name, table)
    _found[connection] = found
