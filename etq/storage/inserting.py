"""Inserts the rows that readers yield into the tables of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import Rows, batch, numbers
from etq.ingest.events.own_times import UNSETTLED
from etq.ingest.events.rows import EVENT_TICKS, OWN_TIMES
from etq.ingest.events.run_times import COLUMNS as RUN_TIMES

# The table with most rows: its rows are inserted while they are decoded.
EVENTS: Final = "event_ticks"
_KEYED_EVENTS: Final = pa.schema([pa.field("capture_id", pa.int32()), *EVENT_TICKS])


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, key: int, rows: pa.RecordBatch, column: str = "capture_id"
) -> None:
    """Insert rows that lack their first key column; `column` is its name and `key` its value."""
    connection.register("_rows", rows)
    # The key is a literal in the statement: with a parameter, DuckDB would fill a column row by row.
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {key:d} AS {column}, * FROM _rows")
    connection.unregister("_rows")


def insert_captures(
    connection: duckdb.DuckDBPyConnection, captures: Iterable[tuple[int, Iterable[tuple[str, Rows]]]]
) -> None:
    """Insert the rows of captures, each given by its capture_id and the rows that its reader yields.

    Events are inserted while they are decoded, in one stream; the other tables follow, one statement each. Errors of
    the readers are raised.
    """
    # The Arrow types of a table's rows may differ, because texts may be dictionary-encoded. Rows of each type are
    # inserted separately.
    others: dict[tuple[str, pa.Schema], list[tuple[int, Rows]]] = {}
    unsettled: list[int] = []
    failures: list[BaseException] = []

    def events() -> Iterator[pa.RecordBatch]:
        try:
            for key, reading in captures:
                for table, rows in reading:
                    if table == EVENTS:
                        yield _keyed(key, rows)
                    elif table == UNSETTLED:
                        unsettled.append(key)
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
        # Raise the decoder's own error, because the database would only report that reading failed.
        if failures:
            raise failures[0] from None
        raise
    for table, schema in [*others]:
        # Free the rows that were inserted, and those made for inserting.
        parts = others.pop((table, schema))
        rows = pa.Table.from_batches([_keyed(key, each) for key, each in parts])
        if rows.num_rows:  # planning the statement takes longer than all else of it
            _insert_keyed(connection, table, rows)
        del rows
    for key in unsettled:
        settle(connection, key, key)


def settle(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    """Compute the own times of events and the times of runs again, for all captures in a range of keys."""
    connection.execute(
        f"""
        UPDATE {EVENTS} AS e SET {_set_to(OWN_TIMES)} FROM _find_own_times({first:d}, {last:d}) AS o
        WHERE e.capture_id = o.capture_id AND e.run_index = o.run_index AND e.event_index = o.event_index
        """
    )
    settle_runs(connection, first, last)


def settle_runs(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    """Compute the times of runs again, for the captures in a range of keys."""
    connection.execute(
        f"""
        UPDATE runs AS r SET {_set_to(RUN_TIMES)} FROM _find_run_times({first:d}, {last:d}) AS o
        WHERE r.capture_id = o.capture_id AND r.run_index = o.run_index
        """
    )


def _set_to(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = o.{name}" for name in names)


def settled(connection: duckdb.DuckDBPyConnection, key: int) -> pa.Table:
    """Return the events of a capture, without its key, with own times that are computed again."""
    own = ", ".join(f"o.{name} AS {name}" for name in OWN_TIMES)
    return connection.sql(
        f"""
        SELECT e.* EXCLUDE (capture_id) REPLACE ({own}) FROM {EVENTS} AS e
        JOIN _find_own_times({key:d}, {key:d}) AS o USING (capture_id, run_index, event_index)
        WHERE e.capture_id = {key:d} ORDER BY e.run_index, e.event_index
        """
    ).to_arrow_table()


def set_aside(
    reading: Iterable[tuple[str, Rows]], is_aside: Callable[[str, Rows], bool], aside: list[tuple[str, Rows]]
) -> Iterator[tuple[str, Rows]]:
    """Yield rows; those for which `is_aside` is true are appended to the list `aside` instead."""
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
    """Return rows with their capture's key as first column."""
    read = rows if isinstance(rows, pa.RecordBatch) else rows.rows
    keys = numbers(np.full(read.num_rows, key, np.int32))
    return batch({"capture_id": keys, **dict(zip(read.schema.names, read.columns, strict=True))})
