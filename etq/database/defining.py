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
        self._defined: set[str] = set()

    def define(self, names: Iterable[str]) -> None:
        """Create the objects of these names and what they use, and fill the tables, unless they exist."""
        if new := [name for name in names if name not in self._defined]:
            created = self._create(self._connection, new, self._defined)
            self._defined.update(made.name for made in created)
            self._fill([made.name for made in created if made.kind == "table"])

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
