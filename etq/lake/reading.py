"""Reading a lake through DuckDB: the base tables are views of its Parquet files, and all else is as in a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from etq import catalog
from etq.catalog import quoted
from etq.database import schema
from etq.database.connection import SETTINGS, withdraw_access
from etq.errors import WarehouseError, message_of
from etq.lake import log
from etq.lake.log import State


def files(lake: Path, state: State, table: str) -> list[str]:
    """The Parquet files that have rows of a table."""
    return [str(segment.file(lake, table)) for segment in state.of_table(table)]


def connect(lake: Path, state: State | None = None, *, external_access: bool = True) -> duckdb.DuckDBPyConnection:
    """A connection that has the lake's tables, views and macros, as the lake is now, or was at `state`.

    Without `external_access`, queries can read no other files than the lake's of then.

    Raises `WarehouseError` for a folder that isn't a lake, and for a damaged lake.
    """
    state = state or log.read(lake)
    connection = duckdb.connect(":memory:", config={**SETTINGS})
    with _closed_at_errors(connection, lake):
        schema.create(connection)
        connection.execute("SET parquet_metadata_cache = true")
        for table in catalog.tables():
            if paths := files(lake, state, table.name):
                connection.execute(f"DROP TABLE {table.name}")
                connection.execute(_view(table, paths))
        _note_bytes(connection, lake, state)
        if not external_access:
            allow_only_files(connection, lake, state)
            withdraw_access(connection)
    return connection


def allow_only_files(connection: duckdb.DuckDBPyConnection, lake: Path, state: State) -> None:
    """Make the lake's files those that can be read without external access."""
    named = [quoted(file) for table in catalog.tables() for file in files(lake, state, table.name)]
    connection.execute(f"SET allowed_paths = [{', '.join(named)}]")


def connect_tables(lake: Path, state: State) -> duckdb.DuckDBPyConnection:
    """A connection that has the lake's tables alone, which is there sooner. Raises as `connect` does."""
    connection = duckdb.connect(":memory:")
    with _closed_at_errors(connection, lake):
        connection.execute("SET parquet_metadata_cache = true")
        for table in catalog.tables():
            paths = files(lake, state, table.name)
            connection.execute(_view(table, paths) if paths else table.statement)
    return connection


@contextmanager
def _closed_at_errors(connection: duckdb.DuckDBPyConnection, lake: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        connection.close()
        raise WarehouseError(f"{lake}: {message_of(error)}") from error
    except BaseException:
        connection.close()
        raise


def _view(table: catalog.SqlObject, paths: list[str]) -> str:
    columns = ", ".join(f't."{column.name}"' for column in table.columns)
    listed = ", ".join(map(quoted, paths))
    return f"CREATE VIEW {table.name} AS SELECT {columns} FROM read_parquet([{listed}]) AS t"


def _note_bytes(connection: duckdb.DuckDBPyConnection, lake: Path, state: State) -> None:
    """Replace the view of the tables' sizes by the sizes of their files."""
    connection.execute("DROP VIEW _table_bytes")
    connection.execute("CREATE TABLE _table_bytes (table_name VARCHAR, bytes BIGINT)")
    sizes = [
        (table.name, sum(Path(file).stat().st_size for file in files(lake, state, table.name)))
        for table in catalog.tables()
    ]
    connection.executemany("INSERT INTO _table_bytes VALUES (?, ?)", sizes)
