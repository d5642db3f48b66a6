"""Publishing loads that one or several processes wrote: every capture becomes part of a lake whole, and none twice.

The rows of children are committed first, which nobody reads yet, then `programs` and `records`, and `captures` last. A
root table is only committed as it was seen: if another writer was faster, it is looked at again. What is left of loads
and files that were not needed then is for a compaction: nobody deletes a file that a commit of theirs may name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import PurePath
from typing import Any

import duckdb

from etq.errors import WarehouseError, displayed
from etq.lake.reading.connection import attach, check_root, read_parquet
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import KINDS, Lake
from etq.lake.writing import commits
from etq.lake.writing.commits import Change, change, dropped
from etq.lake.writing.loads import Load, discard, files_of, named, rows_of, write_root
from etq.maintenance.merge import longer_names
from etq.storage.naming import names_for


@dataclass(frozen=True)
class Added:
    """The numbers of captures that were new to a lake, were known, and replaced known ones."""

    new: int
    known: int
    replaced: int


@dataclass(frozen=True)
class Content:
    """A capture, record or program in a load, and the name that it has there."""

    kind: str
    sha256: str
    name: str
    uri: str
    load: str


_Naming = Callable[[Sequence[Content], Mapping[str, str]], dict[str, str]]


def known_of(state: LakeState, kind: str) -> dict[str, Content]:
    """The contents that the root table of a kind names, by SHA-256."""
    if not (paths := state.paths(f"{kind}s")):
        return {}
    check_root(state, kind, state.of(f"{kind}s"))
    with duckdb.connect(":memory:") as connection:
        attach(connection, state)
        source = read_parquet(paths, of_loads=True)
        # A small file may have any number of equal rows.
        twice = f"SELECT sha256 FROM {source} GROUP BY sha256 HAVING count(*) > 1 LIMIT 1"
        for (sha256,) in connection.execute(twice).fetchall():
            raise WarehouseError(f"{state.lake}: damaged: {kind} {sha256} is there twice; see etq lake check")
        rows = connection.execute(f"SELECT sha256, name, uri, load_id FROM {source}").fetchall()
        return {row[0]: Content(kind, *row) for row in rows}


def publish(
    lake: Lake, loads: Sequence[Load], contents: Sequence[Content], *, replace: bool = False, by_path: bool = False
) -> Added:
    """Make loads part of a lake. `contents` are theirs; of the same content, the first one stays.

    Known content is not added; with `replace`, the lake's captures are replaced by those given, all at once. A name
    that other content has is made longer; `by_path` gives names anew, as a warehouse gives them to files.

    Raises `WarehouseError` for files that are missing or can't be written, and for loads that a compaction gave up.
    """
    for path in [lake.uri(table, file.path) for load in loads for table, file in load.files.items()]:
        if not lake.is_remote and not os.path.exists(path):
            raise WarehouseError(f"{path}: missing; all processes must share the lake's folder")
    contents_of = {kind: [each for each in contents if each.kind == kind] for kind in KINDS}
    # Loads of which the lake has everything, or which others have, are not committed at all.
    roots = {kind: read(lake, root=f"{kind}s") for kind in KINDS if contents_of[kind] or kind == "capture"}
    wanted = {
        each.load
        for kind, root in roots.items()
        for each in _chosen(contents_of[kind], {} if replace and kind == "capture" else known_of(root, kind)).values()
    }
    discard(lake, [load for load in loads if load.id not in wanted])
    loads = [load for load in loads if load.id in wanted]
    for table, files in files_of(loads).items():
        commits.commit(lake, table, files)
    naming = _names_by_path if by_path else free_names
    for kind, root in roots.items():
        mine = [load for load in loads if load.kind == kind]
        is_replaced = replace and kind == "capture"
        added = _commit(lake, kind, root.version, mine, contents_of[kind], naming, replace=is_replaced)
    return added


def _commit(
    lake: Lake,
    kind: str,
    begin: int,
    loads: Sequence[Load],
    contents: Sequence[Content],
    naming: _Naming,
    *,
    replace: bool,
) -> Added:
    """Add the contents of a kind that the lake lacks, or all if they `replace` those of the lake, to its root table."""
    added = Added(0, 0, 0)

    def plan(state: LakeState) -> Change | None:
        nonlocal added
        known = known_of(state, kind)
        chosen = _chosen(contents, {} if replace else known)
        gone = chosen.keys() & known.keys()
        added = Added(len(chosen) - len(gone), len(contents) - len(chosen), len(gone))
        if dropped(state, f"{kind}s", begin) & {load.id for load in loads}:
            raise WarehouseError(f"{lake}: a compaction deleted files that took too long to add; add them again")
        if not chosen:
            return None if state.is_noted else Change({})
        names = naming([*chosen.values()], {sha256: each.name for sha256, each in known.items()})
        touched = {known[sha256].load for sha256 in gone}
        roots = write_root(lake, kind, _rows(loads, chosen, names, state, touched))
        return Change(named(kind, roots, loads, state.by_load), touched)

    change(lake, kind, plan)
    return added


def _rows(
    loads: Sequence[Load],
    chosen: Mapping[str, Content],
    names: Mapping[str, str],
    state: LakeState,
    touched: Collection[str],
) -> Any:
    """The rows of chosen contents, under these names, and those that stay of the loads `touched`, as Arrow."""
    with duckdb.connect(":memory:") as connection:
        connection.register("rows", rows_of(loads))
        connection.execute("CREATE TABLE chosen (sha256 VARCHAR, name VARCHAR, load_id VARCHAR)")
        columns = [[*chosen], [names[each] for each in chosen], [each.load for each in chosen.values()]]
        connection.execute("INSERT INTO chosen SELECT unnest(?), unnest(?), unnest(?)", columns)
        query = "SELECT r.* REPLACE (c.name AS name) FROM rows AS r JOIN chosen AS c USING (sha256, load_id)"
        if touched:
            attach(connection, state)
            paths = [state.lake.uri("captures", each.path) for each in state.of("captures") if each.load in touched]
            held = read_parquet(paths, of_loads=True)
            query += f" UNION ALL BY NAME SELECT h.* FROM {held} AS h ANTI JOIN chosen AS c USING (sha256)"
        return connection.sql(query).to_arrow_table()


def _chosen(contents: Sequence[Content], known: Mapping[str, Content]) -> dict[str, Content]:
    """The first of each content that isn't known, by SHA-256."""
    chosen: dict[str, Content] = {}
    for each in contents:
        if each.sha256 not in known:
            chosen.setdefault(each.sha256, each)
    return chosen


def free_names(contents: Sequence[Content], known: Mapping[str, str]) -> dict[str, str]:
    """The names of contents in the lake, by SHA-256: their own, or longer ones if other content has these."""
    owners = {name: sha256 for sha256, name in known.items()}
    names = {}
    for each in contents:
        candidates = (each.name, *longer_names(each.name, each.uri, each.sha256))
        name = next(name for name in candidates if owners.get(name, each.sha256) == each.sha256)
        owners[name] = each.sha256
        names[each.sha256] = name
    return names


def _names_by_path(contents: Sequence[Content], known: Mapping[str, str]) -> dict[str, str]:
    """The names of captures in the lake, by SHA-256: those that a warehouse would give to their files."""
    taken: set[str] = set()
    named = []
    for each in contents:
        uri = displayed(each.uri)
        names = list(names_for(uri, partial(str, each.sha256)))
        name = next((name for name in names if name not in taken), names[-1])
        taken.add(name)
        # As of a file elsewhere, whose folders aren't stored.
        named.append(replace_fields(each, name=name, uri=PurePath(uri).name))
    return free_names(named, known)
