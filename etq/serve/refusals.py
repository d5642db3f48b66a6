"""Refusals of requests: what they say, and which are noted."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from etq.errors import EtqError
from etq.serve.noting import noted
from etq.serve.rates import Rates
from etq.serve.turns import client_of
from etq.team.folder import TeamFolder

# Wrong tokens of an address in a minute.
MOST_WRONG: Final = 10


@dataclass(eq=False)
class RefusedError(Exception):
    """Why a request is refused: its status of HTTP, and what is wrong; what to do."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


def too_many(text: str, seconds: float) -> RefusedError:
    """Return the refusal of who may ask again after some seconds."""
    wait = str(math.ceil(seconds))
    text = f"{text}; ask again in {wait} s"
    return RefusedError(HTTPStatus.TOO_MANY_REQUESTS, text, ((b"retry-after", wait.encode()),))


def unreadable(error: EtqError) -> RefusedError:
    """Return the refusal of everyone while a server can't read its users. Only its log says why."""
    logging.getLogger(__name__).error("%s", error)
    text = "the server can't read who may ask; ask again, or see its log"
    return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, text, ((b"retry-after", b"2"),))


class Refusals:
    """What is refused to whom."""

    def __init__(self) -> None:
        self._wrong = Rates(MOST_WRONG)
        self._noted = Rates(1)

    async def note_wrong(self, folder: TeamFolder, address: str) -> None:
        """Count a wrong token. Raises `RefusedError` if an address sends many, `EtqError` as `note`.

        Right ones are still taken from this address: nobody finds a token by trying, and one machine with an old token
        must not keep out all that share its address.
        """
        await self.note(folder, "", address, "wrong token")
        if seconds := self._wrong.wait(client_of(address)):
            raise too_many("too many wrong tokens", seconds)

    async def note(self, folder: TeamFolder, name: str, address: str, why: str) -> None:
        """Note a refusal in the audit log, the first time in a minute. Raises `EtqError`."""
        if not self._noted.wait(f"{name} {client_of(address)} {why}"):
            await noted(folder, name, address, "refused", {"why": why})
