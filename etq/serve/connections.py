"""Connections that end when a client takes too long to send a request or to take its answer, or others need the room.

A server takes a limited number of connections. Without limits of time and for each client, one that sends halves of
requests would keep all others out, before it had to show a token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from etq.serve.turns import client_of

# Connections of all clients, and of one.
MOST: Final = 200
MOST_OF_ONE: Final = 64


class Connection(H11Protocol):  # type: ignore[misc]
    """A connection, with the longest times in seconds.

    receiving   from the first byte of a request, or the start of the connection, to the end of the request's head
    answering   from there until the client has taken the answer: the limits of a question are shorter
    """

    receiving: float = 15.0
    answering: float = 300.0
    _clock: asyncio.TimerHandle | None = None
    _is_measuring_answer = False
    began = 0.0
    client_name = ""
    is_trusted = False

    def __init__(self, *, app_state: dict[str, Any], **given: Any) -> None:
        """Let the application find the connection in the state of a request."""
        super().__init__(app_state={**app_state, "connection": self}, **given)

    def trust(self) -> None:
        """Note that the client may ask: others make room before this connection does."""
        self.is_trusted = True

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with the time for the first request."""
        super().connection_made(transport)
        self.client_name = client_of(self.client[0] if self.client is not None else None)
        self.began = self.loop.time()
        self._measure()
        _make_room(self, [each for each in self.connections if isinstance(each, Connection)])

    def allow(self, seconds: float) -> None:
        """Give the client so many seconds from now to take the answer that is being made."""
        self._stop()
        self._is_measuring_answer = True
        self._clock = self.loop.call_later(seconds, self.end)

    def extend(self) -> None:
        """Begin the time of the present request again, of which a large part has come."""
        self._stop()
        self._measure()

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_used(self) -> bool:
        """Whether a request is being answered, or its answer sent."""
        return self.is_answering or self.transport.get_write_buffer_size() > 0

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, or is about to."""
        return bool(self.transport.is_closing())

    def data_received(self, data: bytes) -> None:
        """Read a part of a request: more parts don't give more time."""
        super().data_received(data)
        self._measure()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may already be there."""
        self._stop()
        super().on_response_complete()
        if self.is_answering:
            self._measure()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection: it may still have to send an answer that the client doesn't take."""
        super().timeout_keep_alive_handler()
        self._stop()
        self._clock = self.loop.call_later(self.answering, self.end)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop()
        super().connection_lost(exc)

    def _measure(self) -> None:
        """Start the clock, unless it measures the same already."""
        is_answering = self.is_answering
        if self._clock is None or self._is_measuring_answer != is_answering:
            self._stop()
            self._is_measuring_answer = is_answering
            seconds = self.answering if is_answering else self.receiving
            self._clock = self.loop.call_later(seconds, self.end)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def end(self) -> None:
        """End the connection, without waiting for what the client doesn't take."""
        transport: Any = self.transport
        transport.abort()


def _make_room(new: Connection, connections: list[Connection]) -> None:
    """End a connection if there are too many, of the new one's client or of all.

    Those end first whose client hasn't shown that it may ask, then those that wait for a request; of these, those of
    the client that has most, the oldest first. Answers are not cut off: the new connection ends instead.
    """
    there = [each for each in connections if not each.is_over]
    if sum(each.client_name == new.client_name for each in there) > MOST_OF_ONE:
        there = [each for each in there if each.client_name == new.client_name]
    elif len(there) <= MOST:
        return
    count = Counter((each.client_name, each.is_trusted) for each in there)
    first = min(
        (each for each in there if each is not new),
        key=lambda each: (each.is_used, each.is_trusted, -count[each.client_name, each.is_trusted], each.began),
    )
    (new if first.is_used else first).end()
