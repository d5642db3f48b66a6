"""Keeps for each connection its database and its lookup of names in queries.

Each cursor of a connection must be set up with the same lookup.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import duckdb

# A macro with one body per type: DuckDB then plans a key without the search for a text, and a text without the search
# for a key. Only etq uses it in place of the file's macro, as DuckDB before 2.0.1 can't bind columns to it in LATERAL.
TYPED: Final = "MACRO _any_capture_id(capture VARCHAR) AS (_id_of_text(capture)), (capture) AS (_id_of_key(capture))"

# The same for NULL, which stands for all captures. In DuckDB 1.5, a column would stand for all, too.
CHOSEN: Final = tuple(
    f'MACRO {name}(selector "NULL") AS TABLE (FROM captures), (selector) AS TABLE (FROM {search}(selector))'
    for name, search in {
        "_chosen_captures": "_captures_chosen_by",
        "_matching_or_all": "_captures_matching",
    }.items()
)


class Found(NamedTuple):
    """The database of a connection, whether its own views and macros are used, and what each new cursor gets:
    statements, and tables from Python.
    """

    database: str
    is_own: bool
    setting: str
    tables: tuple[tuple[str, Any], ...] = ()


_found: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, Found]] = WeakKeyDictionary()


def cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a cursor: another connection to the same database, with the same lookup of names."""
    made = connection.cursor()
    set_up(made, _found[connection])
    return made


def run_on_each(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Run a statement on a connection, and on each cursor made from it later."""
    found = _found[connection]
    connection.execute(statement)
    _found[connection] = found._replace(setting=f"{found.setting}; {statement}")


def register(connection: duckdb.DuckDBPyConnection, name: str, table: Any) -> None:
    """Register a table under a name on a connection, and on each cursor made from it later."""
    found = _found[connection]
    connection.register(name, table)
    _found[connection] = found._replace(tables=(*found.tables, (name, table)))


def database_of(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the name of a connection's database: DuckDB's `current_database()` may be the library."""
    return _found[connection].database


def is_own(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the views and macros of a connection's own database are used, as nobody else can have made them."""
    return _found[connection].is_own


def set_up(connection: duckdb.DuckDBPyConnection, found: Found) -> None:
    """Set how a connection looks up names."""
    connection.execute(found.setting)
    for name, table in found.tables:
        connection.register(name, table)
    _found[connection] = found
