"""Adds the content of a warehouse to a lake."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import duckdb

from etq.advice.filling import ranks_of, refill
from etq.annotations.labels import RANKS, add_labels, labels_of_all, set_labels
from etq.database.rollups import PRUNED
from etq.errors import WarehouseError
from etq.ingest.stores import deltalake
from etq.lake.reading.connection import connect_tables
from etq.lake.reading.state import read
from etq.lake.reading.tables import KINDS, WHOLE, Lake, all_tables
from etq.lake.writing.changing import add_contents, change, change_whole
from etq.lake.writing.loads import contents, make_table, parts, recorded_at
from etq.maintenance.merge import MISSING_OF
from etq.maintenance.retention import EVENT_TABLES
from etq.selectors import JOB
from etq.warehouse.warehouse import Warehouse, open


@dataclass(frozen=True)
class Added:
    """The numbers of captures that were new to a lake, that were known, and that replaced known ones; and how many
    known captures got other labels, or got back events that had been pruned.
    """

    new: int
    known: int
    replaced: int
    labelled: int = 0
    restored: int = 0


def export(
    path: str | os.PathLike[str] | Lake,
    warehouse: Warehouse | str | os.PathLike[str],
    *,
    replace: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Added:
    """Add everything that a warehouse holds to a lake, which is created if it doesn't exist.

    Content that the lake already has stays unchanged; nothing is stored twice. With `replace`, captures of the lake are
    replaced by those of the warehouse, with their annotations; readers see either the old or the new ones. If other
    content of the lake has the same name, the name is made longer by the file's folders or hash. Up to 2,000 captures
    are added at a time. If an error occurs, those that were added before stay. Comments that the lake lacks are added.

    path             a folder, or an address in an object store, as s3://lab/fleet
    storage_options  options of the object store, as `deltalake` takes them; otherwise those of the environment

    Raises `WarehouseError` for a folder with other files, for one that can't be written, and without `deltalake`.
    """
    lake = Lake.at(path, storage_options)
    check_place(lake)
    make_table(lake, "captures")
    if isinstance(warehouse, Warehouse):
        warehouse.complete()
        return _export(lake, warehouse.connection, replace)
    with open(warehouse, read_only=True) as opened:
        return _export(lake, opened.connection, replace)


def _export(lake: Lake, connection: duckdb.DuckDBPyConnection, replace: bool) -> Added:
    added = Added(0, 0, 0)
    for kind in KINDS:
        # If there are more captures than a load holds, the captures of one day are kept together.
        order = f"{recorded_at(kind)}, {kind}_id"
        found = connection.execute(f"SELECT {kind}_id, sha256 FROM {kind}s ORDER BY {order}").fetchall()
        of_all = dict(found)
        is_replaced = replace and kind == "capture"
        known = {} if is_replaced or not found else contents(lake.open(f"{kind}s"))
        new = replaced = 0
        for part in parts(connection, kind, [key for key, sha256 in found if sha256 not in known]):
            counts = add_contents(lake, connection, kind, {of_all[key]: key for key in part}, is_replaced)
            new, replaced = new + counts[0], replaced + counts[1]
        added = Added(new, len(found) - new - replaced, replaced)  # of captures, which are the last kind
    for table in WHOLE:
        if len(rows := connection.sql(f"FROM {table} ORDER BY ALL").to_arrow_table()):
            _add_rows(lake, table, rows)
    return added


def _add_rows(lake: Lake, table: str, rows: Any) -> None:
    """Add comments or named views, as Arrow, that a lake lacks."""

    def unite(connection: duckdb.DuckDBPyConnection) -> None:
        connection.register("_given", rows)
        connection.execute(MISSING_OF[table].format("_given"))

    change_whole(lake, table, unite)


def update(
    path: str | os.PathLike[str] | Lake,
    warehouse: Warehouse,
    given: Collection[str] = (),
    *,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Change captures of a lake that a warehouse also has. Labels that they lack are added, and labels whose keys are
    `given` replace theirs. Events that were pruned are restored. Returns the numbers of captures that get labels, and
    events.

    Raises `WarehouseError` for a lake that can't be read or written.
    """
    lake, source = Lake.at(path, storage_options), warehouse.connection
    with closing(connect_tables(read(lake))) as connection:
        held, pruned = labels_of_all(connection), _pruned(connection)
        keys = dict(connection.execute("SELECT c.sha256, c.capture_id FROM captures AS c").fetchall())
    wanted = {
        sha256: {key: value for key, value in labels.items() if key in given or key not in held[sha256]}
        for sha256, labels in labels_of_all(source).items()
        if sha256 in held
    }
    restored = (pruned - _pruned(source)) & wanted.keys()
    labels = {sha256: each for sha256, each in wanted.items() if not each.items() <= held[sha256].items()}
    if not labels and not restored:
        return 0, 0

    def work(connection: duckdb.DuckDBPyConnection, changed: list[int]) -> None:
        query = "SELECT c.capture_id, c.sha256 FROM captures AS c WHERE list_contains(?::INTEGER[], c.capture_id)"
        for key, sha256 in connection.execute(query, [changed]).fetchall():
            if sha256 in restored:
                _restore(connection, key, source, sha256)
            if sha256 in labels:
                set_labels(connection, key, {each: value for each, value in labels[sha256].items() if each in given})
                add_labels(connection, key, labels[sha256])
        if restored:  # their advice waited for content that is stored again
            refill(connection, ranks_of(connection, changed))

    is_of_job = bool(restored) or any(not RANKS.isdisjoint(each) for each in labels.values())
    jobs = sorted({each[JOB] for each in labels.values() if JOB in each})
    change(lake, [keys[sha256] for sha256 in {*labels, *restored}], work, with_ranks=is_of_job, jobs=jobs)
    return len(labels), len(restored)


def _pruned(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The hashes of captures whose events were pruned."""
    query = "SELECT c.sha256 FROM findings AS f JOIN captures AS c ON c.capture_id = f.capture_id WHERE f.rule = ?"
    return {sha256 for (sha256,) in connection.execute(query, [PRUNED]).fetchall()}


def _restore(connection: duckdb.DuckDBPyConnection, key: int, source: duckdb.DuckDBPyConnection, sha256: str) -> None:
    """Copy the events of a capture that lost them from a warehouse that has the same file's content."""
    [(other,)] = source.execute("SELECT c.capture_id FROM captures AS c WHERE c.sha256 = ?", [sha256]).fetchall()
    for table in EVENT_TABLES:
        query = f"SELECT t.* REPLACE ({key:d} AS capture_id) FROM {table} AS t WHERE t.capture_id = {other:d}"
        connection.register("_events", source.sql(f"{query} ORDER BY t.rowid").to_arrow_table())
        connection.execute(f"INSERT INTO {table} BY NAME FROM _events")
        connection.unregister("_events")
    connection.execute("DELETE FROM findings WHERE capture_id = ? AND rule = ?", [key, PRUNED])


def check_place(lake: Lake) -> bool:
    """Whether the lake exists. Raises `WarehouseError` if no lake can be made: for a file, for a folder with other
    files, and if nothing can be written there.
    """
    deltalake()
    if lake.exists():
        return True
    folder = Path(lake.url)
    if lake.is_remote:
        return False
    if folder.exists() and not folder.is_dir():
        raise WarehouseError(f"{folder}: a file; a lake is a folder")
    if folder.is_dir() and {entry.name for entry in folder.iterdir()} - {*all_tables()}:
        raise WarehouseError(f"{folder}: a folder with other things in it; name an empty one for the lake")
    parent = next(place for place in (folder, *folder.parents) if place.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise WarehouseError(f"{parent}: not a folder that can be written; name another for the lake")
    return False


def add(
    path: str | os.PathLike[str] | Lake,
    ingest: Callable[[Warehouse], object],
    *,
    replace: bool = False,
    given: Collection[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> Added:
    """Run `ingest` on a temporary warehouse, and add its content to a lake. See `export`.

    Captures that the lake has get the labels that they lack. Labels whose keys are `given` replace theirs; captured_at
    is a key, too. Events that were pruned are restored.
    """
    with open() as warehouse:
        ingest(warehouse)
        added = export(path, warehouse, replace=replace, storage_options=storage_options)
        if not added.known:
            return added
        labelled, restored = update(path, warehouse, given, storage_options=storage_options)
        return replaced(added, labelled=labelled, restored=restored)
