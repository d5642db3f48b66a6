"""Connecting to a warehouse's file."""

from __future__ import annotations

import os
import re
from typing import Final

import duckdb

from etq.errors import WarehouseError, displayed, message_of

# Files made so are read and written by DuckDB from 1.5 on; blocks of a quarter of the usual size waste less of a file
# of few captures (0.5 MB of 1.6) and of many (1.4 bytes an event of 10.1), and are read as fast.
STORAGE: Final = {"storage_compatibility_version": "v1.5.0", "default_block_size": "65536"}
LOCK_HOLDER: Final = re.compile(r"lock is held in (.+?) \(PID (\d+)\)")


def connect(path: str, read_only: bool) -> duckdb.DuckDBPyConnection:
    """A connection to the file, made where there is none. Raises `WarehouseError` where it can't be opened."""
    if read_only and not os.path.exists(path):
        raise WarehouseError(f"{path}: there is no warehouse; make one with: etq ingest FILE... --db {path}")
    if os.path.isdir(path):
        raise WarehouseError(f"{path}: a folder; a warehouse is a file")
    if displayed(path) != path:
        raise WarehouseError(f"{displayed(path)}: the path of a warehouse must be UTF-8")
    try:
        # A file that exists keeps the storage version that it has.
        return duckdb.connect(path, read_only=read_only, config={} if os.path.exists(path) else dict(STORAGE))
    except duckdb.Error as error:
        text = str(error)
        if (holder := LOCK_HOLDER.search(text)) is not None:
            raise WarehouseError(
                f"{path}: held by another process, {holder[1]} with PID {holder[2]}; wait until it is done or end it"
            ) from error
        if "not a valid DuckDB database file" in text:
            raise WarehouseError(f"{path}: not a DuckDB database; name another file with --db") from error
        raise WarehouseError(f"{path}: {message_of(error)}") from error
