"""Inserting what readers yield into the tables of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import Rows, batch, numbers
from etq.ingest.events.rows import EVENT_TICKS

# The table of most rows, which are inserted while they are decoded.
EVENTS: Final = "event_ticks"
_KEYED_EVENTS: Final = pa.schema([pa.field("capture_id", pa.int32()), *EVENT_TICKS])


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, key: int, rows: pa.RecordBatch, column: str = "capture_id"
) -> None:
    """Insert rows that lack their first key, the column of that name."""
    connection.register("_rows", rows)
    # The key is part of the statement: a parameter would be a column to fill.
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {key:d} AS {column}, * FROM _rows")
    connection.unregister("_rows")


def insert_captures(
    connection: duckdb.DuckDBPyConnection, captures: Iterable[tuple[int, Iterable[tuple[str, Rows]]]]
) -> None:
    """Insert the rows of captures, each given by its capture_id and what is read of it.

    Events are inserted while they are decoded, in one stream; the other tables then, each at once. Raises what reading
    raises.
    """
    # Rows of one table may differ in their Arrow types, as texts have dictionaries or not: each kind by itself.
    others: dict[tuple[str, pa.Schema], list[tuple[int, Rows]]] = {}
    failures: list[BaseException] = []

    def events() -> Iterator[pa.RecordBatch]:
        try:
            for key, reading in captures:
                for table, rows in reading:
                    if table == EVENTS:
                        yield _keyed(key, rows)
                    else:
                        others.setdefault((table, rows.schema), []).append((key, rows))
        except BaseException as error:
            failures.append(error)
            raise

    stream = events()
    first = next(stream, None)
    try:
        if first is not None:
            _insert_keyed(connection, EVENTS, pa.RecordBatchReader.from_batches(_KEYED_EVENTS, chain([first], stream)))
    except duckdb.Error:
        # The decoder's errors pass through the database, which reports only that reading failed.
        if failures:
            raise failures[0] from None
        raise
    for table, schema in [*others]:
        # Rows that were inserted, or made for it, are not kept.
        parts = others.pop((table, schema))
        _insert_keyed(connection, table, pa.Table.from_batches([_keyed(key, rows) for key, rows in parts]))


def set_aside(
    reading: Iterable[tuple[str, Rows]],
    is_aside: Callable[[str, Rows], bool],
    aside: list[tuple[str, Rows]],
) -> Iterator[tuple[str, Rows]]:
    """What is read, without the rows for which `is_aside` is true: these are appended to a list."""
    for table, rows in reading:
        if is_aside(table, rows):
            aside.append((table, rows))
        else:
            yield table, rows


def _insert_keyed(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.RecordBatchReader | pa.Table) -> None:
    connection.register("_rows", rows)
    connection.execute(f"INSERT INTO {table} BY NAME FROM _rows")
    connection.unregister("_rows")


def _keyed(key: int, rows: Rows) -> pa.RecordBatch:
    """Rows with their capture's key as first column."""
    read = rows if isinstance(rows, pa.RecordBatch) else rows.rows
    keys = numbers(np.full(read.num_rows, key, np.int32))
    return batch({"capture_id": keys, **dict(zip(read.schema.names, read.columns, strict=True))})
