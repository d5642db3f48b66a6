"""Creates the tables of a new warehouse, and checks the version of an existing one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import duckdb

from etq.database import contents
from etq.database.cursors import database_of
from etq.database.library import copy_tables, files
from etq.database.publishing import private_folder, publish_new
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION, VERSION

Result = TypeVar("Result")


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables in a database in memory, which has the library. Raises `duckdb.Error`."""
    copy_tables(connection)
    connection.execute("INSERT INTO warehouse VALUES (?, ?, now()::TIMESTAMP)", [SCHEMA_VERSION, VERSION])


def create_file(path: str) -> bool:
    """Write a complete warehouse without captures; return whether the file was new. An empty file is replaced.

    Raises `OSError`.
    """
    target = Path(path)
    is_empty = target.exists() and not target.stat().st_size
    if target.exists() and not is_empty:
        return False
    with private_folder(target) as folder:
        written = Path(folder) / "new.duckdb"
        shutil.copyfile(files().warehouse, written)
        if is_empty:
            written.replace(target.resolve())
            return True
        with suppress(FileExistsError):  # another process was faster
            publish_new(written, target)
            return True
    return False


def note_creation(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the time at which a new warehouse was created."""
    connection.execute("UPDATE warehouse SET created_at = now()::TIMESTAMP")


def check(connection: duckdb.DuckDBPyConnection, path: str, database: str | None = None) -> None:
    """Check an existing warehouse: the database of a connection, or an attached one. None of its views is executed.

    Raises `WarehouseError` for a database that is not a warehouse, for a warehouse of another schema, and for one whose
    tables are not as etq creates them or have rows that queries can't be made on.
    """
    has_passed = database is None and contents.has_passed(path)
    prefix = "" if database is None else f"{database}."
    query = "SELECT 1 FROM system.main.duckdb_tables() WHERE table_name = 'warehouse' AND database_name = ?"
    try:
        if not has_passed and not connection.execute(query, [database or database_of(connection)]).fetchall():
            raise ValueError  # or it is the name of a view
        [(version,)] = connection.execute(f"SELECT schema_version FROM {prefix}main.warehouse").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException, ValueError):
        raise WarehouseError(f"{path}: a DuckDB database, but not a warehouse of etq; name another file") from None
    if not isinstance(version, int) or version < 0:
        raise WarehouseError(f"{path}: damaged: its schema is of version {version!r}; use a copy of the file")
    if version != SCHEMA_VERSION:
        raise WarehouseError(other_version(path, version))
    if not has_passed:
        contents.check(connection, path, database)


def other_version(path: str, version: int) -> str:
    """Return why a warehouse with tables of another version is refused."""
    return (
        f"{path}: has tables of version {version}, and this etq reads version {SCHEMA_VERSION}; ingest the files again"
    )


def in_transaction(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Run `work` in a transaction and return its result; roll back if it raises."""
    connection.execute("BEGIN")
    try:
        result = work()
        connection.execute("COMMIT")
        return result
    except BaseException:
        # A commit that failed for lack of space has already ended the transaction, or the connection.
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise
