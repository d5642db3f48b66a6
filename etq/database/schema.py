"""The schema of a warehouse: creates its tables, views and macros, and keeps the definitions up to date."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import duckdb

from etq import catalog
from etq.database import contents, functions, template
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION, VERSION

# When a macro is created, DuckDB binds its body and the bodies of all macros that it calls, up to the first value of
# unknown type. Most bodies begin by resolving captures. While macros are created, a placeholder of unknown type
# replaces the macro that resolves captures, which halves the time to create a warehouse.
_CREATED_LAST: Final = "_capture_id"
_PLACEHOLDER: Final = "CREATE OR REPLACE {} _capture_id(capture) AS (capture)"

# From this many objects on, creating them each time costs more over a few commands than making the template once.
_MANY: Final = 100

Result = TypeVar("Result")


def create(connection: duckdb.DuckDBPyConnection, reads: Sequence[str] | None = None) -> None:
    """Create the tables, views and macros in an empty database, with their documentation, and write the versions. From
    then on the connection has access only to the databases `reads`, unless they are None.

    This is one transaction. Raises `duckdb.Error` if the database can't be written.
    """
    with template.attached(connection, create_all, reads) as source:
        in_transaction(connection, lambda: _fill(connection, source))


def _fill(connection: duckdb.DuckDBPyConnection, source: str | None) -> None:
    if source is None:
        create_all(connection)
    else:
        _copy(connection, source)
    write_version(connection)


def _copy(connection: duckdb.DuckDBPyConnection, source: str) -> None:
    [(target,)] = connection.execute("SELECT current_database()").fetchall()
    connection.execute(f"COPY FROM DATABASE {source} TO {catalog.identifier(target)}")


def create_all(connection: duckdb.DuckDBPyConnection) -> None:
    """Create each table, view and macro in an empty database, with its documentation."""
    _execute_all(connection, (table.statement for table in catalog.tables()))
    document_tables(connection)
    define(connection)


def write_version(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the versions of the schema, the definitions and etq into the table `warehouse`."""
    connection.execute(
        "INSERT INTO warehouse VALUES (?, ?, ?, now()::TIMESTAMP)",
        [SCHEMA_VERSION, catalog.definitions_hash(), VERSION],
    )


def create_only(
    connection: duckdb.DuckDBPyConnection, names: Iterable[str], existing: Container[str] = ()
) -> list[catalog.SqlObject]:
    """Create these objects and what they need, except for the `existing` ones, in a temporary database.

    An empty database gets all objects, from the template, if many are needed. Returns the objects that were created.
    """
    needed = [definition for definition in catalog.needed_for(names) if definition.name not in existing]
    if len(needed) > _MANY and not existing:
        with template.attached(connection, create_all) as source:
            if source is not None:
                _copy(connection, source)
                return [*catalog.objects().values()]
    _execute_all(connection, _statements(needed, temporary=False))
    return needed


def define(connection: duckdb.DuckDBPyConnection, *, temporary: bool = False) -> None:
    """Create all views and macros, replacing existing ones; as temporary objects if the file can't be written."""
    made = [known for known in catalog.objects().values() if known.kind != "table"]
    _execute_all(connection, _statements(made, temporary=temporary))
    if not temporary:
        _execute_all(connection, _drops(connection))
        _execute_all(connection, (comment for definition in made for comment in definition.comments()))


def define_temporary(
    connection: duckdb.DuckDBPyConnection, names: Iterable[str], existing: Container[str]
) -> list[catalog.SqlObject]:
    """Create these views and macros and what they need as temporary ones, except for the `existing` ones, and return
    them. In an empty database, create all, with the tables.
    """
    if is_empty(connection):
        _create_temporary(connection)
        return [*catalog.objects().values()]
    known = catalog.needed_for(names)
    needed = [each for each in known if each.kind != "table" and each.name not in existing]
    _execute_all(connection, _statements(needed, temporary=True))
    return needed


def update_definitions(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    *,
    read_only: bool,
    external_access: bool = False,
    postpone: Callable[[bool], None] | None = None,
) -> None:
    """Check an existing warehouse, and replace its views and macros if another version of etq made them.

    In a read-only database they are temporary. `postpone` is called instead, and the caller creates those that each
    query needs, as all take a second, or all at once, if its argument is true: other views in the database use them, or
    it is empty, as a killed process leaves it, which is an empty warehouse.

    Raises `WarehouseError` for a database that is not a warehouse, for a warehouse of another schema, and for one whose
    views or macros were changed; with `external_access`, also for one with the user's own views or macros.
    """
    has_passed = not external_access and contents.has_passed(path)
    if read_only and not has_passed and is_empty(connection):
        if postpone is None:
            _create_temporary(connection)
        else:
            postpone(True)
        return
    version, definitions = _versions(connection, path, is_table=has_passed)
    if version != SCHEMA_VERSION:
        raise WarehouseError(other_version(path, version))
    if has_passed and definitions == catalog.definitions_hash():
        return
    is_current = contents.has_definitions(connection, path, create_all, only_etq=external_access)
    if not is_current and definitions == catalog.definitions_hash():
        raise WarehouseError(f"{path}: its views or macros were changed; ingest the files again into a new warehouse")
    if is_current:
        return
    if read_only:
        if postpone is None:
            define(connection, temporary=True)
        else:
            postpone(contents.has_own_definitions(connection))
        return

    def refresh() -> None:
        define(connection)
        contents.check_names(connection, path)
        connection.execute(
            "UPDATE warehouse SET sql_sha256 = ?, etq_version = ?", [catalog.definitions_hash(), VERSION]
        )

    in_transaction(connection, refresh)


def _create_temporary(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables, views and macros as temporary ones: the process that made the file ended before it did."""
    tables = (table.statement.replace("CREATE TABLE", "CREATE TEMP TABLE", 1) for table in catalog.tables())
    _execute_all(connection, tables)
    define(connection, temporary=True)
    write_version(connection)


def other_version(path: str, version: int) -> str:
    """Return why a warehouse with tables of another version is refused."""
    return (
        f"{path}: has tables of version {version}, and this etq reads version {SCHEMA_VERSION}; ingest the files again"
    )


def _versions(connection: duckdb.DuckDBPyConnection, path: str, *, is_table: bool) -> tuple[Any, Any]:
    """Return the versions of the schema and of the definitions that a database states.

    Unless `is_table`, checks first that `warehouse` is a table and not a view.
    """
    query = "SELECT 1 FROM system.main.duckdb_tables() WHERE database_name = $name AND table_name = 'warehouse'"
    try:
        [(name,)] = connection.execute("SELECT system.main.current_database()").fetchall()
        if not is_table and not connection.execute(query, {"name": name}).fetchall():
            raise ValueError
        [row] = connection.execute("SELECT schema_version, sql_sha256 FROM main.warehouse").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException, ValueError):
        raise WarehouseError(f"{path}: a DuckDB database, but not a warehouse of etq; name another file") from None
    version, definitions = row
    if not isinstance(version, int) or version < 0:
        raise WarehouseError(f"{path}: damaged: its schema is of version {version!r}; use a copy of the file")
    return version, definitions


def is_empty(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a database holds neither tables nor views."""
    tables, views = "system.main.duckdb_tables()", "system.main.duckdb_views()"
    query = f"SELECT 1 FROM {tables} UNION ALL SELECT 1 FROM {views} WHERE NOT internal LIMIT 1"
    return not connection.execute(query).fetchall()


def in_transaction(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Run `work` in a transaction and return its result; roll back if it raises."""
    connection.execute("BEGIN")
    try:
        result = work()
        connection.execute("COMMIT")
        return result
    except BaseException:
        # A commit that failed for lack of space has already ended the transaction, or the connection.
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise


def _statements(made: Iterable[catalog.SqlObject], *, temporary: bool) -> Iterator[str]:
    """Yield the statements that create these objects."""
    last: catalog.SqlObject | None = None
    for definition in made:
        if definition.kind == "table":
            yield definition.statement
        elif definition.name == _CREATED_LAST:
            last = definition
            yield _PLACEHOLDER.format("TEMP MACRO" if temporary else "MACRO")
        else:
            yield definition.replacing(temporary=temporary)
    if last is not None:
        yield last.replacing(temporary=temporary)


def _drops(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the statements that drop what earlier versions of etq made for their own queries: documented, unlike
    most people's, and with a name that begins with an underscore.
    """
    query = """
        SELECT DISTINCT f.function_type, f.function_name FROM duckdb_functions() AS f
        WHERE f.database_name = current_database() AND f.schema_name = 'main' AND f.comment IS NOT NULL
            AND starts_with(f.function_name, '_') AND f.function_type IN ('macro', 'table_macro')
        UNION ALL
        SELECT 'view', v.view_name FROM duckdb_views() AS v
        WHERE v.database_name = current_database() AND v.schema_name = 'main' AND v.comment IS NOT NULL
            AND starts_with(v.view_name, '_')
        ORDER BY ALL
    """
    words = {"macro": "MACRO", "table_macro": "MACRO TABLE", "view": "VIEW"}
    known = catalog.names()
    return [
        f"DROP {words[kind]} main.{catalog.identifier(name)}"
        for kind, name in connection.execute(query).fetchall()
        if name.lower() not in known
    ]


def document_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the documentation of the tables into the catalogue."""
    _execute_all(connection, (comment for table in catalog.tables() for comment in table.comments()))


def _execute_all(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    text = ";\n".join(statements)
    if functions.PREFIX in text:
        functions.register(connection)
    connection.execute(text)
