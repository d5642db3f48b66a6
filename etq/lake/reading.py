"""Reading a lake through DuckDB: the base tables are views of its Parquet files, and all else is as in a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from etq import catalog
from etq.catalog import quoted
from etq.database import schema
from etq.database.connection import CLOSED, withdraw_access
from etq.errors import WarehouseError, message_of
from etq.lake.stores import attach
from etq.lake.tables import Lake, State, kind_of, read


def connect(
    lake: Lake, state: State | None = None, version: int | None = None, *, external_access: bool = True
) -> duckdb.DuckDBPyConnection:
    """A connection that has the lake's tables, views and macros, as the lake is now, or was at a version or `state`.

    Without `external_access`, queries can read no other files than the lake's of then.

    Raises `WarehouseError` for what isn't a lake, and for a damaged lake.
    """
    state = state or read(lake, version)
    connection = duckdb.connect(":memory:", config={**CLOSED})
    with _closed_at_errors(connection, lake):
        schema.create(connection)
        prepare(connection, lake, state)
        for table in catalog.tables():
            if query := rows_of(state, table):
                connection.execute(f"DROP TABLE {table.name}")
                connection.execute(f"CREATE VIEW {table.name} AS {query}")
        _note_bytes(connection, state)
        if not external_access:
            allow_only_files(connection, state)
            withdraw_access(connection)
    return connection


def allow_only_files(connection: duckdb.DuckDBPyConnection, state: State) -> None:
    """Make the lake's files those that can be read without external access."""
    listed = [quoted(state.lake.uri(table, each.path)) for table, files in state.files.items() for each in files]
    connection.execute(f"SET allowed_paths = [{', '.join(listed)}]")


def connect_tables(state: State) -> duckdb.DuckDBPyConnection:
    """A connection that has the lake's tables alone, which is there sooner. Raises as `connect` does."""
    connection = duckdb.connect(":memory:")
    with _closed_at_errors(connection, state.lake):
        prepare(connection, state.lake, state)
        for table in catalog.tables():
            query = rows_of(state, table)
            connection.execute(f"CREATE VIEW {table.name} AS {query}" if query else table.statement)
    return connection


def prepare(connection: duckdb.DuckDBPyConnection, lake: Lake, state: State | None = None) -> None:
    """Have a connection read the files of a lake."""
    connection.execute("SET parquet_metadata_cache = true")
    attach(connection, lake, state)


def rows_of(state: State, table: catalog.SqlObject, columns: str = "") -> str:
    """A query for the lake's rows of a table; empty if it has none.

    Of loads that were never finished, and of captures that others replaced, rows are left out.
    """
    columns = columns or ", ".join(f't."{column.name}"' for column in table.columns)
    kind = kind_of(table)
    queries = []
    if whole := state.paths(table.name):
        queries.append(f"SELECT {columns} FROM {read_parquet(whole)} AS t")
    if parts := state.paths(table.name, whole=False):
        held = state.paths(f"{kind}s")
        queries.append(
            f"SELECT {columns} FROM {read_parquet(parts, of_loads=True)} AS t "
            f"SEMI JOIN {read_parquet(held, of_loads=True)} AS k USING ({kind}_id, load_id)"
        )
    return " UNION ALL ".join(queries)


def read_parquet(paths: list[str], *, of_loads: bool = False) -> str:
    """The rows of files; with `of_loads`, with the column load_id, from their folders' names."""
    options = ", hive_partitioning = true, hive_types_autocast = false" if of_loads else ", hive_partitioning = false"
    return f"read_parquet([{', '.join(map(quoted, paths))}]{options})"


@contextmanager
def _closed_at_errors(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        connection.close()
        raise WarehouseError(f"{lake}: {message_of(error)}") from error
    except BaseException:
        connection.close()
        raise


def _note_bytes(connection: duckdb.DuckDBPyConnection, state: State) -> None:
    """Replace the view of the tables' sizes by the sizes of their files."""
    connection.execute("DROP VIEW _table_bytes")
    connection.execute("CREATE TABLE _table_bytes (table_name VARCHAR, bytes BIGINT)")
    sizes = [(name, sum(each.bytes for each in files)) for name, files in state.files.items()]
    connection.executemany("INSERT INTO _table_bytes VALUES (?, ?)", sizes)
