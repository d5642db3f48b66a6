"""The content of a lake at a version: the files of each load, as commits of root tables note them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from etq.errors import WarehouseError
from etq.lake.reading import links
from etq.lake.reading.notes import Note
from etq.lake.reading.tables import FILE_PATH, KINDS, SHARED, DataFile, Lake, files_of, kind_of, tables_of
from etq.version import OLDEST_LAKE, SCHEMA_VERSION

Loads = Mapping[str, Mapping[str, Sequence[DataFile]]]  # The files of each load in each table.


class LakeState:
    """The content of a lake, or of one of its kinds, at a version of the root table.

    by_load   the files of each load
    is_noted  whether the last commit notes them
    schema    the schema of their tables
    """

    def __init__(
        self, lake: Lake, version: int, by_load: Loads, *, is_noted: bool = True, schema: int = SCHEMA_VERSION
    ) -> None:
        self.lake, self.version, self.by_load = lake, version, by_load
        self.is_noted, self.schema = is_noted, schema
        self._loads: dict[str, dict[str, bool]] = {}

    @cached_property
    def files(self) -> dict[str, list[DataFile]]:
        """The files of each table that has rows."""
        files: dict[str, list[DataFile]] = {}
        for tables in self.by_load.values():
            for table, of_load in tables.items():
                files.setdefault(table, []).extend(of_load)
        return files

    def of(self, table: str) -> Sequence[DataFile]:
        """The files of a table."""
        return self.files.get(table, [])

    def of_kind(self, kind: str) -> dict[str, Mapping[str, Sequence[DataFile]]]:
        """The files of each load of a kind."""
        return {load: tables for load, tables in self.by_load.items() if f"{kind}s" in tables}

    def loads(self, kind: str) -> dict[str, bool]:
        """The loads of a kind, and whether all that each wrote is part of the lake."""
        if kind not in self._loads:
            rows = {load: sum(file.rows for file in files[f"{kind}s"]) for load, files in self.of_kind(kind).items()}
            # The number of captures, records or programs that a load wrote is part of its name.
            self._loads[kind] = {load: number == int(load.rpartition("-")[2]) for load, number in rows.items()}
        return self._loads[kind]

    def paths(self, table: str, *, whole: bool = True) -> list[str]:
        """The addresses of a table's files of which all rows are the lake's; or, with `whole` false, only some."""
        if table in SHARED:
            return [self.lake.uri(table, file.path) for file in self.of(table) if whole]
        kind = str(kind_of(table))
        loads = self.loads(kind)
        is_root = table == f"{kind}s"
        chosen = [file for file in self.of(table) if (True if is_root else loads.get(file.load)) is whole]
        return [self.lake.uri(table, file.path) for file in chosen]

    def only(self, kind: str, loads: Collection[str]) -> LakeState:
        """This without other loads of a kind."""
        others = self.of_kind(kind).keys() - loads
        chosen = {load: files for load, files in self.by_load.items() if load not in others}
        return LakeState(self.lake, self.version, chosen)


def read_all(lake: Lake, version: int | None = None) -> LakeState:
    """The content of a lake now, or its captures at a version, with the tables of now that are `SHARED`.

    Raises as `read` does.
    """
    if lake.is_remote:  # which takes time to answer
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(read_shared, lake)
            state = read(lake, version)
        shared = asked.result()
    else:
        state, shared = read(lake, version), read_shared(lake)
    loads = {load: dict(tables) for load, tables in state.by_load.items()}
    for table, files in shared.items():
        for file in files:
            of_load = loads.setdefault(file.load, {})
            of_load[table] = [*of_load.get(table, ()), file]
    return LakeState(lake, state.version, loads, is_noted=state.is_noted, schema=state.schema)


def read_shared(lake: Lake) -> dict[str, Sequence[DataFile]]:
    """The files of the tables that are `SHARED` now, of those with rows. Raises as `read` does."""
    names = [name for name in lake.tables() if name in SHARED]
    each = lake.each if lake.is_remote else map
    states = each(lambda name: read(lake, root=name), names)
    return {name: files for name, state in zip(names, states, strict=True) if (files := state.of(name))}


def read(lake: Lake, version: int | None = None, *, root: str = "captures") -> LakeState:
    """The content of a lake now, or at a version; or what another root table, or a `SHARED` table, names.

    Raises `WarehouseError` for what isn't a lake, and for a damaged one.
    """
    if not lake.is_remote and root not in SHARED:
        links.listed(lake.url)  # Refuses links before anything is read.
    commits = lake.commits(root)
    if not commits and root == "captures":
        raise WarehouseError(f"{lake}: not a lake; make one with: etq lake add {lake} FILE...")
    if version is not None and version not in commits:
        raise WarehouseError(f"{lake}: has no version {version}; the latest is {max(commits)}")
    number = max(commits, default=0) if version is None else version
    # The last commit notes the files, unless another program made it.
    for each in sorted((each for each in commits if each <= number), reverse=True):
        if (note := lake.read_commit(*commits[each]).note) is not None:
            _check_schema(lake, note.schema)
            loads = _loads(lake.uri(commits[each][0]), note, {root} if root in SHARED else {*tables_of(*KINDS)})
            return LakeState(lake, number, loads, is_noted=each == number, schema=note.schema)
    if version is not None:
        raise WarehouseError(f"{lake}: the list of the files of version {version} was deleted; open a later one")
    return LakeState(lake, number, _of_logs(lake, root) if commits else {}, is_noted=not commits)


def _of_logs(lake: Lake, root: str) -> Loads:
    """The files that the logs of all tables list, of loads that a root table has; or that of a `SHARED` table."""
    loads: dict[str, dict[str, list[DataFile]]] = {}
    for table, files in (live(lake) if root not in SHARED else _listed(lake, [root])).items():
        for file in files:
            loads.setdefault(file.load, {}).setdefault(table, []).append(file)
    if root in SHARED:
        return loads
    return {load: tables for load, tables in loads.items() if any(f"{kind}s" in tables for kind in KINDS)}


def _check_schema(lake: Lake, schema: int) -> None:
    """Raise `WarehouseError` for what a lake noted in another version of etq, unless that is to be upgraded."""
    if schema == SCHEMA_VERSION or (lake.accepts_earlier and OLDEST_LAKE <= schema < SCHEMA_VERSION):
        return
    if OLDEST_LAKE <= schema < SCHEMA_VERSION:
        what, remedy = "an earlier", f"upgrade it: etq upgrade {lake}"
    elif schema < OLDEST_LAKE:
        what, remedy = "an earlier", "add the files again to a new lake"
    else:
        what, remedy = "a later", "use that version"
    raise WarehouseError(f"{lake}: made by {what} version of etq (schema {schema}; this is {SCHEMA_VERSION}); {remedy}")


def live(lake: Lake, *kinds: str) -> dict[str, list[DataFile]]:
    """The files that the logs of all tables list now, or of those of kinds: also what the lake doesn't name."""
    return _listed(lake, [name for name in lake.tables() if kind_of(name) in (kinds or KINDS)])


def _listed(lake: Lake, names: Sequence[str]) -> dict[str, list[DataFile]]:
    """The files that the logs of these tables list now."""

    def files(name: str) -> list[DataFile]:
        # A writer that was killed may have written files of a table that it had not created.
        table = lake.find_table(name)
        return [] if table is None else files_of(table)

    return dict(zip(names, lake.each(files, names), strict=True))


def noted(loads: Loads, dropped: Sequence[str] = ()) -> Note:
    """What a commit notes of the files of loads."""
    files = {
        load: {
            table: {file.path.rpartition("/")[2]: (file.rows, file.bytes) for file in of_table}
            for table, of_table in tables.items()
        }
        for load, tables in loads.items()
    }
    return Note(files=files, dropped=[*dropped])


def _loads(commit: str, note: Note, known: Collection[str]) -> Loads:
    """The files of loads that the commit at a path notes, which are of `known` tables.

    Raises `WarehouseError` for files that aren't in a load's folder of a table.
    """

    def file(load: str, table: str, name: str, about: tuple[int, int]) -> DataFile:
        path = f"load_id={load}/{name}"
        if table not in known or not FILE_PATH.fullmatch(path):
            raise WarehouseError(f"{commit}: the log is damaged: a file is called {table}/{path}")
        return DataFile(path, *about)

    return {
        load: {table: [file(load, table, *item) for item in named.items()] for table, named in tables.items() if named}
        for load, tables in note.files.items()
    }
