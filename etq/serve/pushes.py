"""Stores captures sent to a server: `POST /api/push`, a form with the file, its labels and its name.

A file that was sent before is known by its SHA-256, so a repeated push stores it once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from etq.database.temporary import temporary_folder
from etq.errors import LONGEST_NAME, EtqError, printable
from etq.serve.answers import Answer, of_data

if TYPE_CHECKING:
    from starlette.types import Message

    from etq.serve.instance import Instance
    from etq.storage.sources import Source
    from etq.warehouse.warehouse import Warehouse

FILES: Final = ("file", "etrecord", "pte", "metrics")
_MOST_FILES: Final = 20
_MOST_LABELS: Final = 100
_AT_ONCE: Final = 2**20
# The name of a field that a form repeats for several labels and metrics.
_REPEATED: Final = ("label", "metrics")


async def push(request: Request, instance: Instance, most_bytes: int) -> Answer:
    """Store a request's file: 201 with the capture's name if it is new, 200 if it is known.

    Raises `EtqError` for a wrong form, file or option.
    """
    with temporary_folder() as folder:
        given = await _received(request, folder, most_bytes)
        stored = instance.write(lambda warehouse: _store(warehouse, given))
        return await asyncio.wrap_future(stored)


async def _received(request: Request, folder: str, most_bytes: int) -> dict[str, Any]:
    """Return the fields of a form, with files as sources in a folder."""
    limited = Request(request.scope, _Counted(request, most_bytes).receive)
    try:
        async with limited.form(max_files=_MOST_FILES, max_fields=2 * _MOST_LABELS) as form:
            return await _fields(form, folder)
    except ClientDisconnect as error:
        raise EtqError("the upload ended before it was complete; send it again") from error
    except HTTPException as error:  # raised for a form that can't be read
        raise EtqError(f"not a form with files: {error.detail}; send it as multipart/form-data") from error


class TooLargeError(EtqError):
    """The request is larger than the server's limit."""


class _Counted:
    """Counts the bytes of a request, and ends it if there are too many."""

    def __init__(self, request: Request, most: int) -> None:
        self._receive = request.receive
        self._most = self._left = most

    async def receive(self) -> Message:
        """Return the next part of the request. Raises `EtqError`."""
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise TooLargeError(f"more than {self._most >> 20} MB; etq serve --megabytes sets the limit")
        return message


async def _fields(form: FormData, folder: str) -> dict[str, Any]:
    from etq.storage.sources import source_of

    given: dict[str, Any] = {"label": [], "metrics": []}
    for number, (name, value) in enumerate(form.multi_items()):
        if isinstance(value, UploadFile) != (name in FILES) or name not in (*FILES, "label", "name"):
            raise EtqError(f"{printable(name)!r}: not a field; send the files {', '.join(FILES)}, and label and name")
        if isinstance(value, UploadFile):
            path = Path(folder, str(number))
            with path.open("wb") as copy:
                while part := await value.read(_AT_ONCE):
                    copy.write(part)
            found: Any = source_of(path).named(_file_name(value.filename or "file"))
        else:
            found = value
        if name in _REPEATED:
            given[name].append(found)
        elif given.setdefault(name, found) is not found:
            raise EtqError(f"{name}: sent twice; send it once")
    if "file" not in given:
        raise EtqError("file: missing; send the profiling file in this field")
    return given


def _file_name(sent: str) -> str:
    """Return the name of a file that was sent, without its folders. Raises `EtqError` for none."""
    name = PurePosixPath(sent.replace("\\", "/")).name
    if not name or name in (".", "..") or printable(name) != name or len(name) > LONGEST_NAME:
        raise EtqError(
            f"{printable(sent)[:200]!r}: not a file's name; give it a name of up to {LONGEST_NAME} characters"
        )
    return name


def _store(warehouse: Warehouse, given: dict[str, Any]) -> Answer:
    from etq.storage.bulk import FileToStore
    from etq.storage.capture import Options

    labels = _labels(given["label"])
    options = Options(given.get("name"), labels, metrics=tuple(given["metrics"]))
    file: Source = given["file"]
    [capture] = warehouse.ingest_opened(
        [FileToStore(file, options)], program=given.get("pte"), record=given.get("etrecord")
    )
    if isinstance(capture, EtqError):
        raise capture
    query = "SELECT f.rule, left(f.detail, 300) FROM findings AS f WHERE f.capture_id = $key LIMIT 20"
    findings = warehouse.rows(query, key=capture.capture_id)[1]
    status = HTTPStatus.CREATED if capture.is_new else HTTPStatus.OK
    return of_data({"name": capture.name, "is_new": capture.is_new, "findings": findings}, status)


def _labels(texts: Sequence[str]) -> dict[str, str]:
    """Return labels, which are sent as key=value. Raises `EtqError`."""
    if len(texts) > _MOST_LABELS:
        raise EtqError(f"{len(texts)} labels; send {_MOST_LABELS} at most")
    labels = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise EtqError(f"label {printable(text)[:200]!r}: needs key=value")
        labels[key] = value
    return labels
