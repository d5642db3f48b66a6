"""Upgrading a warehouse of an earlier schema: what its schema lacks is added, and what is computed is computed again.

A schema adds tables, and columns at the end of tables, which may be NULL. So the tables of an earlier schema are known
from those of today, and are compared with them before anything is read. What is added is computed from the rows that
are there, where these have it; pruned captures keep what they had.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import duckdb

from etq import catalog
from etq.database import contents, schema
from etq.database.connection import NONE_THERE, connect, expanded, explained, withdraw_access
from etq.database.locking import WriteLock
from etq.database.publishing import private_folder, publish_new
from etq.database.rollups import fill_rollups
from etq.errors import EtqError, WarehouseError
from etq.maintenance import schema_5, schema_6, schema_7, schema_8, schema_9
from etq.maintenance.file_copy import copy_file
from etq.maintenance.migration import Migration
from etq.version import SCHEMA_VERSION, VERSION

# What leads from a schema to the next, by the schema that it begins with.
_MIGRATIONS: Final = {
    4: schema_5.MIGRATION,
    5: schema_6.MIGRATION,
    6: schema_7.MIGRATION,
    7: schema_8.MIGRATION,
    8: schema_9.MIGRATION,
}
_UPGRADED_WHEN_FULL: Final = (
    "the warehouse was upgraded, but the disk is full: part of it is still in its .wal file; keep both files, and free "
    "space before you open it again"
)


def upgrade(path: str | os.PathLike[str], *, keep_old: bool = True) -> Path | None:
    """Upgrade a warehouse that an earlier version of etq made, in one transaction.

    Returns the path of a copy of the file from before; None without `keep_old`, and for a warehouse of today.

    Raises `WarehouseError` for a file that isn't a warehouse, is damaged, or was made by a version that is too early,
    or a later one; and if it, or the copy, can't be written.
    """
    name = expanded(path)
    if not os.path.exists(name):
        raise WarehouseError(f"{name}: {NONE_THERE.format(name)}")
    with WriteLock(name):
        connection = connect(name, False)
        try:
            withdraw_access(connection)
            schema.update_definitions(connection, name, read_only=False)
            return None
        except schema.EarlierSchemaError:
            return upgrade_open(connection, name, keep_old=keep_old)
        except duckdb.Error as error:
            raise WarehouseError(f"{name}: {explained(name, error)}") from error
        finally:
            connection.close()


def upgrade_open(connection: duckdb.DuckDBPyConnection, path: str, *, keep_old: bool = True) -> Path | None:
    """Upgrade an open warehouse to the schema of today, in one transaction. Returns the path of a copy of the file from
    before, or None without `keep_old`.

    No other process has the file open, and the connection has no access to other files. Raises `WarehouseError` for a
    file that isn't a warehouse of an earlier schema or is damaged, and if it, or the copy, can't be written.
    """
    [(version,)] = connection.execute("SELECT schema_version FROM main.warehouse").fetchall()
    migrations = migrations_since(version)
    contents.check_earlier(connection, path, tables_before(migrations), new_tables(migrations))
    source = Path(path).resolve()
    copy: Path | None = None

    def work() -> None:
        nonlocal copy
        migrate(connection, path, migrations)
        if folder is not None:
            copy = _published(Path(folder, source.name), source.with_name(f"{source.name}.schema-{version}"))

    try:
        with private_folder(source) if keep_old else nullcontext() as folder:
            if folder is not None:
                connection.execute("CHECKPOINT")  # nothing is left in the log
                copy_file(source, Path(folder, source.name))
            # The copy gets its name with the commit: an upgrade that fails or is killed leaves none.
            schema.in_transaction(connection, work)
    except BaseException as error:
        if copy is not None:
            copy.unlink(missing_ok=True)
        if (what := _failure(path, error)) is None:
            raise
        raise WarehouseError(f"{path}: {what}; nothing was upgraded") from error
    try:
        connection.execute("CHECKPOINT")  # closing a connection doesn't report errors of that
    except duckdb.Error as error:
        # The transaction is in the log.
        kept = "" if copy is None else f"; {copy} is the file from before"
        raise WarehouseError(f"{path}: {explained(path, error, _UPGRADED_WHEN_FULL)}{kept}") from error
    return copy


def _failure(path: str, error: BaseException) -> str | None:
    """Return why an upgrade failed; None for what is not an error of the file."""
    match error:
        case duckdb.Error():
            return explained(path, error)
        case EtqError():
            return str(error).removeprefix(f"{path}: ")
        case OSError():
            return f"its copy can't be written: {(error.strerror or str(error)).lower()}"
        case ArithmeticError() | LookupError() | TypeError() | ValueError():
            return f"damaged: its rows can't be read ({error}); use a copy of it"
    return None


def migrations_since(version: int) -> list[Migration]:
    """Return what leads from a schema to that of today."""
    return [_MIGRATIONS[each] for each in range(version, SCHEMA_VERSION)]


def new_tables(migrations: Sequence[Migration]) -> frozenset[str]:
    """Return the tables that these migrations add."""
    return frozenset().union(*(each.tables for each in migrations))


def tables_before(migrations: Sequence[Migration]) -> dict[str, str]:
    """Return the statements that make the tables before these migrations, by name, as DuckDB shows them."""
    new = new_tables(migrations)
    with duckdb.connect(":memory:") as connection:
        for table in catalog.tables():
            if table.name not in new:
                connection.execute(table.statement)
        for migration in migrations:
            for table_name, columns in migration.columns.items():
                for column in columns:
                    connection.execute(f"ALTER TABLE {table_name} DROP COLUMN {column}")
        return dict(connection.execute("SELECT table_name, sql FROM duckdb_tables()").fetchall())


def _published(written: Path, target: Path) -> Path:
    """Move the copy to its place, or, if that of another upgrade is there, beside it. Return where it is."""
    place, number = target, 1
    while True:
        try:
            publish_new(written, place)
            return place
        except FileExistsError:
            number += 1
            place = target.with_name(f"{target.name}-{number}")


def migrate(connection: duckdb.DuckDBPyConnection, path: str, migrations: Sequence[Migration]) -> None:
    """Add what the tables of an earlier schema lack, and compute it. `path` is for messages."""
    for migration in migrations:
        for table in catalog.tables():
            if table.name in migration.tables:
                connection.execute(table.statement)
            for column in table.columns:
                if column.name in migration.columns.get(table.name, ()):
                    connection.execute(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {column.type}")
    schema.define(connection)
    contents.check_names(connection, path)
    schema.document_tables(connection)
    for migration in migrations:
        migration.fill(connection)
    [(first, last)] = connection.execute("SELECT min(capture_id), max(capture_id) FROM captures").fetchall()
    if first is not None:
        fill_rollups(connection, first, last)
    connection.execute(
        "UPDATE warehouse SET schema_version = ?, sql_sha256 = ?, etq_version = ?",
        [SCHEMA_VERSION, catalog.definitions_hash(), VERSION],
    )
