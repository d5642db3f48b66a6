"""Memory of a process of the server, which returns it to the system as soon as it is free."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

# DuckDB's allocator keeps what is freed, by default up to 512 MB, for itself. The plan of a comparison takes 50 MB.
_KEPT_BY_DUCKDB: Final = "1MiB"


def keep_little(connection: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB return the memory of each query once the query ends, rather than that of all with the connection."""
    connection.execute(f"SET allocator_bulk_deallocation_flush_threshold = '{_KEPT_BY_DUCKDB}'")


def give_back() -> None:
    """Return free memory to the system, where the C library can."""
    gc.collect()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def megabytes() -> float:
    """Return the resident memory of this process in MB of 2**20 bytes; 0 where that isn't known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE") / 2**20
