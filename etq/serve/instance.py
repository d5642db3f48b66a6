"""The warehouse of a server: one instance of DuckDB, on which each request has a cursor, and one thread writes.

It is opened by a request, and closed after a while without requests, so that other processes, such as a backup or `etq
ingest`, can open the file.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final, TypeVar

import duckdb

from etq.database import functions
from etq.database.connection import is_invalidated, is_lake_path
from etq.database.cursors import cursor
from etq.database.database import Database
from etq.database.limited import has_left
from etq.database.locking import HeldError
from etq.errors import EtqError, WarehouseError
from etq.ingest.memory import available
from etq.warehouse.warehouse import Warehouse
from etq.warehouse.warehouse import open as open_warehouse

# Seconds without requests after which the file is closed.
IDLE: Final = 2.0
# If the file has been open for this many seconds, it is closed between two requests, and stays closed for the second
# number of seconds, because another process may wait for it.
LONGEST: Final = 10.0
PAUSE: Final = 0.2
# How long a request, and how long the writer, waits for another process that holds the file, in seconds.
WAIT: Final = 10.0
WAIT_TO_WRITE: Final = 30.0
# Seconds that an ending process waits for captures that are being stored, because queries that can't be interrupted may
# hold DuckDB's threads; and seconds for sending the answers about stored captures.
_STORING: Final = 10.0
_ANSWERING: Final = 0.5

# With less memory, even small warehouses can't be queried.
_LEAST_MEMORY: Final = 2**28
# Memory for Python, the libraries and the threads' stacks, in addition to that for queries and pushes.
_BESIDE: Final = 2**30

Result = TypeVar("Result")


class Instance:
    """The warehouse or lake at a path. If it `is_writable`, captures that are sent are stored in it.

    All queries and pushes together may take half of the memory that is free at its creation.
    """

    def __init__(self, path: str, *, is_writable: bool) -> None:
        self.path = path
        self._memory = max(_LEAST_MEMORY, available() // 2)
        self._is_writable = is_writable
        # The first lock guards the fields. The second is held while the file is opened; other threads may wait for it.
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._opened: Warehouse | None = None
        self._opened_at = self._closed_at = 0.0
        self._users = 0
        self._timer: threading.Timer | None = None
        self._writer = ThreadPoolExecutor(1, "writer")
        self._last: Future[Any] | None = None  # the last work that was given to the writer
        self._is_ending = False

    @contextmanager
    def reading(self, *, is_snapshot: bool = False) -> Iterator[Warehouse]:
        """Provide the warehouse for reading, on a connection of its own; other threads may read and write meanwhile.
        For a lake, or with `is_snapshot`, all queries read one state.

        Raises `WarehouseError` if it can't be opened.
        """
        if is_lake_path(self.path):
            with open_warehouse(self.path, read_only=True) as lake:
                yield lake
            return
        with self._using(WAIT) as warehouse, self._ending_if_unusable():
            connection = cursor(warehouse.connection)
            database = Database(connection, self.path, read_only=True)
            try:
                with database.snapshot() if is_snapshot else nullcontext():
                    yield Warehouse(database)
            finally:
                with suppress(duckdb.Error):  # a query past its time limit frees it later
                    connection.close()

    @contextmanager
    def _ending_if_unusable(self) -> Iterator[None]:
        """End this process if an error has made the database unusable. Raises `HeldError` then: another process can
        answer.
        """
        try:
            yield
        except (EtqError, duckdb.Error) as error:
            if not (is_invalidated(error) or is_invalidated(error.__cause__)):
                raise
            self.end("the database is unusable after an error")
            raise HeldError(
                f"{self.path}: unusable after an error, and another process takes over; try again"
            ) from error

    def confine(self) -> None:
        """Limit the memory of this process, because DuckDB's own limit doesn't cover texts that SQL functions make."""
        with suppress(ImportError, ValueError, OSError):  # on Windows, or if a lower limit is set already
            import resource

            limit = self._memory + _BESIDE
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def write(self, work: Callable[[Warehouse], Result]) -> Future[Result]:
        """Queue work on the warehouse for the writer."""

        def working() -> Result:
            if is_lake_path(self.path):
                raise WarehouseError(
                    f"{self.path}: a lake, which this server only reads; add captures with: etq lake add"
                )
            with self._using(WAIT_TO_WRITE) as warehouse, self._ending_if_unusable():
                return work(warehouse)

        try:
            self._last = found = self._writer.submit(working)
            return found
        except RuntimeError as error:  # the writer takes no more work
            raise HeldError(f"{self.path}: the server's process ends, and another one starts; try again") from error

    def end(self, why: str) -> None:
        """End this process as soon as captures that were sent are stored or have failed. There is no other way to end a
        query that can't be interrupted, or to reopen a database that is in use and that an error has made unusable. The
        server starts another process.
        """
        with self._lock:
            if self._is_ending:
                return
            self._is_ending = True

        def ending() -> None:
            sys.stderr.write(f"{why}: another process takes over\n")
            self._writer.shutdown(wait=False)
            wait([] if self._last is None else [self._last], _STORING)
            time.sleep(_ANSWERING)
            os._exit(1)

        threading.Thread(target=ending, name="ending").start()

    def close(self) -> None:
        """Wait for the writer, and close the file."""
        self._writer.shutdown(cancel_futures=True)
        with self._lock:
            self._close()

    @contextmanager
    def _using(self, wait: float) -> Iterator[Warehouse]:
        warehouse = self._joined() or self._open(wait)
        try:
            yield warehouse
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._close_later()

    def _joined(self) -> Warehouse | None:
        """Return the warehouse if it is open, and count one more user."""
        with self._lock:
            if self._opened is not None:
                self._users += 1
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            return self._opened

    def _open(self, wait: float) -> Warehouse:
        """Open the warehouse, or wait for the thread that is opening it. Raises `WarehouseError`."""
        ends = time.monotonic() + wait
        if not self._opening.acquire(timeout=wait):
            raise HeldError(f"{self.path}: is still being opened; waited {wait:g} s for it")
        try:
            if (warehouse := self._joined()) is not None:
                return warehouse
            time.sleep(max(0.0, self._closed_at + PAUSE - time.monotonic()))
            left = max(0.0, ends - time.monotonic())
            opened = open_warehouse(self.path, read_only=not self._is_writable, wait=left)
            opened.share()
            functions.register(opened.connection)  # this must be set before snapshots begin
            # By default, DuckDB takes 80 % of all memory, even if other processes use it. Queries aren't trusted.
            opened.connection.execute(f"SET memory_limit = '{self._memory}B'")
            if self._is_writable:  # otherwise, closing the file would write the rest of the log while readers wait
                opened.connection.execute("SET wal_autocheckpoint = '1MB'")
            with self._lock:
                self._opened, self._opened_at, self._users = opened, time.monotonic(), 1
            return opened
        finally:
            self._opening.release()

    def _close_later(self) -> None:
        """Close the file after a while without requests. If it has been open for long, close it immediately, because
        other processes may wait.
        """
        is_over = time.monotonic() - self._opened_at > LONGEST and not has_left()
        if is_over:
            self._close()
            return
        self._timer = threading.Timer(IDLE, self._close_if_idle)
        self._timer.daemon = True
        self._timer.start()

    def _close_if_idle(self) -> None:
        with self._lock:
            if self._users or self._opened is None:
                return
            if has_left():
                self._close_later()
            else:
                self._close()

    def _close(self) -> None:
        if self._opened is not None:
            opened, self._opened, self._closed_at = self._opened, None, time.monotonic()
            opened.close()
