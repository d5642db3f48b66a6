"""Making loads that one or several processes wrote a part of a lake: every capture whole or not at all, and none twice.

The children's rows are committed first, which nobody reads yet, then `programs` and `records`, and `captures` last. A
root table is only committed as it was seen: if another writer was first, it is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from etq.errors import WarehouseError, displayed
from etq.lake import stores
from etq.lake.reading import prepare, read_parquet
from etq.lake.tables import KINDS, ConflictError, File, Lake, Note, files_of, tables_of
from etq.lake.writing import Load, discard, rewrite_root
from etq.maintenance.merge import longer_names
from etq.storage.naming import names_for

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Added:
    """The numbers of captures that were new to a lake, were known, and replaced known ones."""

    new: int
    known: int
    replaced: int


@dataclass(frozen=True)
class Content:
    """A capture, record or program in a load, and the name that it has there."""

    sha256: str
    name: str
    uri: str
    load: str


@dataclass(frozen=True)
class _Held:
    """A content of the lake: its name and its load."""

    name: str
    load: str


_Naming = Callable[[Sequence[Content], Mapping[str, str]], dict[str, str]]


def publish(
    lake: Lake,
    loads: Sequence[Load],
    contents: Mapping[str, Sequence[Content]],
    *,
    replace: bool = False,
    by_path: bool = False,
) -> Added:
    """Make loads part of a lake. `contents` are those of the loads, by kind; of the same content, the first one stays.

    Of what the lake has, nothing is added; with `replace`, its captures give way to those given, all at once. A name
    that other content has is made longer; `by_path` gives names anew, as a warehouse gives them to files.

    Raises `WarehouseError` for files that are missing or can't be written, and for loads that a compaction gave up.
    """
    for load in loads:
        for table, file in load.files.items():
            if not lake.is_remote and not stores.is_there(lake, table, file.path):
                raise WarehouseError(
                    f"{lake.uri(table, file.path)}: missing; all processes must share the lake's folder"
                )
    with duckdb.connect(":memory:") as connection:
        prepare(connection, lake)
        commits = _Commits(lake, connection, loads, contents, replace, _names if by_path else free_names)
        commits.leave_out_known()
        commits.commit_children()
        for kind in KINDS[:-1]:
            commits.commit_root(kind)
        return commits.commit_root("capture")


class _Commits:
    """The commits of loads to the tables of a lake."""

    def __init__(
        self,
        lake: Lake,
        connection: duckdb.DuckDBPyConnection,
        loads: Sequence[Load],
        contents: Mapping[str, Sequence[Content]],
        replace: bool,
        naming: _Naming,
    ) -> None:
        self.lake, self.connection, self.loads, self.contents = lake, connection, [*loads], contents
        self.replace, self.naming = replace, naming
        self.versions: dict[str, int] = {}
        self.begin = lake.open("captures").version()

    def leave_out_known(self) -> None:
        """Delete the loads of which the lake has everything, or an earlier load."""
        wanted = set()
        for kind in KINDS:
            if any(load.kind == kind for load in self.loads):
                chosen = self._chosen(kind, held(self.connection, self.lake, self.lake.open(f"{kind}s"), kind))
                wanted |= {each.load for each in chosen.values()}
        discard(self.lake, [load for load in self.loads if load.id not in wanted])
        self.loads = [load for load in self.loads if load.id in wanted]

    def commit_children(self) -> None:
        """Add the loads' files to all tables but the roots."""
        files: dict[str, list[File]] = {}
        for load in self.loads:
            for table, file in load.files.items():
                if table != f"{load.kind}s":
                    files.setdefault(table, []).append(file)
        for table, added in files.items():
            self.versions[table] = self.lake.commit(table, added)

    def commit_root(self, kind: str) -> Added:
        """Name the contents of a kind that the lake lacks, or that are replaced."""
        root = f"{kind}s"
        while True:
            files: list[File] = []
            seen = self.lake.open(root)
            known = held(self.connection, self.lake, seen, kind)
            chosen = self._chosen(kind, known)
            gone = chosen.keys() & known.keys()
            added = Added(len(chosen) - len(gone), len(self.contents.get(kind, ())) - len(chosen), len(gone))
            if kind == "capture":
                self._note_others(seen)
            if not chosen and not (kind == "capture" and self.versions):
                break
            note = self._note(seen) if kind == "capture" else None
            made: list[File] = []
            files = self._files(kind, chosen, {sha256: each.name for sha256, each in known.items()}, made)
            touched = {known[sha256].load for sha256 in gone}
            kept = {sha256: each for sha256, each in known.items() if each.load in touched and sha256 not in gone}
            for file in files_of(seen) if kept else ():
                if names := {sha256: each.name for sha256, each in kept.items() if each.load == file.load}:
                    made.append(rewrite_root(self.connection, self.lake, kind, file, names))
                    files.append(made[-1])
            try:
                self.lake.commit(root, files, touched, seen=seen, note=note)
            except ConflictError:
                stores.delete(self.lake, [(root, each.path) for each in made])
                continue
            break
        named = {each.load for each in files}
        lost = [load for load in self.loads if load.kind == kind and load.id not in named]
        self._take_back(lost)
        unused = [load.root for load in self.loads if load.kind == kind and load.root not in files]
        stores.delete(self.lake, [(root, each.path) for each in unused])
        return added

    def _note_others(self, captures: DeltaTable) -> None:
        """Have the next note include programs and records of this writer, and of others that were killed since."""
        noted = self.lake.note(captures, {}).tables
        for kind in KINDS[:-1]:
            if self.lake.open(f"{kind}s").version() != noted.get(f"{kind}s", 0):
                # The root is seen before its children, which may be newer.
                opened = {table: self.lake.open(table).version() for table in reversed(tables_of(kind))}
                self.versions |= {table: version for table, version in opened.items() if version}

    def _take_back(self, lost: Sequence[Load]) -> None:
        """Remove loads of which another writer has added everything meanwhile, and which nobody reads."""
        tables: dict[str, list[File]] = {}
        for load in lost:
            for table, file in load.files.items():
                if table != f"{load.kind}s":
                    tables.setdefault(table, []).append(file)
        for table, files in tables.items():
            self.lake.commit(table, [], [each.load for each in files])
            stores.delete(self.lake, [(table, each.path) for each in files])

    def _chosen(self, kind: str, known: Mapping[str, _Held]) -> dict[str, Content]:
        """What is to be added, by SHA-256."""
        chosen: dict[str, Content] = {}
        for each in self.contents.get(kind, ()):
            if each.sha256 not in known or (self.replace and kind == "capture"):
                chosen.setdefault(each.sha256, each)
        return chosen

    def _files(
        self, kind: str, chosen: Mapping[str, Content], known: Mapping[str, str], made: list[File]
    ) -> list[File]:
        """The files of the root table with what is chosen; those that differ from what was written are `made`."""
        names = self.naming([*chosen.values()], known)
        files = []
        for load in self.loads:
            written = {each.sha256: each.name for each in self.contents.get(kind, ()) if each.load == load.id}
            mine = {sha256: names[sha256] for sha256, each in chosen.items() if each.load == load.id}
            if load.kind == kind and mine == written:
                files.append(load.root)
            elif load.kind == kind and mine:
                made.append(rewrite_root(self.connection, self.lake, kind, load.root, mine))
                files.append(made[-1])
        return files

    def _note(self, captures: DeltaTable) -> Note:
        """The note of a commit of `captures`. Raises `WarehouseError` if a compaction gave up one of the loads."""
        if captures.version() != self.begin:
            dropped = {load for _, note in self.lake.notes(captures, self.begin) for load in note.dropped}
            if dropped & {load.id for load in self.loads}:
                raise WarehouseError(f"{self.lake}: a compaction gave up what took so long to be added; add it again")
        return self.lake.note(captures, self.versions)


def held(connection: duckdb.DuckDBPyConnection, lake: Lake, root: DeltaTable, kind: str) -> dict[str, _Held]:
    """What a root table has, by SHA-256."""
    paths = [lake.uri(f"{kind}s", each.path) for each in files_of(root)]
    if not paths:
        return {}
    query = f"SELECT sha256, name, load_id FROM {read_parquet(paths, of_loads=True)}"
    return {sha256: _Held(name, load) for sha256, name, load in connection.execute(query).fetchall()}


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


def _names(contents: Sequence[Content], known: Mapping[str, str]) -> dict[str, str]:
    """The name of each capture in the lake, by SHA-256: as if a warehouse had taken them first."""
    taken: set[str] = set()
    named = []
    for each in contents:
        uri = displayed(each.uri)
        names = list(names_for(uri, partial(str, each.sha256)))
        name = next((name for name in names if name not in taken), names[-1])
        taken.add(name)
        named.append(Content(each.sha256, name, uri, each.load))
    return free_names(named, known)
