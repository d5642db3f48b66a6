"""Answers to requests: JSON for pages and programs, and the rows of a query in a format."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etq.database.connection import is_of_file
from etq.database.limited import BusyError
from etq.database.locking import HeldError
from etq.database.results import QueryResult
from etq.errors import EtqError, FormatError, QueryError, printable_lines
from etq.render.delimited import delimited
from etq.render.display import shown_as
from etq.report.columns import table

if TYPE_CHECKING:
    import duckdb
    from starlette.responses import Response

JSON: Final = "application/json"
# Compression saves nothing for shorter answers.
_LEAST_COMPRESSED: Final = 1000
# The most bytes of the rows of a query.
MOST: Final = 64 * 2**20
# The most rows that the page of SQL shows; files have all rows.
MOST_SHOWN: Final = 10_000
_ROWS_AT_ONCE: Final = 2_000
# The largest whole numbers that JSON may have: for browsers, and for readers of 64-bit numbers.
_EXACT_IN_BROWSER: Final = 2**53
_LARGEST: Final = 2**64


@dataclass(frozen=True)
class Answer:
    """An HTTP status and bytes, compressed by gzip if `is_compressed`; `file` is the name for saving it."""

    body: bytes
    type: str = JSON
    status: int = 200
    is_compressed: bool = False
    file: str | None = None


def of_data(data: Any, status: int = 200) -> Answer:
    """Return an answer in JSON. NaN and infinities become null; lone surrogates become question marks."""
    try:
        body = msgspec.json.encode(data)
    except UnicodeEncodeError:
        body = msgspec.json.encode(_encodable(data))
    if len(body) < _LEAST_COMPRESSED:
        return Answer(body, status=status)
    return Answer(gzip.compress(body, 4, mtime=0), status=status, is_compressed=True)


def of_error(error: EtqError) -> Answer:
    """Return the answer for an error: its message, and its place in the query."""
    place = error.place if isinstance(error, QueryError) else ""
    return of_data({"error": str(error), **({"place": printable_lines(place)} if place else {})}, _status_of(error))


def error_response(message: str, status: int) -> Response:
    """Return a refusal, as a response."""
    from starlette.responses import Response

    return Response(of_data({"error": message}).body, status, {"cache-control": "no-store"}, JSON)


def rows_of(format: str) -> Callable[[duckdb.DuckDBPyConnection, str, Any], Answer]:
    """Return the function that runs a query with its parameters and answers with its rows in a format.

    Raises `EtqError` for an unknown format. The function raises `duckdb.Error`, and `EtqError` for too many bytes.
    """
    if format not in _FORMATS:
        raise EtqError(f"{format!r}: unknown format; use {', '.join(_FORMATS)}")
    return _FORMATS[format]


def _status_of(error: EtqError) -> int:
    if isinstance(error, HeldError) or is_of_file(error.__cause__):  # busy: a later attempt may succeed
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, BusyError):
        return HTTPStatus.TOO_MANY_REQUESTS
    return HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(error, FormatError) else HTTPStatus.BAD_REQUEST


def _encodable(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "replace").decode()
    if isinstance(data, Mapping):
        return {_encodable(key): _encodable(value) for key, value in data.items()}
    return [_encodable(item) for item in data] if isinstance(data, list | tuple) else data


class _Limited(io.RawIOBase):
    """A stream that keeps up to `MOST` written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        self._size += len(self._parts[-1])
        if self._size > MOST:
            raise EtqError(f"the query's rows take more than {MOST >> 20} MB; ask for less")
        return len(self._parts[-1])

    def content(self) -> bytes:
        return b"".join(self._parts)


def _json(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any) -> Answer:
    """{"columns": names, "types": DuckDB's types, "rows": lists of values}. Decimals, and numbers of up to 64 bits,
    have all digits. Longer numbers are texts, bytes are hexadecimal texts, NaN and infinities are null.
    """
    encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
    answer = QueryResult(connection, query, parameters, is_limited=True)
    stream = _Limited()
    stream.write(encode({"columns": answer.columns, "types": answer.types})[:-1] + b',"rows":[')
    separator = b""
    for rows in _blocks(answer):
        stream.write(separator + encode([[_plain(value) for value in row] for row in rows])[1:-1])
        separator = b","
    stream.write(b"]}")
    return Answer(stream.content())


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int):
        return value if -_LARGEST // 2 <= value < _LARGEST else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {str(key): _plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _page(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any) -> Answer:
    """The answer for the page of SQL: the first rows by column, whether columns are numbers or texts, and the number of
    rows.

    Whole numbers that are too large for a browser are texts.
    """
    answer = QueryResult(connection, query, parameters, is_limited=True)
    shown = answer.next(MOST_SHOWN)
    count = len(shown) + sum(map(len, _blocks(answer)))
    kinds = [_kind(row[at] for row in shown) for at in range(len(answer.columns))]
    rows = [tuple(map(_exact, row)) for row in shown]
    return of_data({"rows": table(answer.columns, rows).as_data(), "kinds": kinds, "count": count})


def _exact(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) >= _EXACT_IN_BROWSER else value


def _kind(values: Iterator[Any]) -> str:
    first = next((value for value in values if value is not None), None)
    return "number" if isinstance(first, int | float) and not isinstance(first, bool) else "text"


def _csv(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any) -> Answer:
    """Like files that commands write, but with an apostrophe before texts that spreadsheets would take for formulas."""
    answer = QueryResult(connection, query, parameters, is_limited=True)
    stream = _Limited()
    with shown_as(escapes_formulas=True):
        head = delimited(answer.columns, [], ",").encode()
        stream.write(head)
        for rows in _blocks(answer):
            stream.write(delimited(answer.columns, rows, ",").encode("utf-8", "replace")[len(head) :])
    return Answer(stream.content(), "text/csv; charset=utf-8", file="result.csv")


def _blocks(answer: QueryResult) -> Iterator[Sequence[tuple[Any, ...]]]:
    return iter(lambda: answer.next(_ROWS_AT_ONCE), [])


def _arrow(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any) -> Answer:
    import pyarrow as pa

    rows = connection.sql(query, params=parameters).to_arrow_reader(_ROWS_AT_ONCE)
    stream = _Limited()
    with pa.ipc.new_stream(pa.PythonFile(stream, "w"), rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    return Answer(stream.content(), "application/vnd.apache.arrow.stream", file="result.arrows")


def _parquet(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any) -> Answer:
    import pyarrow as pa
    import pyarrow.parquet

    rows = connection.sql(query, params=parameters).to_arrow_reader(_ROWS_AT_ONCE)
    stream = _Limited()
    try:
        with pa.parquet.ParquetWriter(pa.PythonFile(stream, "w"), rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
    except pa.ArrowNotImplementedError as error:  # for example an interval
        raise QueryError(f"Parquet can't represent a column: {error}; cast it to VARCHAR") from error
    return Answer(stream.content(), "application/vnd.apache.parquet", file="result.parquet")


_FORMATS: Final[Mapping[str, Callable[[duckdb.DuckDBPyConnection, str, Any], Answer]]] = {
    "json": _json,
    "page": _page,
    "csv": _csv,
    "arrow": _arrow,
    "parquet": _parquet,
}
