"""Adding the content of a warehouse to a lake."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import duckdb

from etq.lake.reading.state import read
from etq.lake.reading.tables import KINDS, Lake
from etq.lake.writing.commits import make
from etq.lake.writing.loads import Load, discard, parts, write
from etq.lake.writing.publishing import Added, Content, known_of, publish
from etq.lake.writing.sharing import share
from etq.lake.writing.stores import writing
from etq.warehouse.warehouse import Warehouse, open


def export(
    path: str | os.PathLike[str] | Lake,
    warehouse: Warehouse | str | os.PathLike[str],
    *,
    replace: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Added:
    """Add everything that a warehouse holds to a lake, which is created if it doesn't exist.

    Content that the lake has already stays as it is; nothing is stored twice. With `replace`, captures that the lake
    has are replaced by the warehouse's, with their annotations, in one step: readers see the one or the other. A name
    that other content has in the lake is made longer, by the file's folders or its hash. Overviews of other names and
    comments are added, too.

    path             a folder, or an address in an object store, as s3://lab/fleet
    storage_options  options of the object store, as `deltalake` takes them; otherwise those of the environment

    Raises `WarehouseError` for a folder with other files, for one that can't be written, and without `deltalake`.
    """
    lake = Lake.at(path, storage_options)
    with writing(lake):
        make(lake)
        if isinstance(warehouse, Warehouse):
            return _export(lake, warehouse.connection, replace)
        with open(warehouse, read_only=True) as opened:
            return _export(lake, opened.connection, replace)


def _export(lake: Lake, connection: duckdb.DuckDBPyConnection, replace: bool) -> Added:
    loads: list[Load] = []
    contents: list[Content] = []
    already = 0
    try:
        for kind in KINDS:
            query = f"SELECT {kind}_id, sha256, name, uri FROM {kind}s ORDER BY {kind}_id"
            found: dict[int, tuple[str, str, str]] = {
                key: (sha256, name, uri) for key, sha256, name, uri in connection.execute(query).fetchall()
            }
            is_replaced = replace and kind == "capture"
            known = known_of(read(lake, root=f"{kind}s"), kind) if found and not is_replaced else {}
            keys = [key for key, (sha256, *_) in found.items() if sha256 not in known]
            already = len(found) - len(keys)  # of captures, which are the last
            for part in parts(connection, kind, keys):
                loads.append(write(connection, lake, kind, part))
                contents += [Content(kind, *found[key], loads[-1].id) for key in part]
    except BaseException:
        discard(lake, loads)
        raise
    added = publish(lake, loads, contents, replace=replace)
    share(lake, connection)
    return Added(added.new, added.known + already, added.replaced)


def add(
    path: str | os.PathLike[str] | Lake,
    ingest: Callable[[Warehouse], object],
    *,
    replace: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Added:
    """Add to a lake what `ingest` reads into a temporary warehouse. See `export`."""
    with open() as warehouse:
        ingest(warehouse)
        return export(path, warehouse, replace=replace, storage_options=storage_options)
