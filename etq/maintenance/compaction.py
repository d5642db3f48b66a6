"""Compacting a warehouse: rewrites its file to give back free space."""

from __future__ import annotations

import glob
import os
import secrets
from pathlib import Path
from typing import Final

import duckdb

from etq.catalog import identifier, quoted
from etq.database import contents, schema
from etq.database.connection import absolute, connect, withdraw_access
from etq.database.database import Database
from etq.database.locking import retry_while_locked
from etq.database.publishing import fsync_folder
from etq.errors import WarehouseError, message_of

# The ending of the new file before it replaces the old one.
_FRESH: Final = ".compact"


def compact(database: Database) -> tuple[int, int]:
    """Rewrite the file of a database; return its bytes before and after. Errors are those of `Warehouse.compact`."""
    if database.path is None or database.read_only:
        raise WarehouseError(f"{database.path or 'a warehouse in memory'} can't be compacted: not a file to write to")
    with database.lock:
        connection, path = database.connection, Path(database.path).resolve()
        for left in path.parent.glob(f"{glob.escape(path.name)}.*{_FRESH}*"):
            left.unlink()  # left by a killed process
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_FRESH}")
        try:
            before = _write_anew(database, connection, path, fresh)
            _put_in_place(fresh, path, before)
        except duckdb.Error as error:
            raise WarehouseError(f"{database.path}: {message_of(error)}") from error
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise WarehouseError(f"{database.path}: can't be compacted: {what}") from error
        finally:
            fresh.unlink(missing_ok=True)
            fresh.with_name(f"{fresh.name}.wal").unlink(missing_ok=True)
            if not database.is_open:
                database.reopen(lambda path: connect(path, False))
        return before.st_size, path.stat().st_size


def _write_anew(
    database: Database, open_connection: duckdb.DuckDBPyConnection, path: Path, fresh: Path
) -> os.stat_result:
    """Copy the whole database to a new file and close the new file. Returns the old file's status at that time.

    The copy needs a connection of its own, as the connection of an open warehouse can access no other files.
    """
    open_connection.execute("CHECKPOINT")
    open_connection.close()
    database.forget()
    before = path.stat()
    with connect(str(fresh), False) as connection:
        [(name,)] = connection.execute("SELECT current_database()").fetchall()
        source = f"_source_{secrets.token_hex(4)}"  # other names may be taken, as the file may have any name
        attach = f"ATTACH {quoted(absolute(path))} AS {source} (READ_ONLY)"
        retry_while_locked(str(path), lambda: connection.execute(attach), yields=False)
        withdraw_access(connection)
        contents.has_definitions(connection, str(path), schema.create_all, database=source)
        connection.execute(f"COPY FROM DATABASE {source} TO {identifier(name)}")
        connection.execute(f"DETACH {source}")
        # Closing a connection writes its log into the file, and doesn't report errors of that.
        connection.execute("CHECKPOINT")
    return before


def _put_in_place(fresh: Path, path: Path, before: os.stat_result) -> None:
    """Replace the old file by the new one, unless another process has opened the old file or has written to it
    meanwhile.

    Raises `WarehouseError` if one has, or `OSError`; the old file then stays.
    """
    import fcntl

    with path.open("r+b") as old, fresh.open("rb") as new:
        try:
            fcntl.lockf(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WarehouseError(f"{path}: another process opened it; the file was not changed") from None
        now = path.stat()
        is_same = (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
        if not is_same or os.path.exists(f"{path}.wal"):
            raise WarehouseError(f"{path}: another process wrote to it; the file was not changed")
        os.fsync(new.fileno())
        fresh.chmod(before.st_mode & 0o777)
        fresh.replace(path)
    fsync_folder(path.parent)
