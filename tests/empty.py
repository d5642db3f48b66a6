"""Empty warehouses by copying one, which is several times as fast as making them: DuckDB checks each macro it makes."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import duckdb
import pytest

from etq.database import connection as connecting
from etq.database import schema
from etq.database.database import Database
from etq.warehouse import warehouse
from etq.warehouse.warehouse import Warehouse

_connect = connecting.connect
_create = schema.create


@cache
def _template() -> Path:
    """The file of an empty warehouse, made once a process."""
    folder = tempfile.mkdtemp(prefix="etq-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "empty.duckdb"
    with _connect(str(path), read_only=False) as connection:
        schema.in_transaction(connection, lambda: _create(connection))
    return path


def empty_warehouse() -> Warehouse:
    """A warehouse in memory, as `etq.open()` gives it."""
    connection = duckdb.connect(":memory:")
    _fill(connection)
    connection.execute("SET threads = 1")
    return Warehouse(Database(connection, None))


def copy_warehouses(patch: pytest.MonkeyPatch) -> None:
    """Let `etq.open` copy the empty warehouse, in memory and where no file is."""

    def create(connection: duckdb.DuckDBPyConnection) -> None:
        is_in_memory = connection.execute("SELECT path FROM duckdb_databases() WHERE NOT internal").fetchall() == [
            (None,)
        ]
        (_fill if is_in_memory else _create)(connection)
        connection.execute("SET threads = 1")

    def connect(path: str, read_only: bool, wait: float | None = None) -> duckdb.DuckDBPyConnection:
        if not read_only and not os.path.lexists(path) and os.access(Path(path).parent, os.W_OK):
            shutil.copyfile(_template(), path)
        return _connect(path, read_only, wait)

    patch.setattr(schema, "create", create)
    patch.setattr(warehouse, "connect", connect)


def _fill(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(f"ATTACH '{_template()}' AS template (READ_ONLY)")
    connection.execute("COPY FROM DATABASE template TO memory")
    connection.execute("DETACH template")
