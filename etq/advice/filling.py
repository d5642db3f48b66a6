"""Advice as rows of the table `all_advice`, which is written with the rollups of captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import duckdb

from etq.advice.collecting import COLUMNS, TRACE, Row, rows_of, rows_of_dumps, rows_of_trace
from etq.database import rollups

_NUMBERS: Final = {"capture_id": "INTEGER", "place": "INTEGER", "time_at_stake": "DOUBLE", "share_percent": "DOUBLE"}
_KEYS: Final = ("capture_id", "place")
# The keys of captures whose advice was written, of ephemeral databases.
_written: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, set[int]]] = WeakKeyDictionary()


def fill_rollups(
    connection: duckdb.DuckDBPyConnection, capture_id: int, last_id: int | None = None, *, is_new: bool = False
) -> None:
    """Write the rollups of captures, as `etq.database.rollups` does, and the advice about them."""
    rollups.fill_rollups(connection, capture_id, last_id, is_new=is_new, advise=_advise)


def _advise(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    """Write the advice about a trace, or about all dumps from one key up to another."""
    query = "SELECT 1 FROM captures AS c WHERE c.capture_id = ? AND c.format = ?"
    if connection.execute(query, [first, TRACE]).fetchall():
        write(connection, {first: rows_of_trace(connection, first)})
    else:
        write(connection, rows_of_dumps(connection, first, last))


def as_query(rows: Sequence[Row], names: Sequence[str] = COLUMNS) -> tuple[str, dict[str, list[Any]]]:
    """Return rows as a query, with its parameters."""
    columns = [f"unnest(${name}::{_NUMBERS.get(name, 'VARCHAR')}[]) AS {name}" for name in names]
    values = [*map(list, zip(*rows, strict=True))] if rows else [[] for _ in names]
    return f"SELECT {', '.join(columns)}", dict(zip(names, values, strict=True))


def write(connection: duckdb.DuckDBPyConnection, advice: Mapping[int, Sequence[Row]]) -> None:
    """Write the rows about captures."""
    rows = [(key, place, *row) for key, of_capture in advice.items() for place, row in enumerate(of_capture, 1)]
    if rows:
        query, parameters = as_query(rows, (*_KEYS, *COLUMNS))
        connection.execute(f"INSERT INTO {rollups.ADVICE} BY NAME {query}", parameters)


def write_once(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the advice about the files in an ephemeral database, in which nothing is computed ahead."""
    written = _written.setdefault(connection, set())
    for (key,) in connection.execute("SELECT c.capture_id FROM captures AS c ORDER BY ALL").fetchall():
        if key not in written:
            write(connection, {key: rows_of(connection, key)})
            written.add(key)
