"""Empty warehouses in memory, which tests use one after the other, and copies of files.

Opening one takes ten times as long as creating the tables again that a test has filled. Their rows are not just deleted:
DuckDB would keep their statistics, by which it orders joins, and so the rows of an answer that has no order.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

import etq
from etq import catalog
from etq.database import contents
from etq.database.cursors import database_of
from etq.warehouse.warehouse import Warehouse

_unused: list[Warehouse] = []

_TABLES = {each.name: each.statement for each in catalog.tables()}


@contextmanager
def empty_warehouse() -> Iterator[Warehouse]:
    """Provide an empty warehouse in memory.

    It is reused if the block ends without an error and leaves no other tables and views. A test that changes anything
    else, such as settings and macros, must open another warehouse. The tables may lack comments.
    """
    warehouse = _unused.pop() if _unused else etq.open()
    try:
        yield warehouse
    except BaseException:
        warehouse.close()
        raise
    if _is_empty_again(warehouse):
        _unused.append(warehouse)
    else:
        warehouse.close()


def _is_empty_again(warehouse: Warehouse) -> bool:
    """Replace the tables that have rows by new ones, if the warehouse is open and has etq's own tables and views only."""
    of_it = "WHERE database_name IN ('temp', ?) AND NOT internal"
    tables = f"SELECT table_name, estimated_size FROM duckdb_tables() {of_it}"
    views = f"SELECT view_name FROM duckdb_views() {of_it}"
    try:
        connection = warehouse.connection
        name = [database_of(connection)]
        sizes = connection.execute(tables, name).fetchall()
        # Temporary ones may have the names of etq's own.
        names = (
            sorted(name for name, _ in sizes),
            sorted(name for (name,) in connection.execute(views, name).fetchall()),
        )
        if names != (sorted(_TABLES), []):
            return False
        filled = [name for name, size in sizes if size > 0 and name != "warehouse"]
        made = (f"DROP TABLE {name}; {_TABLES[name]}" for name in filled)
        connection.execute(";\n".join(["BEGIN", *made, "COMMIT"]))
    except (duckdb.Error, etq.EtqError):
        return False
    return True


def copy_of(path: str | Path, to: Path) -> Path:
    """Copy a warehouse's file that this version has made. As nothing else has changed the copy, etq neither checks it nor
    attaches its library, which would double the time of opening it.
    """
    made = Path(shutil.copy(path, to))
    contents.note_passed(str(made), is_own=True)
    return made
