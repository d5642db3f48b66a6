"""Reads the files of a lake's captures again, as `etq.storage.again` does for a warehouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import duckdb

from etq.advice.filling import ranks_together
from etq.database.schema import in_transaction
from etq.lake.reading.connection import LOAD, connect_tables, read_parquet
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from etq.lake.writing.changing import change
from etq.lake.writing.loads import parts
from etq.storage.again import Again, found, is_near, outcome_of, stored


def read_again(
    lake: Lake, keys: Sequence[int] | None, folders: Sequence[str], progress: Callable[[Again], None] | None
) -> list[Again]:
    """Read the files of captures with these keys, or of all, from folders again, as `Warehouse.ingest_again` does.
    Captures of a load are read together, because the load is written again as a whole.

    Raises `WarehouseError` for a lake that can't be read or written.
    """
    state = read(lake)
    if not state.of("captures"):
        return []
    with closing(connect_tables(state)) as connection:
        captures = {each.capture.capture_id: each for each in stored(connection, keys)}
        near = {key for key, each in captures.items() if is_near(each, folders)}
        outcomes = [
            Again(each.capture, left=each.kept or str(found(each, folders)))
            for key, each in captures.items()
            if key not in near
        ]
        if progress is not None:
            for outcome in outcomes:
                progress(outcome)
        files = read_parquet(state.paths("captures"), "filename = true")
        of_loads = connection.execute(f"SELECT c.capture_id FROM {files} AS c ORDER BY {LOAD}, 1").fetchall()
        together = [*parts(connection, "capture", [key for (key,) in of_loads if key in near])]
    of_content = {each.capture.sha256: each.capture for each in captures.values()}
    for part in together:
        for outcome in change(lake, part, partial(_read, folders=folders), in_one=False):
            outcomes.append(outcome._replace(capture=of_content[outcome.capture.sha256]))
            if progress is not None:
                progress(outcomes[-1])
    places = {sha256: place for place, sha256 in enumerate(of_content)}
    return sorted(outcomes, key=lambda outcome: places[outcome.capture.sha256])


def _read(connection: duckdb.DuckDBPyConnection, keys: Sequence[int], folders: Sequence[str]) -> list[Again]:
    """Read the files of a warehouse's captures again."""
    write = partial(in_transaction, connection)
    with ranks_together(connection, write):
        return [outcome_of(connection, each, folders, write) for each in stored(connection, keys)]
