"""A connection that creates etq's tables, views and macros when a statement first names them: in a database in memory,
or as temporary ones in a warehouse that has those of another version and is only read.

To create all of them takes longer than most commands; no caller needs to know which ones its queries use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

import duckdb

from etq import catalog
from etq.database import functions, schema

Create = Callable[[duckdb.DuckDBPyConnection, Collection[str], Collection[str]], list[catalog.SqlObject]]


class _DefiningConnection:
    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        named_in: Callable[[str], Iterable[str]],
        create: Create,
        fill: Callable[[Collection[str]], None],
    ) -> None:
        self._connection = self.defined_on = connection
        self._named_in = named_in
        self._create = create
        self._fill = fill
        self._existing: set[str] = set()
        self._defined: set[str] = set()  # those of them that have all that they use

    def define(self, names: Iterable[str]) -> None:
        """Create the objects of these names and what they use, and fill the tables, unless they exist."""
        if new := [name for name in names if name not in self._defined]:
            created = self._create(self._connection, new, self._existing)
            names_created = [made.name for made in created]
            self._existing.update(names_created)
            self._defined.update(new, names_created)
            self._fill([made.name for made in created if made.kind == "table"])

    def empty(self) -> None:
        """Drop tables and views; macros stay, as to create them takes longest."""
        functions.release(self._connection)
        self._fill = lambda tables: None
        self._existing = {name for name in self._existing if catalog.named(name).kind not in ("table", "view")}
        self._defined = set()
        query = """
            SELECT v.view_name, 'VIEW', v.temporary FROM duckdb_views() AS v WHERE NOT v.internal
            UNION ALL
            SELECT t.table_name, 'TABLE', false FROM duckdb_tables() AS t
        """
        for name, kind, is_registered in self._connection.execute(query).fetchall():
            if is_registered:
                self._connection.unregister(name)
            else:
                self._connection.execute(f"DROP {kind} {catalog.identifier(name)}")

    def restart(self, names: Iterable[str], fill: Callable[[Collection[str]], None]) -> None:
        """Do with an emptied database what `defining` does with a new one."""
        self._fill = fill
        self.define(names)

    def execute(self, query: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        self.define(self._named_in(query))
        return self._connection.execute(query, parameters)

    def sql(self, query: str, **options: Any) -> duckdb.DuckDBPyRelation:
        self.define(self._named_in(query))
        return self._connection.sql(query, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _TemporaryConnection(_DefiningConnection):
    def __init__(self, connection: duckdb.DuckDBPyConnection, *, at_once: bool) -> None:
        super().__init__(connection, catalog.mentioned_in, schema.define_temporary, lambda tables: None)
        self._at_once = at_once
        if at_once:
            self.define(catalog.names())

    def cursor(self) -> _TemporaryConnection:
        # Temporary objects are those of one connection. Functions are registered before the cursor has a transaction,
        # which a function that is there already would abort, and with the connection that stays.
        cursor = self._connection.cursor()
        for connection in (self._connection, cursor):
            functions.register(connection)
        return _TemporaryConnection(cursor, at_once=self._at_once)


def defining(
    connection: duckdb.DuckDBPyConnection,
    names: Iterable[str] = (),
    fill: Callable[[Collection[str]], None] = lambda tables: None,
) -> duckdb.DuckDBPyConnection:
    """Return such a connection to an empty database.

    names  objects to create at once
    fill   called with the names of tables that were created
    """
    made = _DefiningConnection(connection, catalog.named_in, schema.create_only, fill)
    made.define(names)
    return cast("duckdb.DuckDBPyConnection", made)


def defining_temporary(connection: duckdb.DuckDBPyConnection, *, at_once: bool) -> duckdb.DuckDBPyConnection:
    """Return such a connection to a warehouse of another version of etq's SQL, whose own views and macros it hides, or
    to an empty database. Its cursors are such connections, too.

    at_once  create all objects now
    """
    return cast("duckdb.DuckDBPyConnection", _TemporaryConnection(connection, at_once=at_once))


def empty(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop the tables and views of a connection that `defining` returned, for `restart`."""
    cast("_DefiningConnection", connection).empty()


def restart(
    connection: duckdb.DuckDBPyConnection, names: Iterable[str], fill: Callable[[Collection[str]], None]
) -> None:
    """Do with an emptied database what `defining` does with an empty one."""
    cast("_DefiningConnection", connection).restart(names, fill)
