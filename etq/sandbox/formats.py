"""The rows of a query in the formats of an answer: made where the query runs, within its limits of memory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etq.database.results import QueryResult
from etq.errors import EtqError
from etq.render.delimited import delimited

if TYPE_CHECKING:
    import duckdb

# The types of the formats. `exact` is Arrow with DuckDB's extension types for those that Arrow lacks, such as integers
# of 128 bits, as DuckDB reads it again.
TYPES: Final[Mapping[str, str]] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
    "exact": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
ROWS_AT_ONCE: Final = 2_000
_LARGEST: Final = 2**64
_SMALLEST: Final = -(2**63)

Parameters = Mapping[str, Any] | list[Any] | None


def check_format(format: str) -> None:
    """Raise `EtqError` for a format that answers don't have."""
    if format not in TYPES:
        raise EtqError(f"{format!r}: no format of answers; use json, arrow, csv or parquet")


def written(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, format: str, most: int
) -> list[bytes]:
    """Return a query's rows in a format, in parts. Raises `duckdb.Error`, and `EtqError` for more bytes than `most`."""
    parts = _Parts(most)
    _WRITERS[format](connection, query, parameters, parts)
    return parts.parts


class _Parts(io.RawIOBase):
    """A stream that keeps what is written, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self._size = 0
        self._most = most

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        copied = bytes(part)
        self._size += len(copied)
        if self._size > self._most:
            raise EtqError(f"the query's result took more than {self._most >> 20} MB of memory; ask for less of it")
        self.parts.append(copied)
        return len(copied)


def _json(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, parts: _Parts) -> None:
    """{"columns": names, "types": DuckDB's types, "rows": lists of values}. Numbers are exact: decimals have all their
    digits, and whole numbers up to 64 bits, longer ones are texts. NaN and infinities are null.
    """
    encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
    answer = QueryResult(connection, query, parameters)
    head = encode({"columns": answer.columns, "types": answer.types})
    parts.write(head[:-1] + b',"rows":[')
    separator = b""
    for rows in _blocks(answer):
        text = encode([[_in_json(value) for value in row] for row in rows])
        parts.write(separator + text[1:-1])
        separator = b","
    parts.write(b"]}")


def _in_json(value: Any) -> Any:
    """Return a value that JSON has; texts of bytes are hexadecimal."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int):
        return value if _SMALLEST <= value < _LARGEST else str(value)
    if isinstance(value, list | tuple):
        return [_in_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _in_json(each) for key, each in value.items()}
    return value


def _csv(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, parts: _Parts) -> None:
    """As files of CSV that commands write."""
    answer = QueryResult(connection, query, parameters)
    head = delimited(answer.columns, [], ",")
    parts.write(head.encode())
    for rows in _blocks(answer):
        parts.write(delimited(answer.columns, rows, ",").encode()[len(head.encode()) :])


def _blocks(answer: QueryResult) -> Iterator[list[tuple[Any, ...]]]:
    return iter(lambda: answer.next(ROWS_AT_ONCE), [])


def _relation(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters) -> duckdb.DuckDBPyRelation:
    import duckdb

    try:
        return connection.sql(query, params=parameters)
    except (duckdb.BinderException, duckdb.CatalogException):
        # Errors of relations have no place in the query; this one has, and is raised before anything is executed.
        connection.execute(query, parameters)
        raise


def _arrow(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, parts: _Parts) -> None:
    import pyarrow as pa

    rows = _relation(connection, query, parameters).to_arrow_reader(ROWS_AT_ONCE)
    with pa.ipc.new_stream(pa.PythonFile(parts, "w"), rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _parquet(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, parts: _Parts) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    rows = _relation(connection, query, parameters).to_arrow_reader(ROWS_AT_ONCE)
    with pa.parquet.ParquetWriter(pa.PythonFile(parts, "w"), rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


_WRITERS: Final[Mapping[str, Callable[..., None]]] = {
    "json": _json,
    "csv": _csv,
    "arrow": _arrow,
    "exact": _arrow,
    "parquet": _parquet,
}
