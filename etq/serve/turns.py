"""Turns of clients: who asks much delays itself, not others."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from etq.errors import EtqError

# For how many seconds a question waits for its turn.
SECONDS: Final = 60.0


class BusyError(EtqError):
    """All processes answer other questions, and enough questions wait."""


class Turns:
    """A number of slots. The next one is for the client that uses fewest, and among these for who waited longest.

    If there are several slots, one client leaves one to others: nobody can take a slot back from a slow question.
    """

    def __init__(self, slots: int, most_waiting: int) -> None:
        self._slots = slots
        self._most_of_one = max(1, slots - 1)
        self._most_waiting = most_waiting
        self._used = Counter[str]()
        self.refused = 0
        # The client that had a turn last comes last.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def running(self) -> int:
        """How many slots are used."""
        return self._used.total()

    @property
    def waiting(self) -> int:
        """How many questions wait for their turn."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        """Wait for a client's turn, and use a slot in the with block.

        Raises `BusyError` if too many of its questions wait, or this one has waited for too long.
        """
        try:
            async with asyncio.timeout(SECONDS):
                await self._turn(client)
        except TimeoutError:
            self.refused += 1
            raise BusyError(
                f"other questions took longer than {SECONDS:g} s; ask again, or close pages that are still working"
            ) from None
        try:
            yield
        finally:
            self._end(client)

    async def _turn(self, client: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        mine = self._waiting.setdefault(client, deque())
        mine.append(turn)
        self._give()
        # Clients share the places of those who wait, as they do the slots.
        if not turn.done() and len(mine) > self._most_waiting // len(self._waiting):
            self._remove(client, turn)
            self.refused += 1
            raise BusyError(f"{len(mine)} questions wait already; ask again in a few seconds")
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(client, turn)
            else:
                self._end(client)
            raise

    def _remove(self, client: str, turn: asyncio.Future[None]) -> None:
        mine = self._waiting.get(client, deque())
        with suppress(ValueError):
            mine.remove(turn)
        if not mine:
            self._waiting.pop(client, None)

    def _end(self, client: str) -> None:
        self._used[client] -= 1
        self._used += Counter()  # without those that use none
        if client in self._waiting:
            self._waiting[client] = self._waiting.pop(client)
        self._give()

    def _give(self) -> None:
        """Give free slots to those who wait."""
        while self._used.total() < self._slots:
            client = min(self._waiting, key=self._used.__getitem__, default=None)
            if client is None or self._used[client] >= self._most_of_one:
                return
            mine = self._waiting.pop(client)
            turn = mine.popleft()
            if not turn.done():  # cancelled, which its task is still to notice
                self._used[client] += 1
                turn.set_result(None)
            if mine:
                self._waiting[client] = mine


def client_of(address: str | None) -> str:
    """Return who has an address: of IPv6, a client has all addresses of a network."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
