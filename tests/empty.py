"""Empty warehouses in memory, made several times as fast as `etq.open()` makes one."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import duckdb

import etq
from etq.warehouse import Warehouse


@cache
def _template() -> Path:
    """The file of an empty warehouse, made once a process."""
    folder = tempfile.mkdtemp(prefix="etq-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "empty.duckdb"
    etq.open(path).close()
    return path


def empty_warehouse() -> Warehouse:
    """A warehouse in memory, as `etq.open()` gives it: copied, which leaves out that DuckDB checks each macro."""
    connection = duckdb.connect(":memory:")
    connection.execute(f"ATTACH '{_template()}' AS template (READ_ONLY)")
    connection.execute("COPY FROM DATABASE template TO memory")
    connection.execute("DETACH template")
    return Warehouse(connection, None)
