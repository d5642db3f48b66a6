"""The content of a lake at a version: the files of each table, as commits of root tables note them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from etq.errors import WarehouseError
from etq.lake import links
from etq.lake.notes import Note
from etq.lake.tables import FILE_PATH, KINDS, ConflictError, DataFile, Files, Lake, files_of, kind_of, tables_of
from etq.version import OLDEST_LAKE, SCHEMA_VERSION


class LakeState:
    """The content of a lake, or of one of its kinds, at a version of the root table.

    files     the files of each table that has rows
    is_noted  whether the last commit notes them
    schema    the schema of their tables
    """

    def __init__(
        self, lake: Lake, version: int, files: Files, *, is_noted: bool = True, schema: int = SCHEMA_VERSION
    ) -> None:
        self.lake, self.version, self.files, self.is_noted, self.schema = lake, version, files, is_noted, schema
        self._loads: dict[str, dict[str, bool]] = {}

    def of(self, table: str) -> Sequence[DataFile]:
        """The files of a table."""
        return self.files.get(table, [])

    def loads(self, kind: str) -> dict[str, bool]:
        """The loads of a kind, and whether all that each wrote is part of the lake."""
        if kind not in self._loads:
            rows: dict[str, int] = {}
            for each in self.of(f"{kind}s"):
                rows[each.load] = rows.get(each.load, 0) + each.rows
            # The number of captures, records or programs that a load wrote is part of its name.
            self._loads[kind] = {load: number == int(load.rpartition("-")[2]) for load, number in rows.items()}
        return self._loads[kind]

    def paths(self, table: str, *, whole: bool = True) -> list[str]:
        """The addresses of a table's files of which all rows are the lake's; or, with `whole` false, only some."""
        kind = str(kind_of(table))
        loads = self.loads(kind)
        is_root = table == f"{kind}s"
        chosen = [each for each in self.of(table) if (True if is_root else loads.get(each.load)) is whole]
        return [self.lake.uri(table, each.path) for each in chosen]

    def only(self, kind: str, loads: Collection[str]) -> LakeState:
        """This without the files of other loads of a kind."""
        files = {
            table: [each for each in found if kind_of(table) != kind or each.load in loads]
            for table, found in self.files.items()
        }
        return LakeState(self.lake, self.version, {table: found for table, found in files.items() if found})

    def changed(
        self, kind: str, added: Sequence[DataFile], without: Collection[str], rows: Files, others: Files | None = None
    ) -> LakeState:
        """This with files added to the root table of a kind in the place of the loads `without`, and what that names.

        rows    the files of added loads in other tables
        others  all files of other kinds, if they are others than this has
        """
        root = f"{kind}s"
        roots = [*(each for each in self.of(root) if each.load not in without), *added]
        named = {each.load for each in roots}
        found: dict[str, Sequence[DataFile]] = {**self.files, **(others or {}), root: roots}
        for table in tables_of(kind)[:-1]:
            both = [*self.of(table), *rows.get(table, [])]
            found[table] = [each for each in both if each.load in named]
        return LakeState(self.lake, self.version + 1, {table: files for table, files in found.items() if files})

    def note(self, dropped: Sequence[str] = ()) -> Note:
        """What a commit notes of these files."""
        note = Note(dropped=[*dropped])
        for table, files in self.files.items():
            for each in files:
                name = each.path.rpartition("/")[2]
                note.files.setdefault(each.load, {}).setdefault(table, {})[name] = each.rows, each.bytes
        return note


def read(lake: Lake, version: int | None = None, *, root: str = "captures") -> LakeState:
    """The content of a lake now, or at a version; or what another root table names.

    Raises `WarehouseError` for what isn't a lake, and for a damaged one.
    """
    if not lake.is_remote:
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
            files = _files(lake.uri(commits[each][0]), note)
            return LakeState(lake, number, files, is_noted=each == number, schema=note.schema)
    if version is not None:
        raise WarehouseError(f"{lake}: what version {version} holds was noted in a log that was cleaned since")
    found = live(lake) if commits else {}
    named = {kind: {each.load for each in found.get(f"{kind}s", [])} for kind in KINDS}
    files = {table: [each for each in found[table] if each.load in named[str(kind_of(table))]] for table in found}
    return LakeState(lake, number, {table: files[table] for table in files if files[table]}, is_noted=not commits)


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


def dropped(state: LakeState, root: str, since: int) -> set[str]:
    """The loads that were given up by commits of a root table after a version."""
    if state.version <= since:
        return set()
    lake = state.lake
    notes = [lake.read_commit(*commit).note for version, commit in lake.commits(root).items() if version > since]
    return {load for note in notes if note is not None for load in note.dropped}


@dataclass(frozen=True)
class Change:
    """What a commit of a root table adds and takes out, and what the lake then holds."""

    added: Sequence[DataFile]
    without: Collection[str]
    after: LakeState
    dropped: Sequence[str] = ()


def change(lake: Lake, kind: str, plan: Callable[[LakeState], Change | None]) -> bool:
    """Commit to the root table of a kind what `plan` makes of its state, again and again if other writers are faster.

    Returns whether there was anything to commit. Raises `WarehouseError` if it can't be written.
    """
    root = f"{kind}s"
    while True:
        seen = lake.make_table(root)
        planned = plan(read(lake, root=root))
        if planned is None:
            return False
        with suppress(ConflictError):
            note = planned.after.note(planned.dropped)
            lake.commit(root, planned.added, planned.without, seen=seen, note=note)
            return True


def live(lake: Lake, *kinds: str) -> dict[str, list[DataFile]]:
    """The files that the logs of all tables list now, or of those of kinds: also what the lake doesn't name."""
    names = [name for name in lake.tables() if kind_of(name) in (kinds or KINDS)]

    def files(name: str) -> list[DataFile]:
        # A writer that was killed may have written files of a table that it had not created.
        table = lake.find_table(name)
        return [] if table is None else files_of(table)

    return dict(zip(names, lake.each(files, names), strict=True))


def _files(commit: str, note: Note) -> dict[str, list[DataFile]]:
    """The files that the commit at a path notes.

    Raises `WarehouseError` for files that aren't in a load's folder of a table.
    """
    files: dict[str, list[DataFile]] = {}
    known = {*tables_of(*KINDS)}
    for load, tables in note.files.items():
        for table, named in tables.items():
            for name, (rows, size) in named.items():
                path = f"load_id={load}/{name}"
                if table not in known or not FILE_PATH.fullmatch(path):
                    raise WarehouseError(f"{commit}: the log is damaged: a file is called {table}/{path}")
                files.setdefault(table, []).append(DataFile(path, rows, size))
    return files
