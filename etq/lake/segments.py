"""Writing segments of a lake: rows of a warehouse's tables as Parquet, with keys that are the same in every lake."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import duckdb

from etq import catalog
from etq.catalog import quoted
from etq.database.connection import with_access
from etq.database.publishing import fsync_folder
from etq.errors import WarehouseError, message_of
from etq.lake import log
from etq.lake.log import Segment

# The kinds of content that have keys, in the order of references.
KINDS: Final = ("program", "record", "capture")
# The most captures of a segment, and the most rows of events: large enough to make few files, and small enough to
# rewrite one.
MOST_CONTENTS: Final = 2_000
MOST_EVENTS: Final = 20_000_000
EVENTS: Final = ("event_ticks", "trace_events")
# 60 bits: among a million contents, two have the same with a probability of 4 in ten million.
KEY: Final = "('0x' || substr({}.sha256, 1, 15))::BIGINT"


def parts(connection: duckdb.DuckDBPyConnection, kind: str, keys: Sequence[int]) -> Iterator[list[int]]:
    """Keys of captures, records or programs in the warehouse, as many at a time as a segment holds, in their order."""
    counts: dict[int, int] = {}
    if kind == "capture":
        counted = " UNION ALL ".join(f"SELECT capture_id FROM {table}" for table in EVENTS)
        counts = dict(connection.execute(f"SELECT capture_id, count(*) FROM ({counted}) GROUP BY 1").fetchall())
    part: list[int] = []
    events = 0
    for key in keys:
        if part and (len(part) == MOST_CONTENTS or events + counts.get(key, 0) > MOST_EVENTS):
            yield part
            part, events = [], 0
        part.append(key)
        events += counts.get(key, 0)
    if part:
        yield part


def write(
    connection: duckdb.DuckDBPyConnection, lake: Path, kind: str, names: Mapping[int, str], prefix: str = ""
) -> Segment:
    """Write the captures, records or programs with these keys of the warehouse, under these names.

    The files are of the lake once its log names their segment, whose name begins with `prefix`.
    """
    connection.execute("CREATE OR REPLACE TEMP TABLE _chosen (key INTEGER, name VARCHAR)")
    connection.execute("INSERT INTO _chosen SELECT unnest(?::INTEGER[]), unnest(?)", [[*names], [*names.values()]])
    replaced, joined = [f"{KEY.format('k')} AS {kind}_id"], ""
    references = []
    for other in ("program", "record"):
        references.append(f"{KEY.format(other)} AS {other}_id")
        joined += f" LEFT JOIN {other}s AS {other} ON {other}.{other}_id = t.{other}_id"

    def query(table: str) -> str:
        named = ["c.name AS name"] if table == f"{kind}s" else []
        is_capture = table == "captures"
        return f"""
            SELECT t.* REPLACE ({", ".join([*replaced, *named, *(references if is_capture else [])])})
            FROM {table} AS t
            JOIN _chosen AS c ON c.key = t.{kind}_id
            JOIN {kind}s AS k ON k.{kind}_id = t.{kind}_id
            {joined if is_capture else ""}
            ORDER BY {KEY.format("k")}, t.rowid
        """

    try:
        return _segment(connection, lake, kind, len(names), query, prefix)
    finally:
        connection.execute("DROP TABLE _chosen")


def rewrite(
    held: duckdb.DuckDBPyConnection, lake: Path, segments: Sequence[Segment], without: Collection[str] = ()
) -> Segment:
    """Merge segments of one kind into one, without the contents of these SHA-256."""
    [kind] = {each.kind for each in segments}
    gone = ", ".join(str(int(sha256[:15], 16)) for sha256 in without) or "NULL"

    def query(table: str) -> str | None:
        files = ", ".join(quoted(str(each.file(lake, table))) for each in segments if each.rows.get(table))
        columns = ", ".join(f't."{column.name}"' for column in catalog.objects()[table].columns)
        return (
            files
            and f"""
            SELECT {columns}
            FROM read_parquet([{files}], filename = true, file_row_number = true) AS t
            WHERE (t.{kind}_id IN ({gone})) IS NOT TRUE
            ORDER BY t.{kind}_id, t.filename, t.file_row_number
        """
        )

    return _segment(held, lake, kind, sum(each.contents for each in segments) - len(without), query)


def _segment(
    connection: duckdb.DuckDBPyConnection,
    lake: Path,
    kind: str,
    contents: int,
    query: Callable[[str], str | None],
    prefix: str = "",
) -> Segment:
    """Write the rows that `query` selects from each table of a kind."""
    name = prefix + secrets.token_hex(16)
    tables = [table.name for table in catalog.tables() if table.columns[0].name == f"{kind}_id"]
    rows = {}
    try:
        for table in tables:
            if (selection := query(table)) and (
                number := _write(connection, selection, lake / table / f"{name}.parquet")
            ):
                rows[table] = number
    except BaseException:
        remove(lake, Segment(name, kind, 0, dict.fromkeys(tables, 0)))
        raise
    return Segment(name, kind, contents, rows)


def rename(connection: duckdb.DuckDBPyConnection, lake: Path, segment: Segment, names: Mapping[str, str]) -> None:
    """Give captures of a segment that the log doesn't name yet other names, by their SHA-256."""
    target = segment.file(lake, "captures")
    temporary = target.with_name(f"{segment.name}{secrets.token_hex(4)}.parquet")
    connection.execute("CREATE OR REPLACE TEMP TABLE _names (sha256 VARCHAR, name VARCHAR)")
    connection.execute("INSERT INTO _names SELECT unnest(?), unnest(?)", [[*names], [*names.values()]])
    query = f"""
        SELECT t.* REPLACE (coalesce(n.name, t.name) AS name)
        FROM read_parquet({quoted(str(target))}) AS t
        LEFT JOIN _names AS n ON n.sha256 = t.sha256
        ORDER BY t.capture_id
    """
    try:
        _write(connection, query, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
        connection.execute("DROP TABLE _names")
    fsync_folder(target.parent)


def remove(lake: Path, segment: Segment) -> None:
    """Delete the files of a segment."""
    for table in segment.rows:
        segment.file(lake, table).unlink(missing_ok=True)


def remove_of_prefix(lake: Path, prefix: str) -> None:
    """Delete the files of segments with this prefix, except those that the log names."""
    named = log.read(lake).segments
    for table in catalog.tables():
        for file in (lake / table.name).glob(f"{prefix}*.parquet"):
            if file.stem not in named:
                file.unlink(missing_ok=True)


def discard(lake: Path, written: Sequence[Segment]) -> None:
    """Delete the files of segments, except those that the log names: a write may fail after its commit."""
    named = log.read(lake).segments
    for segment in written:
        if segment.name not in named:
            remove(lake, segment)


def _write(connection: duckdb.DuckDBPyConnection, query: str, target: Path) -> int:
    """Write rows to a file, unless there are none; returns their number."""
    target.parent.mkdir(exist_ok=True)
    try:
        [(has_access,)] = connection.execute("SELECT current_setting('enable_external_access')").fetchall()
        if has_access:
            number = _copy(connection, query, target)
        else:
            with with_access(connection, connection.sql(query)) as other:
                number = _copy(other, "FROM rows", target)
    except duckdb.IOException as error:
        raise WarehouseError(f"{target}: can't be written: {message_of(error)}") from error
    if not number:
        target.unlink()
        return 0
    with target.open("rb") as file:
        os.fsync(file.fileno())
    fsync_folder(target.parent)
    return number


def _copy(connection: duckdb.DuckDBPyConnection, query: str, target: Path) -> int:
    copy = f"COPY ({query}) TO {quoted(str(target))} (FORMAT parquet, COMPRESSION zstd)"
    [(number,)] = connection.execute(copy).fetchall()
    return int(number)
