"""A warehouse's database. Each thread has its own connection; one thread at a time writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock, get_ident, local
from typing import Any, TypeVar
from weakref import WeakSet

import duckdb

from etq.database import contents, cursors, library, limited, schema
from etq.database.connection import NOTHING_FREED, explained, is_lake_path
from etq.database.locking import WriteLock, identity, note_opened, seconds_to_wait
from etq.errors import WarehouseError

Result = TypeVar("Result")


class _OfThread:
    """A thread's connection, to be used while its lock is held: from a query until its rows are fetched."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.lock = RLock()


class Database:
    """The open database of the file at `path`, or, if it is None, one in memory.

    The thread that opens it uses its first connection; each other thread gets a cursor, another connection to it. So
    no thread waits for another's query, and a result is read on the connection of the thread that reads it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: str | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.file = None if path is None else identity(path)
        # Whether several threads run queries: then storing doesn't lower their memory limit.
        self.is_shared = False
        # Whether statements of a caller may have dropped or changed tables: the next one that opens the file checks it.
        self.is_altered = False
        self._first: _OfThread | None = _OfThread(connection)
        self._opener = get_ident()
        self._own = local()
        self._others: WeakSet[_OfThread] = WeakSet()
        self._write_lock = WriteLock(path)
        self._has_snapshot = False
        # Held while connections are made or closed.
        self._replacing = RLock()
        note_opened(self)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """This thread's connection. Raises `WarehouseError` after the database was closed."""
        return self._of_thread().connection

    @property
    def lock(self) -> RLock:
        """The lock of this thread's connection. Raises as `connection` does."""
        return self._of_thread().lock

    def _of_thread(self) -> _OfThread:
        if get_ident() == self._opener:
            return self._of_opener()
        own = getattr(self._own, "connection", None)
        if own is None or own not in self._others:
            own = self._own.connection = self._another()
        return own

    def _of_opener(self) -> _OfThread:
        if self._first is None:
            with self._replacing:  # by another thread, perhaps
                if self._first is None:
                    raise WarehouseError(f"{self.path or 'the warehouse in memory'} is closed")
        return self._first

    def _another(self) -> _OfThread:
        if not self.is_shared:
            with self._write_lock:  # storing has lowered the memory limit
                self.is_shared = True
        with self._replacing:
            made = _OfThread(cursors.cursor(self._of_opener().connection))
            self._others.add(made)
        return made

    @contextmanager
    def alone(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide the only connection, to replace the file; other threads wait until the block ends.

        Raises as `connection` does, and `WarehouseError` for queries of other threads that take longer than `etq.open`
        waits.
        """
        with self._write_lock, self._replacing:
            first = self._of_opener()
            with self._idle(first, seconds_to_wait()):
                self._close_others(seconds_to_wait())
                yield first.connection

    @property
    def is_open(self) -> bool:
        """Whether the database is open."""
        return self._first is not None

    def close(self) -> None:
        """Close the database, once the queries of other threads have ended; has no effect if it is closed already."""
        with self._replacing:
            if self._first is None:
                return
            connection = self._first.connection
            is_own = cursors.is_own(connection)
            self._close_others(-1)
            self._first = None
        limited.when_ended(partial(_close, connection))
        if self.path is not None and not self.read_only and not self.is_altered:
            contents.note_passed(self.path, is_own=is_own)

    def _close_others(self, seconds: float) -> None:
        """Close the connections of other threads; they get new ones on their next query."""
        for each in list(self._others):
            with self._idle(each, seconds):
                _close_when_idle(each.connection)
                self._others.discard(each)

    @contextmanager
    def _idle(self, each: _OfThread, seconds: float) -> Iterator[None]:
        """Hold a thread's connection once its queries have ended; -1 seconds wait for ever."""
        if not each.lock.acquire(timeout=seconds):
            raise WarehouseError(f"{self.path}: another thread queries it; try again when its query has ended")
        try:
            yield
        finally:
            each.lock.release()

    def reopen(self, connect: Callable[[str], duckdb.DuckDBPyConnection]) -> None:
        """Connect again after the file was replaced."""
        assert self.path is not None, "a database in memory has no file"
        self._first = _OfThread(connect(self.path))
        self.file = identity(self.path)

    def forget(self) -> None:
        """Mark the database as closed after the owner of its connection has closed it."""
        self._first = None

    def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises `duckdb.Error`."""
        with self.lock:
            return self.connection.execute(query, parameters).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Have this thread's queries read one state of the database, until the block ends or one of them fails.

        Functions that are registered within the block can't be called in it.
        """
        self.connection.execute("BEGIN TRANSACTION READ ONLY")
        self._has_snapshot = True
        try:
            yield
        finally:
            self.end_snapshot()

    def end_snapshot(self) -> None:
        """End the snapshot, if there is one: after an error, DuckDB refuses all further statements in it."""
        if self._has_snapshot:
            self._has_snapshot = False
            self.connection.rollback()

    def check_writable(self) -> None:
        """Raise `WarehouseError` if the database is read-only."""
        if self.read_only and self.path is not None and is_lake_path(self.path):
            raise WarehouseError(f"{self.path}: this command does not change a lake; add captures with: etq lake add")
        if self.read_only:
            raise WarehouseError(f"{self.path}: opened read-only; open it for writing")

    def write(self, work: Callable[[], Result], *, frees: bool = False) -> Result:
        """Run `work` in a transaction of its own and return its result. If it raises an error, nothing is written.

        With `frees`, the error for a full disk says that even work that frees space needs some.

        Raises `WarehouseError` for a database that is read-only or can't be written, and what `work` raises.
        """
        self.check_writable()
        try:
            with self.writing():
                return schema.in_transaction(self.connection, work)
        except duckdb.Error as error:
            path = self.path or "memory"
            text = explained(path, error, NOTHING_FREED) if frees else explained(path, error)
            raise WarehouseError(f"{path}: {text}") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the locks for writing, and check that the file is the one that was opened, before and after.

        Raises `WarehouseError` if the file was removed or replaced.
        """
        with self._write_lock, self.lock:
            self._check_file()
            yield
            self._check_file()

    def _check_file(self) -> None:
        if self.path is not None and identity(self.path) != self.file:
            raise WarehouseError(
                f"{self.path}: removed or replaced while it was open, and writes to it are lost; open it again"
            )


def _close(connection: duckdb.DuckDBPyConnection) -> None:
    _close_when_idle(connection)
    library.detach(connection)


def _close_when_idle(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection as soon as other threads have read its result, because DuckDB refuses to close it earlier."""
    while True:
        try:
            connection.close()
        except duckdb.ResourceInUseException:
            time.sleep(0.01)
        else:
            return
