"""Answers that are sent in parts, as fast as the client takes them: no more of them than a part is in memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from etq.serve.spool import Body, Stored
from etq.threads import Threads

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

# Bytes of a part. Twice as much of each answer is in memory.
AT_ONCE: Final = 2**17
# The head and the end of a stream of gzip are taken, too.
_GZIP: Final = zlib.MAX_WBITS | 16
_reading: Final = Threads("sending", 2)


class InParts(Response):
    """An answer with a body that may be large. `expands`: it is compressed by gzip, and is sent as it was before."""

    def __init__(
        self, body: Body, status: int, headers: Mapping[str, str], type: str, *, expands: bool = False
    ) -> None:
        self._content, self._expands = body, expands
        named = dict(headers)
        if not expands:
            named["content-length"] = str(len(body))
        super().__init__(None, status, named, type)
        if expands:  # the length isn't known
            del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            async for part in _expanded(self._content) if self._expands else _parts(self._content):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _parts(body: Body) -> AsyncIterator[bytes]:
    for at in range(0, len(body), AT_ONCE):
        if isinstance(body, Stored):
            yield await _reading.run(body.part, at, AT_ONCE)
        else:
            yield body[at : at + AT_ONCE]


async def _expanded(body: Body) -> AsyncIterator[bytes]:
    expanding = zlib.decompressobj(_GZIP)
    async for part in _parts(body):
        left = part
        while left:
            if found := expanding.decompress(left, AT_ONCE):
                yield found
            left = expanding.unconsumed_tail
    if found := expanding.flush():
        yield found
