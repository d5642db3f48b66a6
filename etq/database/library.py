"""The library: a DuckDB file that holds etq's views and macros, and no tables. Every connection attaches it.

A database, be it a file, in memory or a lake, holds tables. Names in a query are looked up in the library first, then
among DuckDB's own functions, then in the database: nothing in a file that somebody sent can replace what etq uses.

A new warehouse is a copy of a second file, which has the tables and a copy of the views and macros, so that DuckDB
without etq opens it and asks. etq never runs that copy.

Both files come with a built package. In a checkout they are made in the user's cache, once for each state of the SQL.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import duckdb
from platformdirs import user_cache_path

from etq import catalog
from etq.catalog import identifier, quoted
from etq.database.functions import FUNCTIONS
from etq.version import SCHEMA_VERSION, VERSION

# DuckDB 1.5 and later can read and write these files. Blocks of a quarter of the default size waste less space in a
# file of few captures (0.5 MB of 1.6) and of many (1.4 bytes per event of 10.1), and are read as fast.
STORAGE: Final = {"storage_compatibility_version": "v1.5.0", "default_block_size": "65536"}
# A warehouse's file may have the first of these names, too.
_NAMES: Final = ("etq", "etq_library")
# How the macro is called that has the query of a view of the library.
_QUERY_OF: Final = "_query_of_"
# Files in the cache that no process has used for this many seconds belong to other versions.
_UNUSED_SECONDS: Final = 30 * 24 * 3600


class Files(NamedTuple):
    """The library, and a warehouse without captures."""

    library: Path
    warehouse: Path


# The database of a connection, and the statements that set up each cursor of it.
_attached: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[str, str]]] = WeakKeyDictionary()


def attach(connection: duckdb.DuckDBPyConnection) -> None:
    """Attach the library to a new connection, and have names found there first. Raises `duckdb.Error`."""
    [(database,)] = connection.execute("SELECT system.main.current_database()").fetchall()
    name = _NAMES[database == _NAMES[0]]
    path = f"{name}.main,system.main,{identifier(database)}.main"
    for is_last in (False, True):
        library = files().library
        try:
            connection.execute(f"ATTACH IF NOT EXISTS {quoted(str(library))} AS {name} (READ_ONLY)")
            break
        except duckdb.Error:
            if is_last or library.parent == _packaged().library.parent:
                raise
            shutil.rmtree(library.parent, ignore_errors=True)  # damaged
            files.cache_clear()
    _set(connection, database, f"SET search_path = {quoted(path)}")


def cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return another connection to the database of a connection, which finds the library as it does."""
    made = connection.cursor()
    _set(made, *_attached[connection])
    return made


def run_on_each(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Run a statement on a connection, and on each cursor that is made of it later."""
    connection.execute(statement)
    database, statements = _attached[connection]
    _attached[connection] = database, f"{statements}; {statement}"


def database_of(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the name of a connection's database: DuckDB's `current_database()` is the library."""
    return _attached[connection][0]


def _set(connection: duckdb.DuckDBPyConnection, database: str, statements: str) -> None:
    connection.execute(statements)
    _attached[connection] = database, statements


@cache
def files() -> Files:
    """Return the two files, which are made if the package has none. Raises `duckdb.Error` or `OSError`."""
    packaged = _packaged()
    if packaged.library.exists():
        return packaged
    try:
        return _cached(user_cache_path("etq") / f"sql-{catalog.state()[:16]}")
    except OSError:  # there is no cache
        return build(Path(tempfile.mkdtemp(prefix="etq-")))


def _packaged() -> Files:
    return _in(Path(__file__).parent)


def _in(folder: Path) -> Files:
    return Files(folder / "library.duckdb", folder / "warehouse.duckdb")


def _cached(folder: Path) -> Files:
    """Return the files in a folder of the cache, which is made unless another process has. Raises `OSError`."""
    if folder.exists():
        with suppress(OSError):
            os.utime(folder)
        return _in(folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-", ignore_cleanup_errors=True) as making:
        made = Path(making) / folder.name
        made.mkdir()
        build(made)
        with suppress(OSError):  # another process was faster
            made.rename(folder)
    for other in folder.parent.iterdir():
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
    return _in(folder)


def build(folder: Path) -> Files:
    """Make the two files in a folder: the library from a copy of the other."""
    made = _in(folder)
    known = [*catalog.objects().values()]
    with duckdb.connect(str(made.warehouse), config=dict(STORAGE)) as connection:
        # DuckDB plans each macro that it creates.
        _run(connection, [each.missing() for each in FUNCTIONS])
        _run(connection, [each.statement for each in sorted(known, key=lambda each: each.kind != "table")])
        _run(connection, [comment for each in known for comment in each.comments()])
        connection.execute("INSERT INTO warehouse VALUES (?, ?, now()::TIMESTAMP)", [SCHEMA_VERSION, VERSION])
        connection.execute("CHECKPOINT")  # closing a connection would ignore the error of a full disk
    with duckdb.connect(str(made.library), config=dict(STORAGE)) as connection:
        connection.execute(
            f"ATTACH {quoted(str(made.warehouse))} AS whole (READ_ONLY); COPY FROM DATABASE whole TO library"
        )
        _run(connection, [f"DROP MACRO {each.name}" for each in FUNCTIONS])
        _run(connection, [statement for each in known if each.kind == "view" for statement in _for_any_database(each)])
        _run(connection, [f"DROP TABLE {each.name}" for each in known if each.kind == "table"])
        connection.execute("CHECKPOINT")
    return made


def _for_any_database(view: catalog.SqlObject) -> Sequence[str]:
    """Return the statements that replace a view by one for the tables of any database. A view keeps the database of
    each table that it names; a macro doesn't, so that the view's query is in one.
    """
    query = view.statement.split(" AS\n", 1)[1]
    name = f"{_QUERY_OF}{view.name}"
    return [f"CREATE MACRO {name}() AS TABLE\n{query}", f"CREATE OR REPLACE VIEW {view.name} AS FROM {name}()"]


def _run(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> None:
    connection.execute(";\n".join(statements))
