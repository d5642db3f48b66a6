"""Reads a lake through DuckDB: the base tables are views of its Parquet files; everything else is as in a warehouse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import duckdb

from etq import catalog
from etq.catalog import quoted
from etq.database import schema
from etq.database.connection import alone_in_memory, withdraw_access
from etq.database.cursors import run_on_each
from etq.errors import WarehouseError, message_of
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import Lake, kind_of

# Characters that DuckDB takes for a pattern in the path of a file.
_PATTERN: Final = re.compile(r"[*?\[]")
# The variable that holds the key of the only capture that a connection sees.
_ONLY: Final = "etq_capture_id"
# The order of rows within a lake, see `rows_of`.
ORDER: Final = "t.filename, t.file_row_number"
# An expression for the load of a row that is read with its file's name.
LOAD: Final = "regexp_extract(filename, '.*load_id=([0-9a-f]+)/', 1)"


def connect(
    lake: Lake,
    state: LakeState | None = None,
    *,
    external_access: bool = True,
    of_one_capture: bool = False,
    config: Mapping[str, str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection with the lake's tables, views and macros, for its current state or a given `state`.

    Without `external_access`, queries can only read the files of this state. With `of_one_capture`, only rows of the
    capture that `see_only` names are there. `config` has more settings of DuckDB.

    Raises `WarehouseError` for what isn't a lake, and for a damaged lake.
    """
    state = state or read(lake)
    connection = alone_in_memory(config)
    with _closed_at_errors(connection, lake):
        schema.create(connection)
        _create_views(connection, state, of_one_capture=of_one_capture)
        sizes = _sizes_of_none() if of_one_capture else _sizes(state)
        run_on_each(connection, f"CREATE TEMP VIEW _table_bytes AS {sizes}")
        if not external_access:
            allow_only_files(connection, state)
            withdraw_access(connection)
    return connection


def see_only(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Choose the capture that a connection with `of_one_capture` sees."""
    connection.execute(f"SET VARIABLE {_ONLY} = {capture_id:d}")


def _sizes(state: LakeState) -> str:
    """A query for the bytes of each table's files."""
    names = ", ".join(map(quoted, state.files))
    sizes = ", ".join(str(sum(file.bytes for file in files)) for files in state.files.values())
    return f"SELECT unnest([{names}]::VARCHAR[]) AS table_name, unnest([{sizes}]::BIGINT[]) AS bytes"


def _sizes_of_none() -> str:
    """Return a query to use instead of `_sizes` if the files contain other captures, which are hidden."""
    what = "sizes of captures are shares of all captures' rows, and only one capture is seen here"
    return f"SELECT ''::VARCHAR AS table_name, error({quoted(what)})::BIGINT AS bytes"


def allow_only_files(connection: duckdb.DuckDBPyConnection, state: LakeState) -> None:
    """Allow reading the lake's files without external access."""
    if state.lake.is_remote:  # the file system has no other files, see `LakeFiles`
        connection.execute(f"SET allowed_directories = [{quoted(f'{state.lake.url}/')}]")
        return
    paths = {path for table in state.files for path in state.paths(table)}
    # DuckDB checks both the pattern and the file that the pattern finds.
    listed = sorted(paths | {*map(_literal, paths)})
    connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, listed))}]")


def connect_tables(state: LakeState) -> duckdb.DuckDBPyConnection:
    """Return a connection with only the lake's tables, which takes less time than `connect` and raises the same
    errors.
    """
    connection = duckdb.connect(":memory:")
    with _closed_at_errors(connection, state.lake):
        for table in catalog.tables():
            connection.execute(table.statement)
        _create_views(connection, state)
    return connection


def _create_views(connection: duckdb.DuckDBPyConnection, state: LakeState, *, of_one_capture: bool = False) -> None:
    """Replace the tables in which the lake has rows by views of its files."""
    attach(connection, state)
    for name in state.files:
        rows = rows_of(state, name)
        if of_one_capture and kind_of(name) == "capture":
            # DuckDB knows the value of the variable when it plans the query, and skips row groups of other captures.
            rows += f" WHERE t.capture_id = getvariable('{_ONLY}')"
        connection.execute(f"DROP TABLE {name}; CREATE VIEW memory.main.{name} AS {rows}")


def attach(connection: duckdb.DuckDBPyConnection, state: LakeState) -> None:
    """Let a connection read the files of a lake; those of an object store through `LakeFiles`."""
    connection.execute("SET parquet_metadata_cache = true")
    if not state.lake.is_remote:
        return
    connection.execute("SET autoload_known_extensions = false")
    try:
        from etq.lake.reading.remote import LakeFiles
    except ImportError:
        raise WarehouseError("a lake in an object store needs fsspec: pip install 'etq[lake]'") from None
    files = LakeFiles(state)
    files.fetch_first()
    connection.register_filesystem(files)


def rows_of(
    state: LakeState, table: str, replaced: Mapping[str, str] | None = None, *, is_numbered: bool = False
) -> str:
    """Return a query, without WHERE, for the lake's rows of a table that has rows; the table's alias is `t`.

    replaced     expressions that replace columns
    is_numbered  whether rows can be ordered by `ORDER`, the order of the files
    """
    columns = {column.name: f't."{column.name}"' for column in catalog.named(table).columns}
    chosen = ", ".join(f'{text} AS "{name}"' for name, text in {**columns, **(replaced or {})}.items())
    options = ("filename = true", "file_row_number = true") if is_numbered else ()
    return f"SELECT {chosen} FROM {read_parquet(state.paths(table), *options)} AS t"


def read_parquet(paths: list[str], *options: str) -> str:
    """Return SQL for the rows of files, read with these options of DuckDB."""
    listed = ", ".join(quoted(_literal(path)) for path in paths)
    return f"read_parquet({', '.join([f'[{listed}]', 'hive_partitioning = false', *options])})"


def _literal(path: str) -> str:
    """Return a path as a pattern that matches no other path."""
    return path if "://" in path else _PATTERN.sub(r"[\g<0>]", path)


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
