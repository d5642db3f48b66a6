"""Checking that a lake holds what its log lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from etq import catalog
from etq.errors import message_of
from etq.lake import log
from etq.lake.compacting import left_files
from etq.lake.log import Segment, State
from etq.lake.reading import files
from etq.lake.segments import KEY, KINDS


@dataclass(frozen=True)
class Fault:
    """A problem of a file or its content. Files that are left over are harmless."""

    file: str
    what: str
    is_left_over: bool = False


def check(path: str | os.PathLike[str]) -> list[Fault]:
    """All faults of a lake: files that are missing, damaged or not as the log lists them; content that is there twice.

    Raises `WarehouseError` for a folder that isn't a lake, and for a damaged log.
    """
    lake = Path(path)
    state = log.read(lake)
    with duckdb.connect(":memory:") as connection:
        faults = [fault for segment in state.segments.values() for fault in _faults(connection, lake, segment)]
        if not faults:
            faults += _twice(connection, lake, state)
    return faults + [Fault(str(file), "of no segment", True) for file in left_files(lake, state)]


def _faults(connection: duckdb.DuckDBPyConnection, lake: Path, segment: Segment) -> Iterator[Fault]:
    """The problems of a segment's files."""
    for table, rows in segment.rows.items():
        file = segment.file(lake, table)
        if not file.exists():
            yield Fault(str(file), "missing")
            continue
        try:
            # Every value is read, so that damaged pages are found.
            [(number, *_)] = connection.execute(
                "SELECT count(*), max(hash(COLUMNS(*))) FROM read_parquet(?)", [str(file)]
            ).fetchall()
            columns = [name for name, *_ in connection.execute("DESCRIBE FROM read_parquet(?)", [str(file)]).fetchall()]
        except duckdb.Error as error:
            yield Fault(str(file), f"damaged: {message_of(error)}")
            continue
        expected = [column.name for column in catalog.objects()[table].columns]
        if columns != expected:
            yield Fault(str(file), f"has the columns {', '.join(columns)}; expected {', '.join(expected)}")
        elif number != rows:
            yield Fault(str(file), f"has {number} rows; expected {rows}")


def _twice(connection: duckdb.DuckDBPyConnection, lake: Path, state: State) -> Iterator[Fault]:
    """Contents and names that are there twice, and keys that are not the content's."""
    for kind in KINDS:
        if not (paths := files(lake, state, f"{kind}s")):
            continue
        for what, query in (
            ("is there twice", "SELECT sha256 FROM read_parquet(?) GROUP BY sha256 HAVING count(*) > 1"),
            ("is the name of several", "SELECT name FROM read_parquet(?) GROUP BY name HAVING count(*) > 1"),
            ("has another's key", f"SELECT sha256 FROM read_parquet(?) AS k WHERE k.{kind}_id <> {KEY.format('k')}"),
        ):
            for (value,) in connection.execute(query, [paths]).fetchall():
                yield Fault(f"{lake / f'{kind}s'}", f"{value} {what}")
