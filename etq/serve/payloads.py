"""What a question is answered with: a status of HTTP and bytes, which may be compressed."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from etq.errors import EtqError, QueryError, printable_lines
from etq.remote.protocol import status_of
from etq.serve.spool import Body, whole

JSON: Final = "application/json"
# Compression saves nothing for shorter answers.
LEAST_COMPRESSED: Final = 1000
# Bytes of an answer.
MOST_OF_ANSWER: Final = 64 * 2**20


@dataclass(frozen=True)
class Payload:
    """An answer: `body` is compressed by gzip if `is_compressed`; `file` is the name under which it is saved."""

    status: int
    type: str
    body: Body
    is_compressed: bool = False
    file: str | None = None


def of_data(data: Any, status: int = 200) -> Payload:
    """Return an answer of JSON. NaN and infinities become null, lone surrogates question marks."""
    try:
        text = msgspec.json.encode(data)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_encodable(data))
    if len(text) < LEAST_COMPRESSED:
        return Payload(status, JSON, text)
    return Payload(status, JSON, gzip.compress(text, 4, mtime=0), True)


def of_error(message: str, status: int) -> Payload:
    """Return an answer that has only an error message, which pages show."""
    return of_data({"error": message}, status)


def of_failure(error: EtqError) -> Payload:
    """Return the answer of an error: its message, and the place in a query that it is about."""
    place = error.place if isinstance(error, QueryError) else ""
    return of_data({"error": str(error), **({"place": printable_lines(place)} if place else {})}, status_of(error))


def content_of(answer: Payload) -> Any:
    """Return the data of an answer of JSON."""
    body = whole(answer.body)
    return msgspec.json.decode(gzip.decompress(body) if answer.is_compressed else body)


def written(answer: Payload) -> tuple[bytes, bytes]:
    """Return an answer as a process sends it: a line, and the body. `read` returns it again."""
    head = [answer.status, answer.type, answer.is_compressed, answer.file]
    return msgspec.json.encode(head) + b"\n", whole(answer.body)


def read(line: bytes, body: Body) -> Payload:
    """Return the answer that a process has sent."""
    status, type, is_compressed, file = msgspec.json.decode(line, type=tuple[int, str, bool, str | None])
    return Payload(status, type, body, is_compressed, file)


def _encodable(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "replace").decode()
    if isinstance(data, dict):
        return {_encodable(key): _encodable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_encodable(each) for each in data]
    return data
