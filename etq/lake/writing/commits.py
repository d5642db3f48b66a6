"""Commits to the tables of a lake, and the making of tables.

Rows become part of a lake by the commit of their root table (`captures`, `records`, `programs`), which is made only as
its writer saw the table: that is the conditional put of Delta Lake. Those of `captures` come last.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etq.database.publishing import fsync_file, fsync_folder
from etq.errors import WarehouseError
from etq.lake.reading import notes
from etq.lake.reading.library import deltalake, reason
from etq.lake.reading.notes import Note
from etq.lake.reading.state import LakeState, Loads, noted, read
from etq.lake.reading.tables import KINDS, DataFile, Lake, column_types, kind_of, tables_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Each writer reads all commits since the last checkpoint of each table, twice.
_PROPERTIES: Final = {"delta.checkpointInterval": "10"}
# How often a commit is tried if others commit to the same table, and if the store or the disk fails.
_TRIES_AMONG_OTHERS: Final = 100
_TRIES: Final = 3


class ConflictError(Exception):
    """Another writer was faster: the change must be made again from the new state."""


@dataclass(frozen=True)
class Change:
    """The loads that a commit of a root table adds and takes out.

    added    the files of each load in all tables
    dropped  loads that are given up, see `dropped`
    """

    added: Loads
    without: Collection[str] = ()
    dropped: Sequence[str] = ()


def change(lake: Lake, kind: str, plan: Callable[[LakeState], Change | None]) -> bool:
    """Commit to the root table of a kind what `plan` makes of its state, again and again if other writers are faster.

    Returns whether there was anything to commit. Raises `WarehouseError` if it can't be written.
    """
    root = f"{kind}s"
    while True:
        seen = make_table(lake, root)
        state = current(lake, kind)
        planned = plan(state)
        if planned is None:
            return False
        kept = {load: files for load, files in state.by_load.items() if load not in planned.without}
        added = [file for files in planned.added.values() for file in files.get(root, ())]
        with suppress(ConflictError):
            note = noted({**kept, **planned.added}, planned.dropped)
            commit(lake, root, added, planned.without, seen=seen, note=note)
            return True


def current(lake: Lake, kind: str) -> LakeState:
    """What a root table names; with captures, also the records and programs that others have added since."""
    state = read(lake, root=f"{kind}s")
    if kind != "capture":
        return state
    loads = state.of_kind(kind)
    for other in KINDS[:-1]:
        loads |= read(lake, root=f"{other}s").of_kind(other)
    is_noted = state.is_noted and loads == state.by_load
    return LakeState(lake, state.version, loads, is_noted=is_noted, schema=state.schema)


def note_others(lake: Lake) -> None:
    """Have the last commit of captures note the records and programs of now."""
    change(lake, "capture", lambda state: None if state.is_noted else Change({}))


def dropped(state: LakeState, root: str, since: int) -> set[str]:
    """The loads that were given up by commits of a root table after a version."""
    if state.version <= since:
        return set()
    later = [about for version, about in state.lake.commits(root).items() if version > since]
    found = [state.lake.read_commit(*about).note for about in later]
    return {load for note in found if note is not None for load in note.dropped}


def make(lake: Lake) -> None:
    """Create an empty lake, unless it exists. Raises `WarehouseError` as `find` does."""
    if not find(lake):
        make_table(lake, "captures")


def find(lake: Lake) -> bool:
    """Whether the lake exists. Raises `WarehouseError` if none can be made: for a file, for a folder with other
    files, and where nothing can be written.
    """
    deltalake()
    if lake.exists():
        return True
    folder = Path(lake.url)
    if lake.is_remote:
        return False
    if folder.exists() and not folder.is_dir():
        raise WarehouseError(f"{folder}: a file; a lake is a folder")
    if folder.is_dir() and {each.name for each in folder.iterdir()} - {*tables_of(*KINDS)}:
        raise WarehouseError(f"{folder}: a folder with other things in it; name an empty one for the lake")
    parent = next(each for each in (folder, *folder.parents) if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise WarehouseError(f"{parent}: not a folder that can be written; name another for the lake")
    return False


def make_table(lake: Lake, table: str) -> DeltaTable:
    """A table as it is now, created if it doesn't exist. Raises `WarehouseError` if it can't be."""
    module = deltalake()
    properties = module.CommitProperties(custom_metadata=notes.metadata(lake.url, "", Note()))
    problem: Exception | None = None
    for _ in range(_TRIES):
        opened = lake.find_table(table)  # perhaps another writer's
        if opened is not None:
            return opened
        try:
            module.DeltaTable.create(
                lake.uri(table), delta_schema(table), "ignore", ["load_id"], table,
                configuration=_PROPERTIES, storage_options=lake.options, commit_properties=properties,
            )  # fmt: skip
        except (module.exceptions.DeltaError, OSError) as error:
            problem = error
    opened = lake.find_table(table)
    if opened is None:
        raise WarehouseError(f"{lake.uri(table)}: can't be written: {reason(problem)}") from problem
    return opened


def commit(
    lake: Lake,
    table: str,
    added: Sequence[DataFile],
    without: Collection[str] = (),
    *,
    seen: DeltaTable | None = None,
    note: Note | None = None,
) -> None:
    """Add files to a table, and remove the loads `without`.

    seen  the table as it was seen: the commit is made only if it is still like that
    note  what the commit of a root table notes

    Raises `ConflictError` if the table isn't as it was `seen`, and `WarehouseError` if it can't be written.
    Then the commit may still be made: a store that didn't answer may have it.
    """
    module = deltalake()
    writer = secrets.token_hex(8)
    properties = module.CommitProperties(custom_metadata=notes.metadata(lake.url, writer, note), max_commit_retries=0)
    # Logs are cleaned when a lake is compacted.
    hooks = module.PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
    for attempt in count(1):
        opened = seen or make_table(lake, table)
        begin = opened.version()
        try:
            opened.create_write_transaction(
                [_action(each, f"{kind_of(table)}_id") for each in added],
                "overwrite" if without else "append",
                opened.schema(),
                ["load_id"],
                [("load_id", "in", [*without])] if without else None,
                commit_properties=properties,
                post_commithook_properties=hooks,
            )
            if not lake.is_remote:
                made = Path(lake.uri(table), "_delta_log", f"{begin + 1:020}.json")
                fsync_file(made)
                fsync_folder(made.parent)
            return
        except (module.exceptions.DeltaError, OSError) as error:
            # If only the answer was lost, what was asked again was refused as another writer's is.
            if _has_commit(lake, table, writer, begin):
                return
            is_conflict = isinstance(error, module.exceptions.CommitFailedError)
            if is_conflict and seen is not None:
                raise ConflictError from error
            if attempt == (_TRIES_AMONG_OTHERS if is_conflict else _TRIES):
                raise WarehouseError(f"{lake.uri(table)}: can't be written: {reason(error)}") from error
            time.sleep(min(0.01 * 2**attempt, 1))


def _has_commit(lake: Lake, table: str, writer: str, since: int) -> bool:
    """Whether a table has a commit of this name, of a version after `since`."""
    return any(
        lake.read_commit(*commit).writer == writer for version, commit in lake.commits(table).items() if version > since
    )


def delta_schema(table: str) -> Any:
    """The columns of a table in a lake."""
    types = column_types(table).items()
    fields = [{"name": name, "type": each, "nullable": True, "metadata": {}} for name, each in types]
    return deltalake().Schema.from_json(msgspec.json.encode({"type": "struct", "fields": fields}).decode())


def _action(file: DataFile, key: str) -> Any:
    from deltalake.transaction import AddAction

    stats: dict[str, Any] = {"numRecords": file.rows}
    if file.largest:
        stats |= {"minValues": {key: file.smallest}, "maxValues": {key: file.largest}, "nullCount": {key: 0}}
    written = int(time.time() * 1e3)
    return AddAction(file.path, file.bytes, {"load_id": file.load}, written, True, msgspec.json.encode(stats).decode())
