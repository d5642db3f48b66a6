"""Files that DuckDB opens next to a warehouse: its log and its temporary folder. A received warehouse may bring them.

DuckDB follows links and waits for pipes. So these names are checked before it opens anything.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq.errors import WarehouseError

# The log; and what DuckDB 2.0 writes while it checkpoints, and while it recovers from a crash of that.
LOGS: Final = (".wal", ".wal.checkpoint", ".wal.recovery")
# Results of queries that take more memory than they may.
FOLDER: Final = ".tmp"


def log_of(path: str) -> Path:
    """Return the path of a warehouse's log. DuckDB has it next to the file that a link leads to."""
    return Path(f"{os.path.realpath(path)}{LOGS[0]}")


def check_neighbours(path: str) -> None:
    """Raise `WarehouseError` if something next to a warehouse isn't what DuckDB puts there."""
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
    """Raise `WarehouseError` if something lies where DuckDB would put files next to a new warehouse."""
    for ending in (*LOGS, FOLDER):
        if os.path.lexists(path + ending):
            raise WarehouseError(
                f"{path}{ending}: left by a process that was killed; open that warehouse, or move it away"
            )


def remove_temporary(path: str) -> None:
    """Remove what queries of killed processes left in the temporary folder of a warehouse, and the folder if it is
    empty then.

    The caller has opened the warehouse for writing, so no other process uses the folder.
    """
    folder = Path(os.path.realpath(path) + FOLDER)
    with suppress(OSError):
        for left in folder.glob("duckdb_temp_*"):
            if not left.name.startswith(f"duckdb_temp_{os.getpid()}_"):
                left.unlink()
        folder.rmdir()
