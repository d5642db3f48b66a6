"""Files to read: their bytes, paths and hashes."""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Thread
from typing import IO, BinaryIO, Final

from etq.database.locking import refuse_open
from etq.errors import FormatError, MissingFileError, displayed, path_of
from etq.ingest import stores
from etq.storage.large_file import CHANGED, LargeFile, state_of, unreadable

# Files of more bytes than this are read in parts, or copied and mapped, instead of being read into memory.
SMALL: Final = 64 * 2**20
# How many bytes are copied at once: reused memory needs no new pages.
_AT_ONCE: Final = 2**18
# How many bytes of a file in a store are asked for at once.
_PART: Final = 2**23


class Source:
    """A file's bytes and path. The bytes don't change even if the file does."""

    def __init__(self, content: bytes | mmap.mmap | LargeFile, path: str, copy: int | None = None) -> None:
        self.content = content
        self._copy = copy
        if copy is not None:
            weakref.finalize(self, os.close, copy)
        self.path = path
        self.uri = displayed(path)  # as given, for messages
        self._digest: str | None = None
        self._hashing: Thread | None = None

    @classmethod
    def known(cls, sha256: str, path: str, content: bytes = b"") -> Source:
        """Return a file that is identified by a given hash; without content if the warehouse has it."""
        source = cls(content, path)
        source._digest = sha256
        return source

    def named(self, path: str) -> Source:
        """Return this source with the path that it has at its origin."""
        self.path = path
        self.uri = displayed(path)
        return self

    @property
    def place(self) -> str:
        """The place of the file, as it is stored.

        It is the path relative to the current folder if the file is below it, otherwise only the name: so a warehouse
        that is handed on doesn't reveal its maker's folders. The address of a file in a store stays as it is.
        """
        if stores.is_address(self.path):
            return displayed(self.path)
        try:
            inside = os.path.relpath(self.path)
        except (OSError, ValueError):  # the current folder was removed, or the file is on another drive
            inside = os.pardir
        is_outside = inside == os.pardir or inside.startswith(os.pardir + os.sep)
        return displayed(os.path.basename(self.path) if is_outside else inside)  # noqa: PTH119

    def start_hashing(self) -> None:
        """Start computing the hash on another thread, unless it was started before."""
        if self._hashing is None:
            self._hashing = Thread(target=self._hash_ahead)
            self._hashing.start()

    def skip_hashing(self) -> None:
        """Don't compute the hash: it is the empty text."""
        self._digest = ""

    @property
    def sha256(self) -> str:
        """The hash of the content, which identifies it."""
        if self._hashing is not None:
            self._hashing.join()
        if self._digest is None:
            self._hash()
        assert self._digest is not None
        return self._digest

    def _hash_ahead(self) -> None:
        # If the file has changed, `sha256` raises the error again.
        with suppress(FormatError):
            self._hash()

    def _hash(self) -> None:
        if self._copy is not None:
            # Reading through the memory map would keep the whole file in memory.
            with open(os.dup(self._copy), "rb") as copy:
                copy.seek(0)
                self._digest = file_digest(copy, "sha256").hexdigest()
        elif isinstance(self.content, LargeFile):
            self._digest = self.content.sha256()
        else:
            self._digest = sha256(self.content).hexdigest()


def source_of(file: str | os.PathLike[str] | bytes) -> Source:
    """Return a file, given by its path, its address in a store or its bytes, as a source to read from.

    Raises `FormatError` for a file that can't be read, and for a file that changes while it is read; `WarehouseError`
    for a warehouse that this process has open; `StoreError` for a store that can't be read.
    """
    if isinstance(file, bytes):
        return Source(file, "bytes")
    path = path_of(file)
    if stores.is_address(path):
        return _source_in_store(path)
    refuse_open(path)
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode) and not os.path.isdir(path):
            raise FormatError(path, "can't be read: not a regular file; save what it has as a file, and name that")
        with Path(path).open("rb") as opened:
            before = state_of(opened.fileno())
            source = _read(opened, path) if before[0] <= SMALL else _large(opened, path)
            if state_of(opened.fileno()) != before or len(source.content) != before[0]:
                raise FormatError(displayed(path), CHANGED)
            return source
    except FileNotFoundError as error:
        raise MissingFileError(displayed(path)) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _read(file: BinaryIO, path: str) -> Source:
    return Source(file.read(), path)


def _large(file: BinaryIO, path: str) -> Source:
    """Return a source of a large file. Text is read in parts; readers of other formats need random access in memory."""
    from etq.ingest.registry import is_json

    large = LargeFile(file, path)
    return Source(large, path) if is_json(large) else _copied(file, path)


def _copied(file: BinaryIO, path: str) -> Source:
    """Return a source that maps a private copy of the file, which is deleted when this process ends.

    If another process truncated a mapped file itself, reading beyond its new end would kill this process.
    """
    # If temporary files are in memory, the copy takes as much memory as reading the file would.
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, _AT_ONCE)
        copy.flush()
        return _mapped(copy, path)


def _mapped(copy: IO[bytes], path: str) -> Source:
    return Source(mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ), path, os.dup(copy.fileno()))


def _source_in_store(address: str) -> Source:
    """Return a source of a file in a store: a large one is copied to a temporary file, which is private, and is deleted
    when it is read.
    """
    with stores.opened(address) as file:
        size = int(file.size())
        has_parts = size > _PART  # a file read in one part is of one moment
        before = stores.state_of(address) if has_parts else None
        parts = iter(lambda: bytes(file.read(_PART)), b"")
        source = Source(b"".join(parts), address) if size <= SMALL else _downloaded(parts, size, address)
        is_same = not has_parts or stores.state_of(address) == before
    if not is_same or len(source.content) != size or stores.size_of(address) != size:
        raise FormatError(displayed(address), CHANGED)
    return source


def _downloaded(parts: Iterable[bytes], size: int, address: str) -> Source:
    """Return a source of a copy of a large file in a store. Raises `FormatError` where there is no room for it."""
    from etq.ingest.registry import is_json

    folder = tempfile.gettempdir()
    room = f"needs {size / 1e6:,.0f} MB in {displayed(folder)}; free some, or set TMPDIR to a folder with more"
    if shutil.disk_usage(folder).free < size:
        raise FormatError(displayed(address), room)
    with tempfile.TemporaryFile() as copy:
        for part in parts:
            try:
                copy.write(part)
                copy.flush()
            except OSError as error:
                raise FormatError(displayed(address), room) from error
        large = LargeFile(copy, address)
        return Source(large, address) if is_json(large) else _mapped(copy, address)


def traces_of(files: Iterable[str | os.PathLike[str] | bytes]) -> tuple[Source, ...]:
    """Return traces, given by their paths or bytes; of a folder, those in it.

    Raises `FormatError` for a file that can't be read, and for a folder without traces.
    """
    found: list[Source] = []
    for file in files:
        if isinstance(file, bytes) or not os.path.isdir(file):
            found.append(source_of(file))
            continue
        paths = sorted(path for path in Path(file).iterdir() if path.name.endswith((".json", ".json.gz")))
        if not paths:
            raise FormatError(displayed(os.fspath(file)), "has no traces (.json, .json.gz)")
        found += map(source_of, paths)
    return tuple(found)
