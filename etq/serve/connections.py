"""Connections that end when a client takes too long to send a request or to take its answer.

A server takes a limited number of connections. Without time limits, a client that sends halves of requests would keep
all others out, before it had to show a token.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):  # type: ignore[misc]
    """A connection, with the longest times in seconds.

    receiving   from the first byte of a request, or the start of the connection, to the end of the request's head
    answering   from there until the client has taken the answer: the limits of a question are shorter
    """

    receiving: float = 15.0
    answering: float = 300.0
    _clock: asyncio.TimerHandle | None = None
    _is_answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with the time for the first request."""
        super().connection_made(transport)
        self._measure()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request: more parts don't give more time."""
        super().data_received(data)
        self._measure()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may already be there."""
        self._stop()
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._measure()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection: it may still have to send an answer that the client doesn't take."""
        super().timeout_keep_alive_handler()
        self._stop()
        self._clock = self.loop.call_later(self.answering, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop()
        super().connection_lost(exc)

    def _measure(self) -> None:
        """Start the clock, unless it measures the same already."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self._clock is None or self._is_answering != is_answering:
            self._stop()
            self._is_answering = is_answering
            seconds = self.answering if is_answering else self.receiving
            self._clock = self.loop.call_later(seconds, self._end)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _end(self) -> None:
        """End the connection, without waiting for what the client doesn't take."""
        transport: Any = self.transport
        transport.abort()
