"""A part of a server that tells a webhook when a regression in an overview begins or ends."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from etq.errors import EtqError, printable
from etq.remote.deadlines import ended_after
from etq.serve.payloads import content_of
from etq.serve.site import Part, Site
from etq.serve.state import WarehouseState
from etq.serve.turns import BusyError
from etq.team import told
from etq.team.folder import TeamFolder
from etq.version import VERSION

# Seconds between looks at the warehouse's state, and at messages; and for a receiver to answer, however it does.
LOOK_SECONDS: Final = 2.0
SEND_SECONDS: Final = 10.0
# What questions are of, among those of clients: they take turns.
CLIENT: Final = "webhook"

_log = logging.getLogger("etq.webhook")


@dataclass(frozen=True)
class Receiver:
    """Where messages are sent: an address, and the key of their signature."""

    url: str
    secret: str | None = None

    @property
    def host(self) -> str:
        """The receiver without its path, which may be secret."""
        return urlsplit(self.url).hostname or ""


def check_webhook(url: str, folder: TeamFolder | None) -> None:
    """Raise `EtqError` for an address that isn't of HTTP, and for a server that can't have a webhook."""
    parts = urlsplit(url)
    try:
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or any(each.isspace() for each in url):
        raise EtqError("--webhook: not an address of http or https; write https://HOST/PATH")
    if folder is None:
        raise EtqError("--webhook: what it was told is kept in the team's folder; choose one with --team DIR")


def webhook(site: Site) -> Part:
    """The webhook, if the server has one."""
    url, folder = site.settings.webhook, site.settings.folder
    if url is None or folder is None:
        return Part()
    receiver = Receiver(url, site.settings.webhook_secret)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_look(site, folder)), asyncio.create_task(_send(folder, receiver))]
        yield
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    return Part(running=running)


async def _look(site: Site, folder: TeamFolder) -> None:
    """Compare what changed with what was told, at the start and when the warehouse's state changes."""
    state = WarehouseState(site.path)
    known: str | None = None
    link = (site.settings.public_url or "").rstrip("/")
    while True:
        now = await asyncio.to_thread(state.current)
        if now is not None and now != known and await _compare(site, folder, now, link):
            known = now
        await asyncio.sleep(LOOK_SECONDS)


async def _compare(site: Site, folder: TeamFolder, state: str, link: str) -> bool:
    """Ask for all changes, and note what is to be told. Returns whether there was an answer."""
    try:
        answer = await site.pool.ask("changes", {}, state, CLIENT)
        if answer.status != 200:
            _log.warning("changes of overviews: status %d", answer.status)
            return answer.status not in (503, 504)
        await asyncio.to_thread(told.note_changes, folder, content_of(answer), time.time(), link)
    except BusyError:
        return False  # readers go first
    except (EtqError, OSError) as error:
        _log.warning("what the webhook was told: %s", printable(str(error)))
        return False
    return True


async def _send(folder: TeamFolder, receiver: Receiver) -> None:
    """Send messages, one after the other: a later one is never taken before an earlier one."""
    while True:
        wait = LOOK_SECONDS
        try:
            message, at = await asyncio.to_thread(told.next_message, folder, time.time())
            if message is not None:
                at = await asyncio.to_thread(_deliver, folder, receiver, message)
                if at is None:
                    continue
            if at is not None:
                wait = min(LOOK_SECONDS, max(0.05, at - time.time()))
        except EtqError as error:
            _log.warning("messages of the webhook: %s", printable(str(error)))
        await asyncio.sleep(wait)


def _deliver(folder: TeamFolder, receiver: Receiver, message: told.Message) -> float | None:
    """Send a message, and note whether it was taken: also when the server stops meanwhile, which waits for threads.

    Returns when it is to be sent again; None if it was taken.
    """
    status = post(receiver, message)
    if status is not None and 200 <= status < 300:
        told.was_taken(folder, message)
        return None
    what = "no answer" if status is None else f"status {status}"
    _log.warning("webhook at %s: %s to message %d", receiver.host, what, message.number)
    return told.was_refused(folder, message, time.time())


def post(receiver: Receiver, message: told.Message) -> int | None:
    """Send a message; return the status of the answer, which isn't read and not followed; None without one."""
    parts = urlsplit(receiver.url)
    body = message.body.encode()
    headers = {
        "content-type": "application/json",
        "user-agent": f"etq/{VERSION}",
        "x-etq-message": str(message.number),
    }
    if receiver.secret is not None:
        headers["x-etq-signature-256"] = (
            f"sha256={hmac.new(receiver.secret.encode(), body, hashlib.sha256).hexdigest()}"
        )
    is_secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
    host, target = parts.hostname or "", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with closing(kind(host, parts.port, timeout=SEND_SECONDS)) as connection:
            opened = socket.create_connection((host, connection.port), SEND_SECONDS)
            connection.sock = opened  # which it closes
            with ended_after(opened, SEND_SECONDS):
                if is_secure:
                    context = ssl.create_default_context()
                    connection.sock = context.wrap_socket(opened, server_hostname=host)
                connection.request("POST", target, body, headers)
                return connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError):
        pass
    return None
