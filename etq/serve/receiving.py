"""Files that are sent: within the limits they are written to the disk, hashed and put into the queue."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from starlette.requests import ClientDisconnect, Request

from etq.remote.protocol import OFFSET
from etq.serve.settings import Settings
from etq.serve.turns import Turns
from etq.team.queue import PushQueue, free_bytes
from etq.threads import Threads

GIGABYTE: Final = 10**9
MEGABYTE: Final = 10**6
# Bytes that are written at once, and that stay free on the disk.
AT_ONCE: Final = 2**18
LEFT_FREE: Final = 100 * MEGABYTE
# Threads that write files, and that read again what is there of some; and how many of these may wait.
MOST_WRITING: Final = 4
MOST_HASHING: Final = 2
MOST_TO_HASH: Final = 64
# Seconds after which there may be room again.
_SOON: Final = "60"
_FULL: Final = "the disk of the server is full; free some space there, then try again"
_NEW: Final = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
_APPENDED: Final = os.O_WRONLY | os.O_APPEND


class RefusedError(Exception):
    """A request is refused: a message, the status and headers."""

    def __init__(self, message: str, status: int, **headers: str) -> None:
        super().__init__(message)
        self.message, self.status = message, status
        self.headers = headers


@dataclass
class Room:
    """Bytes that a user is sending: those that weren't added to its day yet, and of these, those still to come."""

    user: str
    whole: int
    left: int


@dataclass
class _Turn:
    """Requests that send the same file: only the latest one may write."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    owner: object = None
    users: int = 0


class Receiver:
    """Receives files for a queue, within the limits of the settings."""

    def __init__(self, queue: PushQueue, folder: Path, settings: Settings) -> None:
        self.queue = queue
        self._folder, self._settings = folder, settings
        self._rooms: list[Room] = []
        self._turns: dict[Path, _Turn] = {}
        self.threads = Threads("uploads", MOST_WRITING)
        self._hashing = Turns(MOST_HASHING, MOST_TO_HASH)
        self._hashing_threads = Threads("hashing", MOST_HASHING)

    @property
    def most_bytes(self) -> int:
        """The most bytes of a file."""
        return self._settings.file_megabytes * MEGABYTE

    def too_large(self, name: str) -> RefusedError:
        """Return the refusal of a file."""
        most = self._settings.file_megabytes
        text = f"{name}: larger than {most:,} MB; raise the limit of the server: etq serve --max-file-megabytes"
        return RefusedError(text, 413, connection="close")

    @asynccontextmanager
    async def room(self, user: str, count: int) -> AsyncIterator[Room]:
        """Provide room for so many bytes of a user, which count for its day as far as they were sent.

        Raises `RefusedError` if that is more than it may send, or than there is room for.
        """
        sent, waiting = await self.threads.run(self._counted, user)
        room = Room(user, count, count)
        self._check(room, sent, waiting)
        self._rooms.append(room)
        try:
            yield room
        finally:
            self._rooms.remove(room)
            if room.whole > room.left:
                await self.threads.run(self.queue.note_sent, user, room.whole - room.left)

    def _counted(self, user: str) -> tuple[int, int]:
        return self.queue.sent_today(user), self.queue.waiting_bytes()

    def _check(self, room: Room, sent: int, waiting: int) -> None:
        day = self._settings.day_gigabytes
        if sent + room.whole + sum(each.whole for each in self._rooms if each.user == room.user) > day * GIGABYTE:
            left = 86_400 - int(time.time()) % 86_400
            text = f"{room.user} may send {day:g} GB on a day of UTC; go on tomorrow, or raise --max-day-gigabytes"
            raise RefusedError(text, 429, retry_after=str(left), connection="close")
        coming = room.left + sum(each.left for each in self._rooms)
        most = self._settings.waiting_gigabytes
        if waiting + coming > most * GIGABYTE:
            text = f"files of {most:g} GB wait to be stored; try again later, or raise --max-waiting-gigabytes"
            raise RefusedError(text, 507, retry_after=_SOON, connection="close")
        if free_bytes(self._folder) - coming < LEFT_FREE:
            raise RefusedError(_FULL, 507, retry_after=_SOON, connection="close")

    def offset(self, user: str, sha256: str) -> tuple[int, bool]:
        """Return how many bytes of a file are there, and whether these are all.

        A file without its row (the disk was full, or it is about to be removed) isn't there: no capture could have it.
        """
        is_there = bool(self.queue.there([sha256]))
        for path, is_whole in ((self.queue.path(sha256), True), (self.queue.partial(user, sha256), False)):
            if is_there or not is_whole:
                with suppress(FileNotFoundError):
                    return path.stat().st_size, is_whole
        return 0, False

    async def receive(self, request: Request, user: str, sha256: str) -> None:
        """Receive the file that is a request's body, or the rest of it. What came of it stays if the connection ends.

        Raises `RefusedError` for a wrong hash, a wrong offset and what is beyond the limits.
        """
        count = length_of(request)
        given = request.headers.get(OFFSET, "0")
        offset = int(given) if given.isdecimal() and len(given) < 20 else 0
        if offset + count > self.most_bytes:
            raise self.too_large(sha256)
        path = self.queue.partial(user, sha256)
        async with self.room(user, count) as room:
            with self._turn(path) as turn:
                turn.owner = mine = object()
                async with turn.lock:
                    part = await self._begun(user, path, offset)
                try:
                    async for block in blocks(request):
                        async with turn.lock:
                            _check_owner(turn, mine, part)
                            await self.threads.run(part.write, block)
                        room.left -= len(block)
                    async with turn.lock:
                        _check_owner(turn, mine, part)
                        await self.threads.run(part.finish, sha256)
                        await self.threads.run(self.queue.receive, user, sha256, path, room.whole)
                        room.whole = room.left = 0
                finally:
                    part.file.close()

    async def _begun(self, user: str, path: Path, offset: int) -> Part:
        """As `_part`: to read what is there of a file again takes seconds, in which users take turns.

        Raises `BusyError` if many wait.
        """
        if not offset:
            return await self.threads.run(self._part, user, path, 0)
        async with self._hashing.of(user):
            return await self._hashing_threads.run(self._part, user, path, offset)

    def _part(self, user: str, path: Path, offset: int) -> Part:
        """Return the file that a part is written to. Raises `RefusedError` unless it has as many bytes as `offset`."""
        if offset == 0:
            self.queue.make_room_for_partial(user)
            return Part(path)
        size = path.stat().st_size if path.exists() else 0
        if size != offset:
            raise RefusedError(f"{size:,} bytes are there; go on from there", 409, upload_offset=str(size))
        return Part(path, goes_on=True)

    @contextmanager
    def _turn(self, path: Path) -> Iterator[_Turn]:
        turn = self._turns.setdefault(path, _Turn())
        turn.users += 1
        try:
            yield turn
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[path]


class Part:
    """A file that is being received."""

    def __init__(self, path: Path, *, goes_on: bool = False) -> None:
        self.path = path
        self.digest = hashlib.sha256()
        if goes_on:
            with path.open("rb") as there:
                while block := there.read(AT_ONCE):
                    self.digest.update(block)
        self.file: BinaryIO = os.fdopen(os.open(path, _APPENDED if goes_on else _NEW, 0o600), "wb", buffering=0)

    def write(self, block: bytes) -> None:
        """Add bytes. Raises `RefusedError` if the disk is full."""
        self.digest.update(block)
        left = memoryview(block)
        try:
            while left:
                left = left[self.file.write(left) :]
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise RefusedError(_FULL, 507, retry_after=_SOON, connection="close") from None

    def finish(self, sha256: str | None = None) -> None:
        """Write the file to the disk. If it isn't the one of that hash, it is removed, and `RefusedError` raised."""
        os.fsync(self.file.fileno())
        if sha256 not in (None, self.digest.hexdigest()):
            self.path.unlink()
            raise RefusedError(f"what was sent has another SHA-256 than {sha256}; send the file again", 422)


async def blocks(request: Request) -> AsyncIterator[bytes]:
    """Yield the parts of a request's body, of a size that is fit to be written. The client has time for each of them.

    Raises `ClientDisconnect` if the connection ends, after what came before.
    """
    connection = request.scope["state"].get("connection")
    block = bytearray()
    try:
        async for each in request.stream():
            block += each
            if len(block) >= AT_ONCE:
                yield bytes(block)
                block.clear()
                if connection is not None:
                    connection.extend()
    except ClientDisconnect:
        if block:
            yield bytes(block)
        raise
    if block:
        yield bytes(block)


def length_of(request: Request) -> int:
    """Return how many bytes a request's body has. Raises `RefusedError` for one that doesn't say it."""
    given = request.headers.get("content-length", "")
    if not given.isdecimal() or len(given) > 19:
        raise RefusedError("the length isn't given; send Content-Length", 411, connection="close")
    return int(given)


def _check_owner(turn: _Turn, mine: object, part: Part) -> None:
    if turn.owner is not mine:
        # Two programs of a user may send the same file: with the offset, this one goes on when it has looked for it.
        offset = str(part.file.tell())
        raise RefusedError("another request sends this file", 409, connection="close", upload_offset=offset)
