"""The library: a DuckDB file that holds etq's views and macros, and no tables. Every connection attaches it.

A database, be it a file, in memory or a lake, holds tables. Names in a query are looked up in the library first, then
among DuckDB's own functions, then in the database: nothing in a file that somebody sent can replace what etq uses.

A new warehouse is a copy of a second file, which has the tables and a copy of the views and macros, so that DuckDB
without etq opens it and asks. etq never runs that copy.

Both files come with a built package. In a checkout they are made in the user's cache, see `etq.database.making`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import duckdb

from etq.catalog import identifier, quoted, state
from etq.version import LIBRARY, WAREHOUSE

# A warehouse's file may have the first of these names, too.
_NAMES: Final = ("etq", "etq_library")


class Files(NamedTuple):
    """The library, and a warehouse without captures."""

    library: Path
    warehouse: Path

    @classmethod
    def within(cls, folder: Path) -> Files:
        """Return the two files of a folder, which may not exist."""
        return cls(folder / LIBRARY, folder / WAREHOUSE)


# The database of a connection, and the statements that set up each cursor of it.
_attached: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[str, str]]] = WeakKeyDictionary()


@cache
def files() -> Files:
    """Return the two files, which are made if the package has none. Raises `duckdb.Error` or `OSError`."""
    packaged = Files.within(Path(__file__).parent)
    if packaged.library.exists():
        return packaged
    from platformdirs import user_cache_path

    makers = (Path(__file__).with_name(f"{module}.py") for module in ("making", "functions"))
    folder = user_cache_path("etq") / f"sql-{state(*makers)[:16]}"
    if folder.exists():
        with suppress(OSError):
            os.utime(folder)
        return Files.within(folder)
    from etq.database.making import make

    return Files.within(make(folder))


def attach(connection: duckdb.DuckDBPyConnection) -> None:
    """Attach the library to a new connection, and have names found there first. Raises `duckdb.Error`."""
    [(database,)] = connection.execute("SELECT system.main.current_database()").fetchall()
    name = _NAMES[database == _NAMES[0]]
    # Another connection to the file may have attached it. With DuckDB 2.0.1, ATTACH IF NOT EXISTS may never end, where
    # another database of the process has the same file attached, or had.
    try:
        if not _is_attached(connection, name):
            connection.execute(f"ATTACH {quoted(str(files().library))} AS {name} (READ_ONLY)")
    except duckdb.Error:
        if not _is_attached(connection, name):
            raise
    _set(connection, database, f"SET search_path = {quoted(f'{name}.main,system.main,{identifier(database)}.main')}")


def _is_attached(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    query = "SELECT 1 FROM system.main.duckdb_databases() WHERE database_name = ?"
    return bool(connection.execute(query, [name]).fetchall())


def cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return another connection to the database of a connection, which finds the library as it does."""
    made = connection.cursor()
    _set(made, *_attached[connection])
    return made


def run_on_each(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Run a statement on a connection, and on each cursor that is made of it later."""
    database, statements = _attached[connection]
    connection.execute(statement)
    _attached[connection] = database, f"{statements}; {statement}"


def database_of(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the name of a connection's database: DuckDB's `current_database()` is the library."""
    return _attached[connection][0]


def _set(connection: duckdb.DuckDBPyConnection, database: str, statements: str) -> None:
    connection.execute(statements)
    _attached[connection] = database, statements
