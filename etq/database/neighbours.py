"""What DuckDB opens next to a warehouse: its log and its temporary folder. Another user may have put them there.

DuckDB follows links and waits for pipes. So these names are checked before it opens anything.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq.errors import WarehouseError

# The log; and what DuckDB 2.0 writes while it checkpoints, and while it recovers from a crash of that.
LOGS: Final = (".wal", ".wal.checkpoint", ".wal.recovery")
# Results of queries that take more memory than they may.
_FOLDER: Final = ".tmp"


def log_of(path: str) -> Path:
    """Return the path of a warehouse's log. DuckDB has it next to the file that a link leads to."""
    return Path(f"{os.path.realpath(path)}{LOGS[0]}")


def check_neighbours(path: str) -> None:
    """Raise `WarehouseError` if something next to a warehouse isn't what DuckDB puts there, or is another user's.

    Also for a link to no file: a warehouse would be made where the link leads to.
    """
    if Path(path).is_symlink() and not os.path.exists(path):
        raise WarehouseError(f"{path}: a link to a file that does not exist; remove the link")
    for base in dict.fromkeys((path, os.path.realpath(path))):
        for ending in (*LOGS, _FOLDER):
            with suppress(FileNotFoundError):
                _check(base, Path(base + ending), is_folder=ending == _FOLDER)


def check_free(path: str) -> None:
    """Raise `WarehouseError` if something lies where DuckDB would put files next to a new warehouse."""
    for ending in (*LOGS, _FOLDER):
        if os.path.lexists(path + ending):
            raise WarehouseError(
                f"{path}{ending}: left by a process that was killed; open that warehouse, or move it away"
            )


def _check(path: str, neighbour: Path, *, is_folder: bool) -> None:
    """Raises `WarehouseError`, or `FileNotFoundError` if there is nothing."""
    try:
        found = neighbour.lstat()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WarehouseError(f"{neighbour}: can't be read: {(error.strerror or str(error)).lower()}") from error
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(found.st_mode):
        what = "not a folder" if is_folder else "not a regular file"
        raise WarehouseError(f"{neighbour}: {what}; move it away, then open the warehouse again")
    if not is_folder and found.st_nlink > 1:
        raise WarehouseError(f"{neighbour}: a hard link to another file; move it away, then open the warehouse again")
    if sys.platform != "win32" and not _may_write(path, found):
        raise WarehouseError(f"{neighbour}: belongs to another user than the warehouse; move it away")


def _may_write(path: str, neighbour: os.stat_result) -> bool:
    """Whether the owner of a file next to a warehouse may write the warehouse, too."""
    if neighbour.st_uid in (os.geteuid(), 0):
        return True
    try:
        warehouse = Path(path).stat()
    except OSError:
        return False
    is_of_group = bool(warehouse.st_mode & stat.S_IWGRP) and neighbour.st_gid == warehouse.st_gid
    return is_of_group or neighbour.st_uid == warehouse.st_uid or bool(warehouse.st_mode & stat.S_IWOTH)


def remove_temporary(path: str) -> None:
    """Remove what queries of killed processes left in the temporary folder of a warehouse, and the folder if it is
    empty then.

    The caller has opened the warehouse for writing, so no other process uses the folder.
    """
    folder = Path(os.path.realpath(path) + _FOLDER)
    with suppress(OSError):
        for left in folder.glob("duckdb_temp_*"):
            if not left.name.startswith(f"duckdb_temp_{os.getpid()}_"):
                left.unlink()
        folder.rmdir()
