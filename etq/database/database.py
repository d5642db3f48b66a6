"""A warehouse's DuckDB connection, shared by threads: one query at a time, and one writer of a file at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import duckdb

from etq.database import contents, cursors, library, limited, schema
from etq.database.connection import NOTHING_FREED, explained, is_lake_path
from etq.database.locking import WriteLock, identity, note_opened
from etq.errors import WarehouseError

Result = TypeVar("Result")


class Database:
    """An open connection to the file at `path`, or, if it is None, to a database in memory."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: str | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        # A connection has one open result at a time: hold this lock from a query until its rows are fetched.
        self.lock = RLock()
        self._connection: duckdb.DuckDBPyConnection | None = connection
        self.file = None if path is None else identity(path)
        self._write_lock = WriteLock(path)
        note_opened(self)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection. Raises `WarehouseError` once it is closed."""
        if self._connection is None:
            raise WarehouseError(f"{self.path or 'the warehouse in memory'} is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._connection is not None

    def close(self) -> None:
        """Close the connection; has no effect if it is closed already."""
        if self._connection is not None:
            is_own = cursors.is_own(self._connection)
            limited.when_ended(partial(_close, self._connection))
            self._connection = None
            if self.path is not None and not self.read_only:
                contents.note_passed(self.path, is_own=is_own)

    def reopen(self, connect: Callable[[str], duckdb.DuckDBPyConnection]) -> None:
        """Connect again after the file was replaced."""
        assert self.path is not None, "a database in memory has no file"
        self._connection = connect(self.path)
        self.file = identity(self.path)

    def forget(self) -> None:
        """Mark the connection as closed, as its owner has closed it."""
        self._connection = None

    def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises `duckdb.Error`."""
        with self.lock:
            return self.connection.execute(query, parameters).fetchall()

    def check_writable(self) -> None:
        """Raise `WarehouseError` if the database is read-only."""
        if self.read_only and self.path is not None and is_lake_path(self.path):
            raise WarehouseError(f"{self.path}: this command does not change a lake; add captures with: etq lake add")
        if self.read_only:
            raise WarehouseError(f"{self.path}: opened read-only; open it for writing")

    def write(self, work: Callable[[], Result], *, frees: bool = False) -> Result:
        """Run `work` in a transaction of its own and return its result. If it raises an error, nothing is written.

        With `frees`, the error on a full disk is about work that frees space.

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
        with self.lock, self._write_lock:
            self._check_file()
            yield
            self._check_file()

    def _check_file(self) -> None:
        if self.path is not None and identity(self.path) != self.file:
            raise WarehouseError(
                f"{self.path}: removed or replaced while it was open, and writes to it are lost; open it again"
            )


def _close(connection: duckdb.DuckDBPyConnection) -> None:
    connection.close()
    library.detach(connection)
