"""Checks of a log's checkpoints before the library reads them, which unpacks all of one, and reads what it names."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import duckdb

from etq.catalog import identifier, quoted
from etq.database.limits import within
from etq.errors import message_of
from etq.ingest import memory
from etq.lake.reading.notes import LARGEST_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_NAME: Final = re.compile(r"\.checkpoint\.(?:[0-9]{10}\.[0-9]{10}\.)?parquet$")
# What a row takes besides its texts: it names a file. A further element of a list takes less (measured: 40), and there
# are few of them.
_ROW_BYTES: Final = 500
# The most bytes of texts in all checkpoints of a lake, and how often the library has them in memory at once (measured:
# 3.3).
_MOST_TEXT: Final = 1 << 30
_COPIES: Final = 4
# The most memory in which texts are counted: a page of them, or a dictionary, is unpacked as a whole.
_COUNTING: Final = 3 << 29


class Checked(NamedTuple):
    """How much memory a checkpoint takes, in bytes, and the schemas that it gives its table."""

    memory: int
    schemas: list[str]


def check(uri: str, content: bytes, taken: int = 0) -> Checked:
    """Check a checkpoint before the library reads it; `taken` is the memory of others that are read with it.

    Raises `ValueError` for a checkpoint that is damaged, names other files to read, anywhere, or has too much text or
    too many elements of lists, and `FormatError` if they take more memory than there is.
    """
    from pyarrow import BufferReader, parquet

    if _NAME.search(uri) is None:
        raise ValueError("a checkpoint that etq doesn't write")
    file = parquet.ParquetFile(BufferReader(content))
    size = _elements(file.metadata) * _ROW_BYTES
    _refuse_beyond(uri, taken + size)
    size += _text_bytes(content, file.schema_arrow) * _COPIES
    _refuse_beyond(uri, taken + size)
    named = file.read(["sidecar"]) if "sidecar" in file.schema_arrow.names else []
    if any(each.null_count < len(each) for each in named):
        raise ValueError("a checkpoint that names other files")
    return Checked(size, _schemas(file))


def _schemas(file: parquet.ParquetFile) -> list[str]:
    from pyarrow import ArrowException, compute

    if "metaData" not in file.schema_arrow.names:
        return []
    try:
        [tables] = file.read(["metaData.schemaString"])
        found = compute.struct_field(tables, "schemaString").drop_null().unique()
        length = compute.sum(compute.binary_length(found)).as_py() or 0
    except ArrowException as error:  # of columns of another type
        raise ValueError(str(error)) from error
    if length > LARGEST_SCHEMA:
        raise ValueError(f"schemas have more than {memory.shown(LARGEST_SCHEMA)}")
    return [str(each) for each in found.to_pylist()]


def _refuse_beyond(uri: str, size: int) -> None:
    if size > (most := _MOST_TEXT * _COPIES):
        what = f"{memory.shown(size)} of memory, and at most {memory.shown(most)} is taken"
        raise ValueError(f"to read the checkpoints of the lake would take {what}")
    memory.refuse_beyond(uri, "to read it", size)


def _elements(metadata: parquet.FileMetaData) -> int:
    """Return the number of rows, and of elements of lists and maps beyond one a row.

    No reader takes more than the file states here, and a page may have any number of equal ones.
    """
    groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
    values = ((group.num_rows, group.column(each).num_values) for group in groups for each in range(group.num_columns))
    rows: int = sum(group.num_rows for group in groups)
    further: int = sum(max(0, number - of_group) for of_group, number in values)
    return rows + further


def _text_bytes(content: bytes, schema: pa.Schema) -> int:
    """Return the bytes of all texts, of which a file may have each once for any number of rows.

    DuckDB has each once, too, while it counts. Raises `ValueError` if these are too long.
    """
    lengths = [each for field in schema for each in _lengths(f"t.{identifier(field.name)}", field.type)]
    if not lengths:
        return 0
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:", config=within(_COUNTING)) as connection:
        path = Path(folder) / "checkpoint.parquet"
        path.write_bytes(content)
        sums = " + ".join(f"coalesce(sum({each}), 0)" for each in lengths)
        try:
            [(found,)] = connection.execute(f"SELECT {sums} FROM read_parquet({quoted(str(path))}) AS t").fetchall()
        except duckdb.OutOfMemoryException as error:
            raise ValueError(f"to read its texts would take more than {memory.shown(_COUNTING)} of memory") from error
        except duckdb.Error as error:
            raise ValueError(message_of(error)) from error
        return int(found)


def _lengths(value: str, type: pa.DataType, depth: int = 0) -> Iterator[str]:
    """Yield the queries for the bytes of each text within a value of a type."""
    from pyarrow import types

    if types.is_string(type) or types.is_large_string(type):
        yield f"strlen({value})"
    elif types.is_binary(type) or types.is_large_binary(type):
        yield f"octet_length({value})"
    elif types.is_struct(type):
        for field in type:
            yield from _lengths(f"struct_extract({value}, {quoted(field.name)})", field.type, depth)
    elif types.is_map(type):
        yield from _lengths_in(f"map_keys({value})", type.key_type, depth)
        yield from _lengths_in(f"map_values({value})", type.item_type, depth)
    elif types.is_list(type) or types.is_large_list(type):
        yield from _lengths_in(value, type.value_type, depth)


def _lengths_in(values: str, type: pa.DataType, depth: int) -> Iterator[str]:
    for each in _lengths(f"v{depth}", type, depth + 1):
        yield f"list_sum(list_transform({values}, lambda v{depth}: {each}))"
