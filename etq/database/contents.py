"""Checks that a warehouse's file has etq's tables, views and macros, and that nothing replaces them.

A file may come from anyone. Its tables must have the columns, defaults and constraints of this version, its views and
macros the same text: a view in place of a table, or a macro with the name of a built-in function, would run as part of
every query. A file may also have the user's own tables, views and macros, as long as they replace nothing.

The check compares all definitions, which takes longer than opening the file. So the user's cache lists the files that
passed, with properties that change whenever a file does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import duckdb

from etq import catalog
from etq.database import template
from etq.database.neighbours import log_of
from etq.database.rows import check_rows
from etq.errors import WarehouseError

# Functions are called by their full names, as macros of the file may have the same names. Objects are found by the name
# of the database, as a crafted file may mark its own objects as internal.
_OBJECTS: Final = """
    SELECT 'table' AS kind, schema_name AS "schema", table_name AS name, '' AS parameters, sql AS definition
    FROM system.main.duckdb_tables() WHERE database_name = $database
    UNION ALL
    SELECT 'view', schema_name, view_name, '', sql FROM system.main.duckdb_views() WHERE database_name = $database
    UNION ALL
    SELECT function_type, schema_name, function_name, parameters::VARCHAR, macro_definition
    FROM system.main.duckdb_functions() WHERE database_name = $database
    UNION ALL
    SELECT 'type', schema_name, type_name, '', ''
    FROM system.main.duckdb_types() WHERE database_name = $database AND NOT internal
    UNION ALL
    SELECT 'trigger', schema_name, trigger_name, '', ''
    FROM system.main.duckdb_triggers() WHERE database_name = $database
    UNION ALL
    SELECT 'index', schema_name, index_name, '', ''
    FROM system.main.duckdb_indexes()
    WHERE database_name = $database AND lower(schema_name) = 'main' AND lower(table_name) IN (SELECT unnest($tables))
    ORDER BY ALL
"""
_BUILT_IN: Final = """
    SELECT function_name FROM system.main.duckdb_functions() WHERE database_name = 'system'
    UNION ALL SELECT type_name FROM system.main.duckdb_types() WHERE database_name = 'system'
"""
_MACROS: Final = frozenset({"macro", "table_macro"})
_PASSED: Final = "passed"


@dataclass(frozen=True)
class _Objects:
    """What a database contains: hashes of etq's tables, and of etq's views and macros;
    all other objects by kind and name.
    """

    tables: str
    definitions: str
    others: tuple[tuple[str, str, str], ...]


def has_definitions(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    create: Callable[[duckdb.DuckDBPyConnection], None],
    *,
    database: str | None = None,
    only_etq: bool = False,
) -> bool:
    """Whether the views and macros of a connection's database are those of this version. None of them is executed.

    create    function that fills an empty database, for comparison
    database  name of an attached database, by default the current one
    only_etq  whether to reject views and macros of the user, too

    Raises `WarehouseError` if a table is missing or not as etq creates it, and if anything replaces what etq uses.
    """
    found = _objects(connection, database)
    expected = _expected(create)
    if found.tables != expected[0]:
        raise WarehouseError(f"{path}: not a warehouse of etq, or damaged: {_first_wrong_table(connection, database)}")
    _check_rest(connection, path, database, found.others, only_etq=only_etq)
    is_current = found.definitions == expected[1]
    if is_current and database is None:
        note_passed(path)
    return is_current


def has_own_definitions(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a database has views or macros that are not etq's."""
    return any(kind in _MACROS | {"view"} for kind, _, _ in _objects(connection, None).others)


def check_names(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Raise `WarehouseError` if something of another kind has the name of one of etq's views and macros, which were
    just created.
    """
    kinds = {"table macro": "table_macro", "scalar macro": "macro"}
    expected = {each.name: kinds.get(each.kind, each.kind) for each in catalog.objects().values()}
    for kind, name in _of_main(connection):
        if expected.get(name.lower(), kind) != kind:
            raise _taken(path, kind, name)


def _of_main(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each table, view and macro of a connection's database."""
    [(database,)] = connection.execute("SELECT system.main.current_database()").fetchall()
    for kind, schema, name, *_ in connection.execute(_OBJECTS, {"database": database, "tables": []}).fetchall():
        if schema.lower() == "main" and kind in _MACROS | {"table", "view"}:
            yield kind, name


def _taken(path: str, kind: str, name: str) -> WarehouseError:
    return WarehouseError(
        f"{path}: has the {kind.replace('_', ' ')} {name!r}, a name that this version of etq uses; rename it with the "
        "version that made the file"
    )


def _check_rest(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    database: str | None,
    others: Iterable[tuple[str, str, str]],
    *,
    only_etq: bool = False,
) -> None:
    """Raise `WarehouseError` for others' objects and rows that queries can't be made on."""
    _check_others(connection, path, others, only_etq=only_etq)
    _check_keys(connection, path, database)
    prefix = "main." if database is None else f"{database}.main."
    check_rows(connection, path, prefix)


def _check_others(
    connection: duckdb.DuckDBPyConnection, path: str, others: Iterable[tuple[str, str, str]], *, only_etq: bool
) -> None:
    built_in: set[str] | None = None
    for kind, schema, name in others:
        shown = f"{kind.replace('_', ' ')} {name!r}"
        if kind in ("trigger", "index"):
            raise WarehouseError(f"{path}: has the {shown}, which a warehouse can't have; ask its author for another")
        if kind in _MACROS and schema.lower() != "main":
            raise WarehouseError(f"{path}: has the {shown} in the schema {schema!r}; a macro must be in main")
        if only_etq and kind in _MACROS | {"view"}:
            raise WarehouseError(f"{path}: has the {shown}, which is not etq's; open it without external access")
        if kind in _MACROS | {"type"}:
            if built_in is None:
                built_in = {each.lower() for (each,) in connection.execute(_BUILT_IN).fetchall()}
            if name.lower() in built_in:
                raise WarehouseError(f"{path}: has the {shown}, which replaces DuckDB's; ask its author for another")


def refuse_computed(connection: duckdb.DuckDBPyConnection, path: str, database: str | None = None) -> None:
    """Raise `WarehouseError` for a table with a generated column or a CHECK, which DuckDB computes when it reads or
    copies the table: somebody else may have written one that never ends. etq's tables have none.
    """
    given = "system.main.current_database()" if database is None else catalog.quoted(database)
    query = f"""
        SELECT t.table_name FROM system.main.duckdb_tables() AS t
        WHERE t.database_name = {given} AND NOT t.temporary AND (
            contains(t.sql, 'GENERATED ALWAYS AS') OR EXISTS (
                FROM system.main.duckdb_constraints() AS c
                WHERE c.database_oid = t.database_oid AND c.table_oid = t.table_oid AND c.constraint_type = 'CHECK'
            )
        )
        ORDER BY ALL LIMIT 1
    """
    for (name,) in connection.execute(query).fetchall():
        what = f"the table {name!r} has a generated column or a CHECK, which would be computed"
        raise WarehouseError(f"{path}: {what}; drop the table, or make it without them")


def _check_keys(connection: duckdb.DuckDBPyConnection, path: str, database: str | None) -> None:
    """Raise `WarehouseError` if two captures, records or programs have the same key, name or content."""
    prefix = "main." if database is None else f"{database}.main."
    for kind in ("capture", "record", "program"):
        for column in (f"{kind}_id", "name", "sha256"):
            query = f"SELECT {column}::VARCHAR FROM {prefix}{kind}s GROUP BY {column} HAVING count(*) > 1 LIMIT 1"
            for (value,) in connection.execute(query).fetchall():
                raise WarehouseError(f"{path}: damaged: several {kind}s have the {column} {value!r}; use a copy of it")


def _objects(connection: duckdb.DuckDBPyConnection, database: str | None) -> _Objects:
    if database is None:
        [(database,)] = connection.execute("SELECT system.main.current_database()").fetchall()
    known = catalog.names()
    tables, definitions = sha256(), sha256()
    others = []
    given = {"database": database, "tables": [each.name for each in catalog.tables()]}
    for kind, schema, name, parameters, definition in connection.execute(_OBJECTS, given).fetchall():
        is_etqs = schema.lower() == "main" and name.lower() in known and kind not in ("type", "trigger", "index")
        if not is_etqs:
            others.append((kind, schema, name))
            continue
        digest = tables if kind == "table" else definitions
        digest.update("\0".join((kind, name, parameters or "", definition or "", "")).encode())
    return _Objects(tables.hexdigest(), definitions.hexdigest(), tuple(others))


def _first_wrong_table(connection: duckdb.DuckDBPyConnection, database: str | None) -> str:
    """Return the name of the first table that is missing or not as etq creates it."""
    query = "SELECT table_name, sql FROM system.main.duckdb_tables() WHERE schema_name = 'main' AND database_name = "
    name = "system.main.current_database()" if database is None else catalog.quoted(database)
    found = {name.lower(): sql for name, sql in connection.execute(query + name).fetchall()}
    with duckdb.connect(":memory:") as other:
        for table in catalog.tables():
            if table.name not in found:
                return f"the table {table.name!r} is missing"
            other.execute(table.statement)
            [(sql,)] = other.execute("SELECT sql FROM duckdb_tables() WHERE table_name = ?", [table.name]).fetchall()
            if sql != found[table.name]:
                return f"the table {table.name!r} has other columns"
    return "it has a table in place of a view"


def _expected(create: Callable[[duckdb.DuckDBPyConnection], None]) -> tuple[str, str]:
    """Return two hashes of an empty database that `create` filled: of its tables, and of its views and macros."""
    return _created(create, catalog.definitions_hash())


@cache
def _created(create: Callable[[duckdb.DuckDBPyConnection], None], definitions: str) -> tuple[str, str]:
    note: Path | None = None
    with suppress(OSError, RuntimeError):
        note = template.cache_folder() / f"contents-{definitions[:16]}-duckdb-{duckdb.__version__}.txt"
        words = note.read_text(encoding="utf-8").split()
        if len(words) == 2:
            return words[0], words[1]
    with template.filled(create) as connection:
        found = _objects(connection, None)
    if note is not None:
        with suppress(OSError):
            template.write_note(note, f"{found.tables} {found.definitions}\n")
    return found.tables, found.definitions


def note_passed(path: str) -> None:
    """Note in the cache that a file's content was checked, or written by this process after a check."""
    with suppress(OSError, RuntimeError):
        if state := _state(path):
            template.write_note(_note_of(path), state)


def has_passed(path: str) -> bool:
    """Whether a file is unchanged since its content was checked."""
    try:
        state = _state(path)
        return state is not None and _note_of(path).read_text(encoding="utf-8") == state
    except (OSError, RuntimeError, ValueError):
        return False


def _note_of(path: str) -> Path:
    # There are at most 256 notes; if two files share a note, it is about the file that was opened last.
    name = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:2]
    return template.cache_folder() / f"{_PASSED}-{name}.txt"


def _state(path: str) -> str | None:
    """Return a hash of what changes with a file and of the versions that the check depends on.

    None if a write-ahead log is next to the file.
    """
    if log_of(path).exists():
        return None
    file = Path(path).stat()
    state = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
    return " ".join([*map(str, state), catalog.definitions_hash(), duckdb.__version__])
