"""Adding the content of a warehouse to a lake."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from etq.lake import log
from etq.lake.log import ConflictError, Segment, State
from etq.lake.reading import connect
from etq.lake.segments import KINDS, discard, parts, rewrite, write
from etq.maintenance.merge import longer_names
from etq.warehouse.warehouse import Warehouse, open


@dataclass(frozen=True)
class Added:
    """The numbers of captures that were new to a lake, were known, and replaced known ones."""

    new: int
    known: int
    replaced: int


@dataclass(frozen=True)
class Content:
    """A capture, record or program, and its key in its warehouse."""

    key: int
    sha256: str
    name: str
    uri: str


def export(
    path: str | os.PathLike[str], warehouse: Warehouse | str | os.PathLike[str], *, replace: bool = False
) -> Added:
    """Add everything that a warehouse holds to a lake, which is created if it doesn't exist.

    Content that the lake has already stays as it is; nothing is stored twice. With `replace`, captures that the lake
    has are replaced by the warehouse's, with their annotations, in one step: readers see the one or the other. A name
    that other content has in the lake is made longer, by the file's folders or its hash.

    Raises `WarehouseError` for a folder with other files, and for one that can't be written.
    """
    lake = Path(path)
    with log.writing(lake):
        log.make(lake)
        if isinstance(warehouse, Warehouse):
            return _export(lake, warehouse.connection, replace)
        with open(warehouse, read_only=True) as opened:
            return _export(lake, opened.connection, replace)


def _export(lake: Path, connection: duckdb.DuckDBPyConnection, replace: bool) -> Added:
    """Write the content that the lake lacks and append it to the log, again until no other writer was faster."""
    while True:
        state = log.read(lake)
        with connect(lake, state) as held:
            known = {kind: dict(held.execute(f"SELECT sha256, name FROM {kind}s").fetchall()) for kind in KINDS}
            written: list[Segment] = []
            try:
                removed, result = _write_lacking(lake, state, connection, held, known, replace, written)
                if written:
                    log.commit(lake, state, written, removed)
                return result
            except ConflictError:
                discard(lake, written)
            except BaseException:
                discard(lake, written)
                raise


def _write_lacking(
    lake: Path,
    state: State,
    connection: duckdb.DuckDBPyConnection,
    held: duckdb.DuckDBPyConnection,
    known: Mapping[str, Mapping[str, str]],
    replace: bool,
    written: list[Segment],
) -> tuple[list[str], Added]:
    """Write the content that the lake lacks, and append it to `written`: the replaced segments, and the counts."""
    removed: list[str] = []
    result = Added(0, 0, 0)
    for kind in KINDS:
        query = f"SELECT {kind}_id, sha256, name, uri FROM {kind}s ORDER BY {kind}_id"
        contents = [Content(*row) for row in connection.execute(query).fetchall()]
        there = [each for each in contents if each.sha256 in known[kind]]
        chosen = [each for each in contents if each.sha256 not in known[kind]]
        if kind == "capture":
            result = Added(len(chosen), 0 if replace else len(there), len(there) if replace else 0)
            if replace and there:
                removed = _write_others(lake, state, held, there, written)
                chosen += there
        names = free_names(chosen, known[kind])
        for part in parts(connection, kind, [each.key for each in chosen]):
            written.append(write(connection, lake, kind, {key: names[key] for key in part}))
    return removed, result


def _write_others(
    lake: Path, state: State, held: duckdb.DuckDBPyConnection, replaced: list[Content], written: list[Segment]
) -> list[str]:
    """Rewrite the segments of captures that are replaced, without these; the names of these segments."""
    touched = []
    for segment in state.of_table("captures"):
        hashes = held.execute("SELECT sha256 FROM read_parquet(?)", [str(segment.file(lake, "captures"))]).fetchall()
        gone = {each.sha256 for each in replaced} & {sha256 for (sha256,) in hashes}
        if gone:
            touched.append(segment.name)
            if len(gone) < len(hashes):
                written.append(rewrite(held, lake, [segment], without=gone))
    return touched


def free_names(contents: Sequence[Content], known: Mapping[str, str]) -> dict[int, str]:
    """The names of contents in the lake: their own, or longer ones if other content has these."""
    owners = {name: sha256 for sha256, name in known.items()}
    names = {}
    for each in contents:
        candidates = (each.name, *longer_names(each.name, each.uri, each.sha256))
        name = next(name for name in candidates if owners.get(name, each.sha256) == each.sha256)
        owners[name] = each.sha256
        names[each.key] = name
    return names


def add(path: str | os.PathLike[str], ingest: Callable[[Warehouse], object], *, replace: bool = False) -> Added:
    """Add to a lake what `ingest` reads into a temporary warehouse. See `export`."""
    with open() as warehouse:
        ingest(warehouse)
        return export(path, warehouse, replace=replace)
