"""What a client sends that is no message. Importing this module needs the SDK."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError


class Answered:
    """The messages of a client, of which those that aren't JSON-RPC are answered here: the SDK only leaves them out."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    async def receive(self) -> Any:
        """Return the next message of JSON-RPC. Raises `anyio.EndOfStream` after the last."""
        while isinstance(message := await self._read.receive(), Exception):
            if (answer := _answer_to(message)) is not None:
                await self._write.send(answer)
        return message

    def __aiter__(self) -> Answered:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Answered:
        await self._read.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._read.__aexit__(*error)


def _answer_to(error: Exception) -> Any:
    """Return the answer to a message that can't be read; None to a notification."""
    given = error.errors()[0]["input"] if isinstance(error, ValidationError) else None
    try:
        # Python reads what isn't valid Unicode, such as half of a surrogate pair.
        message = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        message = None
    id = message.get("id") if isinstance(message, dict) else None
    if isinstance(message, dict) and "method" in message and "id" not in message:
        return None
    is_id = (isinstance(id, int) and not isinstance(id, bool)) or (isinstance(id, str) and id.isprintable())
    code = types.PARSE_ERROR if message is None else types.INVALID_REQUEST
    text = "not a JSON-RPC message in UTF-8; send one without control characters and lone surrogates"
    answer = types.JSONRPCError(jsonrpc="2.0", id=id if is_id else None, error=types.ErrorData(code=code, message=text))
    return SessionMessage(answer)
