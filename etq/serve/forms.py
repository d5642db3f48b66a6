"""A capture that is sent as a form, as curl does it: its files are written to the disk while they come."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from etq.remote.protocol import Push
from etq.serve.receiving import Part, Receiver, RefusedError, blocks, length_of

# Fields with files, and with texts; those that may be there several times.
FILES: Final = ("file", "etrecord", "pte", "debug_buffer", "sidecar", "metrics", "graph_captures")
TEXTS: Final = ("id", "name", "label", "captured_at", "time_scale", "clock_bits", "values")
SEVERAL: Final = ("metrics", "graph_captures", "label")
# Bytes of a field that is a text, and fields of a form.
MOST_OF_TEXT: Final = 4096
MOST_FIELDS: Final = 200
# Bytes that a form has beside its files.
_AROUND: Final = 2**20


async def pushed_form(request: Request, user: str, receiver: Receiver) -> Push:
    """Receive a form with a capture; its files are in the queue then. Raises `RefusedError`."""
    count = length_of(request)
    if count > len(FILES) * receiver.most_bytes + _AROUND:
        raise receiver.too_large("the form")
    type, parameters = parse_options_header(request.headers.get("content-type", ""))
    if type != b"multipart/form-data" or b"boundary" not in parameters:
        raise RefusedError("not a form; send it by curl -F file=@run.etdp", 415, connection="close")
    async with receiver.room(user, count) as room:
        form = _Form(user, receiver, parameters[b"boundary"])
        try:
            async for block in blocks(request):
                await receiver.threads.run(form.feed, block)
                room.left -= len(block)
            push = form.push()
            await receiver.threads.run(form.receive)
        finally:
            form.close()
    return push


class _Form:
    """What was read of a form."""

    def __init__(self, user: str, receiver: Receiver, boundary: bytes) -> None:
        self._user, self._receiver = user, receiver
        self._parser = MultipartParser(boundary, self._callbacks())  # type: ignore[arg-type]
        self._header = [bytearray(), bytearray()]
        self._disposition = b""
        self._field = ""
        self._text: bytearray | None = None
        self._part: Part | None = None
        self._parts: list[Part] = []
        self._values: list[tuple[str, Any]] = []
        self._is_whole = False

    def feed(self, block: bytes) -> None:
        """Read a part of the form."""
        try:
            self._parser.write(block)
        except FormParserError as error:
            raise RefusedError(f"not a form: {error}", 400, connection="close") from None

    def push(self) -> Push:
        """Return what was sent. Raises `RefusedError` for what isn't a capture."""
        if not self._is_whole:
            raise RefusedError("the form is cut off; send it again", 400)
        fields: dict[str, Any] = {"id": uuid.uuid4().hex, "labels": {}}
        for name, value in self._values:
            if name == "label":
                key, equals, text = value.partition("=")
                if not equals:
                    raise RefusedError(f"label: {value!r} is not of the form KEY=VALUE", 400)
                fields["labels"][key.strip()] = text
            elif name in SEVERAL:
                fields.setdefault(name, []).append(value)
            elif name in fields and name != "id":
                raise RefusedError(f"{name} is there twice; send a form for each capture", 400)
            else:
                fields[name] = value
        if "file" not in fields:
            raise RefusedError("the form has no file; send it by curl -F file=@run.etdp", 400)
        try:
            # The texts of a form stand for numbers, too.
            return msgspec.convert(fields, Push, strict=False)
        except msgspec.ValidationError as error:
            raise RefusedError(f"not a capture: {error}", 400) from None

    def receive(self) -> None:
        """Put the files into the queue."""
        for part in self._parts:
            part.finish()
            self._receiver.queue.receive(self._user, part.digest.hexdigest(), part.path, 0)

    def close(self) -> None:
        """Remove what isn't in the queue."""
        for part in self._parts:
            part.file.close()
            part.path.unlink(missing_ok=True)

    def _callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_content,
            "on_part_data": self._content,
            "on_part_end": self._end,
            "on_end": self._end_form,
        }

    def _begin(self) -> None:
        self._disposition = b""
        if len(self._values) >= MOST_FIELDS:
            raise RefusedError(f"a form has at most {MOST_FIELDS} fields", 400, connection="close")

    def _end_header(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = [bytearray(), bytearray()]

    def _begin_content(self) -> None:
        _, parameters = parse_options_header(self._disposition)
        self._field = parameters.get(b"name", b"").decode(errors="replace").replace("-", "_")
        if self._field in FILES:
            name = parameters.get(b"filename", b"").decode(errors="replace")
            self._part = Part(self._receiver.queue.partial(self._user, f"form-{uuid.uuid4().hex}"))
            self._parts.append(self._part)
            self._values.append((self._field, {"name": name}))
        elif self._field in TEXTS:
            self._text = bytearray()
        else:
            text = f"no field {self._field[:100]!r}; known are {', '.join((*FILES, *TEXTS))}"
            raise RefusedError(text, 400, connection="close")

    def _content(self, data: bytes, start: int, end: int) -> None:
        if self._part is not None:
            self._part.write(data[start:end])
            if self._part.file.tell() > self._receiver.most_bytes:
                raise self._receiver.too_large(self._field)
        elif self._text is not None:
            self._text += data[start:end]
            if len(self._text) > MOST_OF_TEXT:
                raise RefusedError(f"{self._field}: longer than {MOST_OF_TEXT} bytes", 413, connection="close")

    def _end(self) -> None:
        if self._part is not None:
            self._values[-1][1]["sha256"] = self._part.digest.hexdigest()
        elif self._text is not None:
            self._values.append((self._field, self._text.decode(errors="replace")))
        self._part = self._text = None

    def _end_form(self) -> None:
        self._is_whole = True
