"""Checks of a log's checkpoints before the library reads them, which unpacks all of one, and reads what it names."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

import duckdb

from etq.catalog import quoted
from etq.database.limits import within
from etq.errors import message_of
from etq.ingest import memory
from etq.lake.reading.notes import LARGEST_SCHEMA

_NAME: Final = re.compile(r"\.checkpoint\.(?:[0-9]{10}\.[0-9]{10}\.)?parquet$")
# The columns that are looked at, in lower case.
_READ: Final = ("sidecar", "metadata", "schemastring")
# What a row takes besides its texts: it names a file. A further element of a list takes less (measured: 40), and there
# are few of them.
_ROW_BYTES: Final = 500
# The most bytes of texts in all checkpoints of a lake, and how often the library has them in memory at once (measured:
# 3.3).
_MOST_TEXT: Final = 1 << 30
_COPIES: Final = 4
# The most memory in which texts are counted: a page of them, or a dictionary, is unpacked as a whole.
_COUNTING: Final = 3 << 29


def check(uri: str, content: bytes, taken: int = 0) -> tuple[int, list[str]]:
    """Check a checkpoint before the library reads it; `taken` is the memory of others that are read with it.

    Returns how much memory it takes, in bytes, and the schemas that it gives its table. Raises `ValueError` for a
    checkpoint that is damaged, names other files to read, anywhere, or has too much text or too many elements of
    lists, and `FormatError` if they take more memory than there is.
    """
    if _NAME.search(uri) is None:
        raise ValueError("a checkpoint that etq doesn't write")
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:", config=within(_COUNTING)) as connection:
        path = Path(folder) / "checkpoint.parquet"
        path.write_bytes(content)
        try:
            return _checked(connection, uri, quoted(str(path)), taken)
        except duckdb.OutOfMemoryException as error:
            raise ValueError(f"to read its texts would take more than {memory.shown(_COUNTING)} of memory") from error
        except duckdb.Error as error:
            raise ValueError(message_of(error)) from error


def _checked(connection: duckdb.DuckDBPyConnection, uri: str, path: str, taken: int) -> tuple[int, list[str]]:
    # Rows, and elements of lists beyond one a row. No reader takes more than the file states here, and a page may have
    # any number of equal ones.
    stated = f"""
        SELECT coalesce(sum(g.rows + g.further), 0)::BIGINT FROM (
            SELECT any_value(row_group_num_rows) AS rows, sum(greatest(num_values - row_group_num_rows, 0)) AS further
            FROM parquet_metadata({path}) GROUP BY row_group_id
        ) AS g
    """
    [(elements,)] = connection.execute(stated).fetchall()
    size = elements * _ROW_BYTES
    _refuse_beyond(uri, taken + size)
    rows = f"read_parquet({path}, hive_partitioning = false) AS t"
    # A file may have a text once for any number of rows, as DuckDB while it counts.
    counted = f"SELECT coalesce(sum(strlen(to_json(t)::VARCHAR)), 0)::BIGINT FROM {rows}"
    [(texts,)] = connection.execute(counted).fetchall()
    size += texts * _COPIES
    _refuse_beyond(uri, taken + size)
    # DuckDB gives the second of a name another.
    of_name = "SELECT count(*) FROM parquet_schema({}) WHERE lower(name) IN ('{}') GROUP BY lower(name)"
    for (number,) in connection.execute(of_name.format(path, "', '".join(_READ))).fetchall():
        if number > 1:
            raise ValueError("a checkpoint with two columns of one name")
    columns = {name for name, *_ in connection.execute(f"DESCRIBE FROM {rows}").fetchall()}
    if "sidecar" in columns and connection.execute(f"SELECT count(t.sidecar) FROM {rows}").fetchall() != [(0,)]:
        raise ValueError("a checkpoint that names other files")
    if "metaData" not in columns:
        return size, []
    schemas = f'SELECT DISTINCT t."metaData"."schemaString"::VARCHAR AS schema FROM {rows} WHERE schema IS NOT NULL'
    [(length,)] = connection.execute(f"SELECT coalesce(sum(strlen(s.schema)), 0) FROM ({schemas}) AS s").fetchall()
    if length > LARGEST_SCHEMA:
        raise ValueError(f"schemas have more than {memory.shown(LARGEST_SCHEMA)}")
    return size, [schema for (schema,) in connection.execute(schemas).fetchall()]


def _refuse_beyond(uri: str, size: int) -> None:
    if size > (most := _MOST_TEXT * _COPIES):
        what = f"{memory.shown(size)} of memory, and at most {memory.shown(most)} is taken"
        raise ValueError(f"to read the checkpoints of the lake would take {what}")
    memory.refuse_beyond(uri, "to read it", size)
