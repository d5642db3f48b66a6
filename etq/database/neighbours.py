"""Files that DuckDB opens next to a warehouse: its log and its temporary folder. A received warehouse may come with
them.

DuckDB follows links and waits for pipes. So these names are checked before it opens anything.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq.errors import WarehouseError

# The log, and the files that DuckDB 2.0 writes during a checkpoint, and during recovery from a crashed checkpoint.
LOGS: Final = (".wal", ".wal.checkpoint", ".wal.recovery")
# Intermediate results of queries that exceed the memory limit.
FOLDER: Final = ".tmp"


def log_of(path: str) -> Path:
    """Return the path of a warehouse's log. DuckDB puts it next to the target of a link."""
    return Path(f"{os.path.realpath(path)}{LOGS[0]}")


def check_neighbours(path: str) -> None:
    """Raise `WarehouseError` if a file next to a warehouse isn't of the kind that DuckDB puts there."""
    for base in dict.fromkeys((path, os.path.realpath(path))):
        for ending in (*LOGS, FOLDER):
            neighbour = Path(base + ending)
            try:
                mode = neighbour.lstat().st_mode
            except FileNotFoundError:
                continue
            except OSError as error:
                raise WarehouseError(f"{neighbour}: can't be read: {(error.strerror or str(error)).lower()}") from error
            if not (stat.S_ISDIR if ending == FOLDER else stat.S_ISREG)(mode):
                what = "not a folder" if ending == FOLDER else "not a regular file"
                raise WarehouseError(f"{neighbour}: {what}; move it away, then open the warehouse again")


def check_free(path: str) -> None:
    """Raise `WarehouseError` if files exist where DuckDB would put its own next to a new warehouse."""
    for ending in (*LOGS, FOLDER):
        if os.path.lexists(path + ending):
            raise WarehouseError(
                f"{path}{ending}: left by a process that was killed; open that warehouse, or move it away"
            )


def remove_temporary(path: str) -> None:
    """Remove leftovers of killed processes' queries from a warehouse's temporary folder, and the folder if it is then
    empty.

    The caller has opened the warehouse for writing, so no other process uses the folder.
    """
    folder = Path(os.path.realpath(path) + FOLDER)
    with suppress(OSError):
        for left in folder.glob("duckdb_temp_*"):
            if not left.name.startswith(f"duckdb_temp_{os.getpid()}_"):
                left.unlink()
        folder.rmdir()
