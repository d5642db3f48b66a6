"""Checks that a warehouse's file has etq's tables, and rows that queries can handle.

A file may come from anyone. Its tables must have the columns, defaults and constraints of this version, without indexes
and triggers, and none may be a view. Other tables, views and macros of the file replace nothing: see
`etq.database.library`.

The check reads all keys of events, which takes longer than opening the file. So the user's cache lists the files that
passed, with properties that change whenever the file changes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import duckdb

from etq import catalog
from etq.database.cursors import database_of
from etq.database.library import files
from etq.database.neighbours import log_of
from etq.database.rows import check_rows
from etq.errors import WarehouseError
from etq.version import VERSION

_TABLES: Final = """
    SELECT lower(t.table_name), t.sql FROM system.main.duckdb_tables() AS t
    WHERE t.database_name = $database AND t.schema_name = 'main'
"""
_ADDED: Final = """
    SELECT 'index' AS kind, x.index_name
    FROM system.main.duckdb_indexes() AS x
    WHERE x.database_name = $database AND lower(x.table_name) IN (SELECT unnest($tables))
    UNION ALL
    SELECT 'trigger', x.trigger_name FROM system.main.duckdb_triggers() AS x WHERE x.database_name = $database
    ORDER BY ALL
"""

# The end of the note on a file with this version's views and macros.
_OWN: Final = " own"


def check(connection: duckdb.DuckDBPyConnection, path: str, database: str | None = None) -> None:
    """Check the database of a connection, or an attached one.

    Raises `WarehouseError` if a table is missing or differs from etq's, and for rows that queries can't handle.
    """
    name = database or database_of(connection)
    found = dict(connection.execute(_TABLES, {"database": name}).fetchall())
    for table, sql in _expected().items():
        if found.get(table) != sql:
            what = "has other columns" if table in found else "is missing"
            found_so = f"not a warehouse of etq, or damaged: the table {table!r} {what}"
            raise WarehouseError(f"{path}: {found_so}; use a copy of it, or ingest its files into another")
    for kind, added in connection.execute(_ADDED, {"database": name, "tables": [*_expected()]}).fetchall():
        raise WarehouseError(
            f"{path}: has the {kind} {added!r}, which a warehouse can't have; ask its author for another"
        )
    prefix = f"{catalog.identifier(name)}.main."
    _check_keys(connection, path, prefix)
    check_rows(connection, path, prefix)
    if database is None:
        note_passed(path, is_own=False)


@cache
def _expected() -> dict[str, str]:
    """Return the text of each table's definition as DuckDB has it."""
    with duckdb.connect(":memory:") as connection:
        for table in catalog.tables():
            connection.execute(table.statement)
        return dict(connection.execute(_TABLES, {"database": "memory"}).fetchall())


def refuse_computed(connection: duckdb.DuckDBPyConnection, path: str, database: str | None = None) -> None:
    """Raise `WarehouseError` for a table with a generated column or a CHECK, which DuckDB computes when it reads or
    copies the table: in somebody else's file, such a computation may never end. etq's tables have none.
    """
    query = """
        SELECT t.table_name FROM system.main.duckdb_tables() AS t
        WHERE t.database_name = $database AND NOT t.temporary AND (
            contains(t.sql, 'GENERATED ALWAYS AS') OR EXISTS (
                FROM system.main.duckdb_constraints() AS c
                WHERE c.database_oid = t.database_oid AND c.table_oid = t.table_oid AND c.constraint_type = 'CHECK'
            )
        )
        ORDER BY ALL LIMIT 1
    """
    for (name,) in connection.execute(query, {"database": database or database_of(connection)}).fetchall():
        what = f"the table {name!r} has a generated column or a CHECK, which would be computed"
        raise WarehouseError(f"{path}: {what}; drop the table, or make it without them")


def _check_keys(connection: duckdb.DuckDBPyConnection, path: str, prefix: str) -> None:
    """Raise `WarehouseError` if two captures, records or programs have the same key, name or content."""
    for kind in ("capture", "record", "program"):
        for column in (f"{kind}_id", "name", "sha256"):
            query = f"SELECT {column}::VARCHAR FROM {prefix}{kind}s GROUP BY {column} HAVING count(*) > 1 LIMIT 1"
            for (value,) in connection.execute(query).fetchall():
                raise WarehouseError(f"{path}: damaged: several {kind}s have the {column} {value!r}; use a copy of it")


def note_passed(path: str, *, is_own: bool) -> None:
    """Note in the cache that a file's content was checked, or written by this process after a check; and if it
    `is_own`, that its views and macros are those of this version.
    """
    with suppress(OSError):
        if (state := _state(path)) is None:
            return
        note = _note_of(path)
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        import tempfile

        with tempfile.TemporaryDirectory(dir=note.parent, prefix="making-", ignore_cleanup_errors=True) as making:
            new = Path(making) / note.name
            new.write_text(state + (_OWN if is_own else ""), encoding="utf-8")
            new.replace(note)


def has_passed(path: str) -> bool:
    """Whether a file is unchanged since its content was checked."""
    try:
        state = _state(path)
        return state is not None and _noted(path) in (state, state + _OWN)
    except (OSError, ValueError):
        return False


def has_own(path: str) -> bool:
    """Whether this version made a file, with its views and macros, and nothing else has changed it since."""
    try:
        state = _state(path)
        return state is not None and _noted(path) == state + _OWN
    except (OSError, ValueError):
        return False


def _noted(path: str) -> str:
    return _note_of(path).read_text(encoding="utf-8")


def _note_of(path: str) -> Path:
    # There are at most 4,096 notes; if two files share a note, it is about the file that was opened last.
    name = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:3]
    from platformdirs import user_cache_path

    return user_cache_path("etq") / f"passed-{name}.txt"


def _state(path: str) -> str | None:
    """Return properties that change with a file, and the versions that the check depends on.

    None if a write-ahead log is next to the file.
    """
    if log_of(path).exists():
        return None
    file, library = Path(path).stat(), files().library
    state = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
    # A package of the same version may be rebuilt in the same place with other views.
    return " ".join([*map(str, (*state, library.stat().st_mtime_ns)), VERSION, str(library), duckdb.__version__])
