"""The folder of a team's server, with its SQLite database."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from etq.database.connection import expanded, is_lake_path
from etq.errors import EtqError

# The version of the tables.
VERSION: Final = 1
DATABASE: Final = "server.sqlite"
# Seconds to wait for another process that writes.
WAIT: Final = 30.0


def folder_of(path: str, given: str | None = None) -> Path | None:
    """Return the folder of the server of a warehouse: the given one, or that beside a file. None for a lake."""
    if given is not None:
        return Path(expanded(given))
    path = expanded(path)
    return None if is_lake_path(path) else Path(f"{path}.team")


class TeamFolder:
    """A folder with the server's database. Each thread and process uses connections of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether it was made."""
        return (self.path / DATABASE).is_file()

    def make(self) -> None:
        """Make it, unless it exists: only its owner can read it. Raises `EtqError` if that isn't possible."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path / DATABASE, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise EtqError(f"{self.path}: {(error.strerror or str(error)).lower()}; choose another folder") from error
        with closing(self._connected()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            _create_tables(connection)

    @contextmanager
    def reading(self, wait: float = WAIT) -> Iterator[sqlite3.Connection]:
        """Provide a connection. Raises `EtqError` for a database of another version, and one that can't be read.

        wait  seconds to wait for another process that writes
        """
        try:
            with closing(self._connected(wait)) as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version != VERSION:
                    raise EtqError(f"{self.path}: made by another version of etq ({version}); use that one")
                yield connection
        except sqlite3.Error as error:
            raise EtqError(f"{self.path / DATABASE}: {error}") from error

    @contextmanager
    def writing(self, wait: float = WAIT) -> Iterator[sqlite3.Connection]:
        """Provide a connection within a transaction, which is on the disk when the block has ended. Raises as
        `reading`.
        """
        with self.reading(wait) as connection, _transaction(connection):
            yield connection

    def _connected(self, wait: float = WAIT) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path / DATABASE, timeout=wait, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


class InMemory(TeamFolder):
    """What a server without a folder keeps until it ends. Threads use its one connection one after the other."""

    exists = True

    def __init__(self) -> None:
        super().__init__(Path(":memory:"))
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        _create_tables(self._connection)

    @contextmanager
    def reading(self, wait: float = WAIT) -> Iterator[sqlite3.Connection]:
        """Provide the connection, to one thread."""
        with self._lock:
            yield self._connection


def _create_tables(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        # Those that an earlier version of etq lacked are added.
        if connection.execute("PRAGMA user_version").fetchone() in ((0,), (VERSION,)):
            for statement in (files("etq.team") / "schema.sql").read_text(encoding="utf-8").split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
