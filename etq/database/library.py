"""The library: a DuckDB file that holds etq's views and macros, and no tables.

A database in memory, and that of a lake, holds tables only. They are copied from a file, as creating them by statements
takes three times as long. Its instance of DuckDB attaches the library, where it finds views and macros. A new warehouse
is a copy of a third file, which has the tables and a copy of the views and macros, so that DuckDB without etq can query
it. etq uses this copy only if this version made the file and nobody else has changed it since: attaching the library
takes 40 ms of CPU.

Of any other file, made by another version or by somebody else, etq uses only the tables. Names in a query are looked up
in the library first, then among DuckDB's own functions, then in the file, so that nothing in the file can replace what
etq uses.

The files come with a built package. In a checkout they are made in the user's cache, see `etq.database.making`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Final
from weakref import WeakKeyDictionary, finalize

import duckdb

from etq import version
from etq.catalog import identifier, quoted, state
from etq.database.cursors import TYPED, Found, database_of, set_up
from etq.version import Files

# A warehouse's file may have the first of these names as well.
_NAMES: Final = ("etq", "etq_library")

# Databases in memory with equal settings share one instance per process, with its library, as long as the instance has
# access to files.
_ACCESS: Final = "SELECT system.main.current_setting('enable_external_access')"
_instances: Final[dict[tuple[object, ...], duckdb.DuckDBPyConnection]] = {}
_finalizers: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, finalize[..., object]]] = WeakKeyDictionary()
_numbers: Final = count(1)
_lock: Final = RLock()


@cache
def files() -> Files:
    """Return the files, which are made if the package has none. Raises `duckdb.Error` or `OSError`."""
    packaged = Files.within(Path(__file__).parent)
    if packaged.library.exists():
        return packaged
    from platformdirs import user_cache_path

    makers = [Path(__file__).with_name(f"{module}.py") for module in ("making", "functions", "cursors")]
    makers += [Path(version.__file__), Path(__file__).parents[1] / "ingest/costs/formulas.toml"]
    folder = user_cache_path("etq") / f"sql-{state(*makers)[:16]}"
    if all(each.exists() for each in Files.within(folder)):
        with suppress(OSError):
            os.utime(folder)
        return Files.within(folder)
    from etq.database.making import make

    return Files.within(make(folder))


def attach(connection: duckdb.DuckDBPyConnection) -> None:
    """Attach the library to a new connection; names are looked up there first. Raises `duckdb.Error`."""
    database = _current(connection)
    name = _NAMES[database.lower() == _NAMES[0]]
    # DuckDB 2.0.1's ATTACH IF NOT EXISTS may never end if the process has, or had, the same file attached.
    try:
        if not _is_attached(connection, name):
            connection.execute(f"ATTACH {quoted(str(files().library))} AS {name} (READ_ONLY)")
    except duckdb.PermissionException:
        # Another connection of this process opened the file as its own, without the library, and revoked the access.
        use_own(connection)
        return
    except duckdb.Error:
        if not _is_attached(connection, name):
            raise
    path = quoted(f"{name}.main,system.main,{identifier(database)}.main")
    set_up(connection, Found(database, False, f"SET search_path = {path}"))


def use_own(connection: duckdb.DuckDBPyConnection) -> None:
    """Use the views and macros in the file of a new connection."""
    database = _current(connection)
    path = quoted(f"{identifier(database)}.main")
    set_up(connection, Found(database, True, f"SET search_path = {path}; CREATE OR REPLACE TEMP {TYPED}"))


def new_database(
    settings: Mapping[str, str], connect: Callable[[], duckdb.DuckDBPyConnection]
) -> duckdb.DuckDBPyConnection:
    """Return a connection to a new database in memory, in the instance with these settings, which `connect` makes once.

    `detach` frees the database; so does garbage collection of the connection.
    """
    with _lock:
        key = (os.getpid(), *sorted(settings.items()))
        if (instance := _instances.get(key)) is None or instance.execute(_ACCESS).fetchall() != [(True,)]:
            instance = connect()
            attach(instance)
            _instances[key] = instance
        made = instance.cursor()
        name = f"memory_{next(_numbers)}"
        made.execute(f"ATTACH ':memory:' AS {name}")
    set_up(made, Found(name, False, f"SET search_path = '{name}.main,{_NAMES[0]}.main'"))
    _finalizers[made] = finalize(made, _detach, instance, name)
    _finalizers[made].atexit = False
    return made


def copy_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables in a database in memory, which has the library. Raises `duckdb.Error`."""
    name = f"{database_of(connection)}_tables"
    with _lock:
        connection.execute(f"ATTACH {quoted(str(files().tables))} AS {name} (READ_ONLY)")
        try:
            connection.execute(f"COPY FROM DATABASE {name} TO {database_of(connection)} (SCHEMA)")
        finally:
            connection.execute(f"DETACH {name}")


def detach(connection: duckdb.DuckDBPyConnection) -> None:
    """Free the database in memory of a connection that was closed."""
    if (finalizer := _finalizers.pop(connection, None)) is not None:
        finalizer()


def _detach(instance: duckdb.DuckDBPyConnection, name: str) -> None:
    """Free a database in memory. After the last database of its instance, also detach what queries attached, because
    these files would stay locked.
    """
    with suppress(duckdb.Error), _lock:
        instance.execute(f"DETACH {name}")
        query = "SELECT d.database_name FROM system.main.duckdb_databases() AS d WHERE NOT d.internal"
        left = {each for (each,) in instance.execute(query).fetchall()} - {"memory", *_NAMES}
        if not any(each.startswith("memory_") for each in left):
            for each in left:
                instance.execute(f"DETACH {identifier(each)}")


def _current(connection: duckdb.DuckDBPyConnection) -> str:
    [(database,)] = connection.execute("SELECT system.main.current_database()").fetchall()
    return str(database)


def _is_attached(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    return bool(connection.execute("FROM system.main.duckdb_databases() WHERE database_name = ?", [name]).fetchall())
