"""Compacting a warehouse: rewrites its file to give back free space."""

from __future__ import annotations

import os
import time
from pathlib import Path

import duckdb

from etq.database import cursors
from etq.database.connection import NOTHING_FREED, connect, explained
from etq.database.database import Database
from etq.database.locking import PAUSES, seconds_to_wait
from etq.database.neighbours import log_of
from etq.database.publishing import fsync_folder, private_folder
from etq.errors import WarehouseError
from etq.maintenance.copying import copy_whole


def compact(database: Database) -> tuple[int, int]:
    """Rewrite the file of a database; return its bytes before and after. Errors are those of `Warehouse.compact`."""
    if database.path is None or database.read_only:
        raise WarehouseError(f"{database.path or 'a warehouse in memory'} can't be compacted: not a file to write to")
    with database.alone() as connection:
        path = Path(database.path).resolve()
        is_own = cursors.is_own(connection)
        try:
            with private_folder(path) as folder:
                fresh = Path(folder) / path.name
                before = _write_anew(database, connection, path, fresh)
                _put_in_place(fresh, path, before)
        except duckdb.Error as error:
            raise WarehouseError(f"{database.path}: {explained(database.path, error, NOTHING_FREED)}") from error
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise WarehouseError(f"{database.path}: can't be compacted: {what}") from error
        finally:
            if not database.is_open:
                database.reopen(lambda path: connect(path, False, is_own=is_own))
        return before.st_size, path.stat().st_size


def _write_anew(
    database: Database, open_connection: duckdb.DuckDBPyConnection, path: Path, fresh: Path
) -> os.stat_result:
    """Copy the whole database to a new file. Returns the status of the old file at that time.

    The copy needs a separate connection, because the connection of an open warehouse can access no other files.
    """
    open_connection.execute("CHECKPOINT")
    open_connection.close()
    database.forget()
    before = path.stat()
    copy_whole(str(path), fresh)
    return before


def _put_in_place(fresh: Path, path: Path, before: os.stat_result) -> None:
    """Replace the old file by the new one, once no other process reads it, unless one has written to it meanwhile.

    Raises `WarehouseError` if one has, or `OSError`; the old file then stays.
    """
    import fcntl

    with path.open("r+b") as old, fresh.open("rb") as new:
        end = time.monotonic() + seconds_to_wait()
        while True:
            try:
                fcntl.lockf(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= end:
                    raise WarehouseError(f"{path}: another process has it open; the file was not changed") from None
                time.sleep(PAUSES[1])
        now = path.stat()
        is_same = (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
        if not is_same or log_of(str(path)).exists():
            raise WarehouseError(f"{path}: another process wrote to it; the file was not changed")
        os.fsync(new.fileno())
        fresh.chmod(before.st_mode & 0o777)
        fresh.replace(path)
    fsync_folder(path.parent)
