"""Reading a lake through DuckDB: the base tables are views of its Parquet files, and all else is as in a warehouse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import duckdb

from etq import catalog
from etq.catalog import quoted
from etq.database import schema
from etq.database.connection import in_memory, withdraw_access
from etq.database.limits import within
from etq.errors import WarehouseError, message_of
from etq.ingest import memory
from etq.lake.reading.state import LakeState, read_all
from etq.lake.reading.tables import SHARED, DataFile, Lake, kind_of

if TYPE_CHECKING:
    from etq.lake.reading.remote import LakeFiles

# The most memory that is taken for the rows of a root table; what a row of Python takes besides its texts.
_LARGEST_ROOT: Final = 1 << 32
_ROW_BYTES: Final = 500
# The most memory in which files are measured and checked: a page of texts is unpacked as a whole.
MEASURING: Final = 1 << 31
# What DuckDB takes for a pattern in the path of a file.
_PATTERN: Final = re.compile(r"[*?\[]")
# The variable of a connection that holds the key of the only capture that it sees.
_ONLY: Final = "etq_capture_id"


def connect(
    lake: Lake,
    state: LakeState | None = None,
    version: int | None = None,
    *,
    external_access: bool = True,
    of_one_capture: bool = False,
    config: Mapping[str, str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A connection that has the lake's tables, views and macros, as the lake is now, or was at a version or `state`.

    Without `external_access`, queries can read no other files than the lake's of then. `of_one_capture` leaves out the
    rows of all captures but the one that `see_only` names. `config` has more settings of DuckDB.

    Raises `WarehouseError` for what isn't a lake, and for a damaged lake.
    """
    state = state or read_all(lake, version)
    connection = in_memory(config)
    with _closed_at_errors(connection, lake):
        schema.create(connection)
        _create_views(connection, state, of_one_capture=of_one_capture)
        sizes = _sizes_of_none() if of_one_capture else _sizes(state)
        connection.execute(f"DROP VIEW _table_bytes; CREATE VIEW _table_bytes AS {sizes}")
        if not external_access:
            allow_only_files(connection, state)
            withdraw_access(connection)
    return connection


def see_only(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Choose the capture whose rows a connection `of_one_capture` has."""
    connection.execute(f"SET VARIABLE {_ONLY} = {capture_id:d}")


def _sizes(state: LakeState) -> str:
    """A query for the bytes of each table's files."""
    names = ", ".join(map(quoted, state.files))
    sizes = ", ".join(str(sum(each.bytes for each in state.of(name))) for name in state.files)
    return f"SELECT unnest([{names}]::VARCHAR[]) AS table_name, unnest([{sizes}]::BIGINT[]) AS bytes"


def _sizes_of_none() -> str:
    """A query in place of `_sizes` where other captures, which share the files, aren't seen."""
    what = "sizes of captures are shares of all captures' rows, and only one capture is seen here"
    return f"SELECT ''::VARCHAR AS table_name, error({quoted(what)})::BIGINT AS bytes"


def allow_only_files(connection: duckdb.DuckDBPyConnection, state: LakeState) -> None:
    """Make the lake's files those that can be read without external access."""
    if state.lake.is_remote:  # where nothing else is found, see `LakeFiles`
        connection.execute(f"SET allowed_directories = [{quoted(f'{state.lake.url}/')}]")
        return
    paths = {state.lake.uri(table, each.path) for table, files in state.files.items() for each in files}
    # DuckDB checks the pattern, and then the file that it finds.
    listed = sorted(paths | {*map(_literal, paths)})
    connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, listed))}]")


def connect_tables(state: LakeState) -> duckdb.DuckDBPyConnection:
    """A connection that has the lake's tables alone, which is there sooner. Raises as `connect` does."""
    connection = duckdb.connect(":memory:")
    with _closed_at_errors(connection, state.lake):
        for table in catalog.tables():
            connection.execute(table.statement)
        _create_views(connection, state)
    return connection


def _create_views(connection: duckdb.DuckDBPyConnection, state: LakeState, *, of_one_capture: bool = False) -> None:
    """Replace the tables in which the lake has rows by views of its files."""
    files = attach(connection, state)
    if files is not None:
        files.is_empty = True
    for name in state.files:
        rows = rows_of(state, name)
        if of_one_capture and kind_of(name) == "capture":
            # DuckDB knows the variable's value when it plans, and skips row groups of other captures.
            rows = f"SELECT t.* FROM ({rows}) AS t WHERE t.capture_id = getvariable('{_ONLY}')"
        connection.execute(f"DROP TABLE {name}; CREATE VIEW {name} AS {rows}")
    if files is not None:
        files.is_empty = False


def attach(connection: duckdb.DuckDBPyConnection, state: LakeState) -> LakeFiles | None:
    """Have a connection read the files of a lake; those of an object store through `LakeFiles`."""
    connection.execute("SET parquet_metadata_cache = true")
    if not state.lake.is_remote:
        return None
    connection.execute("SET autoload_known_extensions = false")
    try:
        from etq.lake.reading.remote import LakeFiles
    except ImportError:
        raise WarehouseError("a lake in an object store needs fsspec: pip install 'etq[lake]'") from None
    files = LakeFiles(state)
    connection.register_filesystem(files)
    return files


def rows_of(state: LakeState, table: str) -> str:
    """A query for the lake's rows of a table; empty if it has none.

    Rows of loads that were never finished, and of captures that others replaced, are left out. For an object store,
    patterns stand for the files, so that views can be made without reading any.
    """
    columns = ", ".join(f't."{column.name}"' for column in catalog.objects()[table].columns)
    kind = kind_of(table)
    root = table if table in SHARED else f"{kind}s"
    whole, parts, held = state.paths(table), state.paths(table, whole=False), state.paths(root)
    if state.lake.is_remote:
        whole, parts = whole and [state.lake.uri(table, "*.whole")], parts and [state.lake.uri(table, "*.parts")]
        held = [state.lake.uri(root, "*.whole")]
    queries = []
    if whole:
        queries.append(f"SELECT {columns} FROM {read_parquet(whole)} AS t")
    if parts:
        queries.append(
            f"SELECT {columns} FROM {read_parquet(parts, of_loads=True)} AS t "
            f"SEMI JOIN {read_parquet(held, of_loads=True)} AS k USING ({kind}_id, load_id)"
        )
    return " UNION ALL ".join(queries)


@contextmanager
def measuring(state: LakeState) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection that reads the lake's files in limited memory. Raises `WarehouseError` where it fails."""
    with duckdb.connect(":memory:", config=within(MEASURING)) as connection:
        try:
            attach(connection, state)
            yield connection
        except duckdb.OutOfMemoryException as error:
            what = f"to read its files would take more than {memory.shown(MEASURING)} of memory; split the lake"
            raise WarehouseError(f"{state.lake}: {what}") from error
        except duckdb.Error as error:
            raise WarehouseError(f"{state.lake}: {message_of(error)}") from error


def stated(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> tuple[int, int]:
    """Return how many bytes files state to unpack to, and the most elements of lists in a part that is read at once."""
    listed = ", ".join(quoted(_literal(path)) for path in paths)
    query = f"""
        SELECT coalesce(sum(g.size), 0)::BIGINT, coalesce(max(g.elements), 0)::BIGINT FROM (
            SELECT
                sum(m.total_uncompressed_size) AS size,
                sum(greatest(m.num_values - m.row_group_num_rows, 0)) AS elements
            FROM parquet_metadata([{listed}]) AS m GROUP BY m.file_name, m.row_group_id
        ) AS g
    """
    [(size, elements)] = connection.execute(query).fetchall()
    return size, elements


def check_root(state: LakeState, kind: str, files: Sequence[DataFile]) -> None:
    """Raise `WarehouseError` if files of a root table have other numbers of rows than the lake notes, or more text than
    is read into memory: a small file may have any number of equal rows and long texts.
    """
    if not files:
        return
    root, expected = f"{kind}s", sum(each.rows for each in files)
    texts = [column.name for column in catalog.objects()[root].columns if str(column.type).startswith("VARCHAR")]
    lengths = " + ".join(f'coalesce(strlen(t."{name}"), 0)' for name in texts)
    paths = [state.lake.uri(root, each.path) for each in files]
    most = min(_LARGEST_ROOT, memory.available())
    with measuring(state) as connection:
        rows, (size, _) = expected, stated(connection, paths)
        if size <= most:
            query = f"SELECT count(*), coalesce(sum({lengths}), 0)::BIGINT FROM {read_parquet(paths)} AS t"
            [(rows, size)] = connection.execute(query).fetchall()
            size += rows * _ROW_BYTES
    if rows != expected:
        what = f"the files of {root} have {rows:,} rows; expected {expected:,}"
        raise WarehouseError(f"{state.lake}: damaged: {what}; see etq lake check")
    if size > most:
        what = f"to read {root} would take {memory.shown(size)} of memory, and at most {memory.shown(most)} is taken"
        raise WarehouseError(f"{state.lake}: {what}; split the lake")


def read_parquet(paths: list[str], *, of_loads: bool = False) -> str:
    """The rows of files; with `of_loads`, with the column load_id, from their folders' names."""
    options = ", hive_partitioning = true, hive_types_autocast = false" if of_loads else ", hive_partitioning = false"
    return f"read_parquet([{', '.join(quoted(_literal(path)) for path in paths)}]{options})"


def _literal(path: str) -> str:
    """A path as a pattern that no other path fits."""
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
