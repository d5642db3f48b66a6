"""Checking that a lake holds what the logs of its tables list."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import duckdb

from etq import catalog
from etq.database.rows import in_circles
from etq.errors import WarehouseError, message_of, printable, shortened
from etq.ingest.memory import shown
from etq.lake.reading.connection import MEASURING, check_root, measuring, read_parquet, stated
from etq.lake.reading.state import LakeState, live, read_all
from etq.lake.reading.tables import KEY, KINDS, DataFile, Lake

# What an element of a list takes that is read.
_ELEMENT_BYTES: Final = 16


@dataclass(frozen=True)
class Fault:
    """A problem of a file or its content. Files that are left over are harmless.

    table, load  where the file belongs, if it is one that the lake has
    """

    file: str
    what: str
    is_left_over: bool = False
    table: str = ""
    load: str = ""


def check(path: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> list[Fault]:
    """All faults of a lake: files that are missing, damaged or not as the logs list them; content that is there
    twice; events that contain each other, of which queries would not end.

    Raises `WarehouseError` for what isn't a lake, and for a damaged log.
    """
    lake = Lake.at(path, storage_options)
    state, listed = read_all(lake), live(lake)
    faults: list[Fault] = []
    with measuring(state) as connection:
        there = {name for name in lake.listed() if "/load_id=" in name}
        for table, files in state.files.items():
            for file in files:
                if what := _fault(connection, lake.uri(table, file.path), table, file, f"{table}/{file.path}" in there):
                    faults.append(Fault(lake.uri(table, file.path), what, table=table, load=file.load))
        if not faults:
            faults += _twice(connection, state)
            faults += _circles(connection, state)
    there -= {f"{table}/{each.path}" for table, files in state.files.items() for each in files}
    unfinished = {f"{table}/{each.path}" for table, files in listed.items() for each in files}
    for name in sorted(there):
        what = "of a load that was not finished" if name in unfinished else "not in the table"
        faults.append(Fault(lake.uri(name), what, True))
    return faults


def _fault(connection: duckdb.DuckDBPyConnection, uri: str, table: str, file: DataFile, is_there: bool) -> str | None:
    """The problem of a file."""
    if not is_there:
        return "missing"
    source = read_parquet([uri])
    expected = [column.name for column in catalog.objects()[table].columns]
    size = 0
    try:
        columns = [name for name, *_ in connection.execute(f"DESCRIBE FROM {source}").fetchall()]
        if columns != expected:
            return f"has the columns {', '.join(columns)}; expected {', '.join(expected)}"
        size, elements = stated(connection, [uri])
        if elements * _ELEMENT_BYTES > MEASURING:
            raise _too_large(uri)
        # Every value is read, so that damaged pages are found.
        [(number, *_)] = connection.execute(f"SELECT count(*), max(hash(COLUMNS(*))) FROM {source}").fetchall()
    except duckdb.OutOfMemoryException as error:
        if size > MEASURING:
            raise _too_large(uri) from error
        return "damaged: its pages unpack to more than it states"
    except duckdb.Error as error:
        return printable(f"damaged: {message_of(error)}")
    return None if number == file.rows else f"has {number} rows; expected {file.rows}"


def _too_large(uri: str) -> WarehouseError:
    return WarehouseError(f"{uri}: to check it would take more than {shown(MEASURING)} of memory; split the lake")


def _twice(connection: duckdb.DuckDBPyConnection, state: LakeState) -> Iterator[Fault]:
    """Contents and names that are there twice, and keys that are not the content's."""
    for kind in KINDS:
        if not (paths := state.paths(f"{kind}s")):
            continue
        check_root(state, kind, state.of(f"{kind}s"))
        source, key = read_parquet(paths), f"TRY({KEY.format('k')})"  # of a SHA-256 that isn't one, NULL
        for what, query in (
            ("is there twice", f"SELECT sha256 FROM {source} GROUP BY sha256 HAVING count(*) > 1"),
            ("is the name of several", f"SELECT name FROM {source} GROUP BY name HAVING count(*) > 1"),
            ("has another's key", f"SELECT sha256 FROM {source} AS k WHERE {key} IS DISTINCT FROM k.{kind}_id"),
        ):
            for (value,) in connection.execute(query).fetchall():
                yield Fault(state.lake.uri(f"{kind}s"), printable(shortened(f"{value} {what}")))


def _circles(connection: duckdb.DuckDBPyConnection, state: LakeState) -> Iterator[Fault]:
    """Events that contain each other. A load has all events of its captures."""
    files = sorted(state.of("event_ticks"), key=lambda file: file.load)
    for load, of_load in groupby(files, key=lambda file: file.load):
        uris = [state.lake.uri("event_ticks", file.path) for file in of_load]
        for capture_id in in_circles(connection, read_parquet(uris), uris[0]):
            what = f"events of the capture {capture_id} contain each other"
            yield Fault(uris[0], what, table="event_ticks", load=load)
