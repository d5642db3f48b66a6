"""The Delta tables of a lake: where they are, their files and logs.

    LAKE/captures/_delta_log/                   the log of a table
    LAKE/captures/load_id=<load>/<name>.parquet the rows of one load

A load is what one writer adds of one kind: some captures, records or programs with their rows in all tables. Its rows
are part of the lake once its root table (`captures`, `records`, `programs`) names them, which is committed last.

A version of the lake is one of `captures`. Each commit of a root table notes the files of its loads in all tables, so
that a reader needs no other log; docs/operations.md has what reading all logs would take.

What a team says about captures (`SHARED`: overviews and comments) is in tables of its own, each as one file that a
commit replaces, and isn't part of a version. A lake has these tables from the first such row on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from etq import catalog
from etq.errors import WarehouseError, displayed
from etq.lake.reading import checkpoints, links, notes
from etq.lake.reading.library import deltalake, reason
from etq.lake.reading.notes import LARGEST_CHECKPOINT, LARGEST_COMMIT, Commit

if TYPE_CHECKING:
    from deltalake import DeltaTable

Item = TypeVar("Item")
Result = TypeVar("Result")
# The kinds of content that have keys, in the order of references.
KINDS: Final = ("program", "record", "capture")
# The tables of what a team says about captures.
SHARED: Final = ("overview_items", "overview_comparisons", "change_comments")
# 60 bits: among a million contents, two have the same with a probability of 4 in ten million.
KEY: Final = "('0x' || substr({}.sha256, 1, 15))::BIGINT"
_PRIMITIVES: Final = {
    "INTEGER": "integer", "BIGINT": "long", "VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "BLOB": "binary",
}  # fmt: skip
_COMMIT: Final = re.compile(r"/_delta_log/([0-9]{20})\.json$")
_CHECKPOINT: Final = re.compile(r"/_delta_log/([0-9]{20})\.checkpoint\.parquet$")
_VERSION: Final = re.compile(r"/_delta_log/([0-9]{20})\..*(?:json|parquet)$")
FILE_PATH: Final = re.compile(r"load_id=[0-9a-f]{1,64}-[0-9]{1,9}/[\w-][\w.-]*\.parquet", re.ASCII)


class _LastCheckpoint(msgspec.Struct):
    version: int


class DataFile(msgspec.Struct, frozen=True):
    """A Parquet file of a table: its path in the table's folder, and the range of its keys where known."""

    path: str
    rows: int
    bytes: int
    smallest: int = 0
    largest: int = 0
    written: float = 0  # seconds since 1970, by the writer's clock, of a file that a log lists

    @property
    def load(self) -> str:
        """The load whose rows it has."""
        return self.path[len("load_id=") : self.path.index("/")]


def kind_of(table: str) -> str | None:
    """The kind of content whose rows a table has; None for the table of versions and for those that are `SHARED`."""
    key = catalog.objects()[table].columns[0].name
    return next((kind for kind in KINDS if key == f"{kind}_id"), None)


def tables_of(*kinds: str) -> list[str]:
    """The tables with rows of these kinds, the roots last."""
    names = [table.name for table in catalog.tables() if kind_of(table.name) in kinds]
    return sorted(names, key=lambda name: name[:-1] in KINDS)


@dataclass(frozen=True)
class Lake:
    """A folder or the address of one in an object store, with the options of the store, as `deltalake` takes them."""

    url: str
    options: dict[str, str] | None = field(default=None, repr=False)  # may have secrets
    accepts_earlier: bool = False  # whether a lake of an earlier schema is read, to be upgraded
    # Tables that were opened, as of then.
    _opened: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What was read last of the commits of a table, and its path, and of files: they never change.
    _commits: dict[str, tuple[str, Commit]] = field(default_factory=dict, init=False, repr=False, compare=False)
    # Files of logs that were checked, and the memory of each; several threads check them.
    _checked: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _checking: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)
    blocks: dict[tuple[str, int, int], bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lake, (self.url, self.options, self.accepts_earlier)

    @classmethod
    def at(cls, place: str | os.PathLike[str] | Lake, options: Mapping[str, str] | None = None) -> Lake:
        """The lake of a path or address. Raises `WarehouseError` for a path that the library takes for another."""
        if isinstance(place, Lake):
            return place
        text = os.fspath(place)
        text = text.removeprefix("file://") if text.startswith("file:///") else text
        url = text.rstrip("/") if "://" in text else str(Path(text).absolute())
        if displayed(url) != url:
            raise WarehouseError(f"{displayed(url)}: the path of a lake must be UTF-8")
        if "://" not in url and "%" in url:
            raise WarehouseError(f"{url}: the path of a lake can't have '%'; rename the file or folder")
        return cls(url, None if options is None else dict(options))

    def __str__(self) -> str:
        return self.url

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store."""
        return "://" in self.url

    def uri(self, table: str, path: str = "") -> str:
        """The address of a table, or of a file of it."""
        return f"{self.url}/{table}/{path}" if path else f"{self.url}/{table}"

    def handler(self, sizes: Mapping[str, int] | None = None) -> Any:
        """The files of a lake in a store by the library, which needn't ask for the `sizes` of these."""
        deltalake()
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(self.url, self.options, None if sizes is None else {**sizes})

    def listed(self, folder: str = "") -> dict[str, int]:
        """The paths of all files below a folder of the lake, and their sizes in bytes.

        Raises `WarehouseError` for what links to another place, and for what isn't a file.
        """
        if not self.is_remote:
            sizes = {}
            for path, entry in links.listed(self.url, folder).items():
                with suppress(FileNotFoundError):  # deleted since
                    sizes[path] = entry.stat(follow_symlinks=False).st_size
            return sizes
        from pyarrow.fs import FileSelector

        selector = FileSelector(folder, allow_not_found=True, recursive=True)
        found = self.result(lambda: self.handler().get_file_info_selector(selector))
        return {each.path: each.size for each in found if each.is_file}

    def commits(self, table: str = "captures") -> dict[int, tuple[str, int]]:
        """The path and size of each commit that a table's log has, by version, in order; none without a table.

        Raises `WarehouseError` as `listed` does, and for files of the log that are empty or too large to be read.
        """
        found: dict[int, tuple[str, int]] = {}
        for path, size in sorted(self.listed(f"{table}/_delta_log").items()):
            commit = _COMMIT.search(path)
            most = LARGEST_COMMIT if path.endswith((".json", "_last_checkpoint")) else LARGEST_CHECKPOINT
            # The library takes an empty commit for one without changes.
            if size > most or (commit and size == 0):
                raise WarehouseError(
                    f"{self.uri(path)}: the log is damaged: has {size} bytes; from 1 to {most} are read"
                )
            if commit:
                found[int(commit[1])] = path, size
        return found

    def tables(self) -> list[str]:
        """The tables of which there are files, or folders of loads: those that are `SHARED` first, the roots last."""
        if self.is_remote:
            from pyarrow.fs import FileSelector

            found = self.result(lambda: self.handler().get_file_info_selector(FileSelector("", allow_not_found=True)))
            there = {each.base_name for each in found}
        else:
            there = {each.name for each in Path(self.url).iterdir() if each.is_dir() and any(each.iterdir())}
        return [name for name in (*SHARED, *tables_of(*KINDS)) if name in there]

    def exists(self, table: str = "captures") -> bool:
        """Whether there is a lake, or one of its tables."""
        return table in self._opened or bool(self.commits(table))

    def read_commit(self, path: str, size: int) -> Commit:
        """The metadata of a commit. Raises `WarehouseError` if it is damaged."""
        table = path.partition("/")[0]
        before, commit = self._commits.get(table, ("", None))
        if commit is None or before != path:
            content = self.result(lambda: self._content(path, size))
            try:
                commit = notes.read(content)
            except ValueError as error:
                raise WarehouseError(f"{self.uri(path)}: the log is damaged: {error}") from error
            self._commits[table] = path, commit
        return commit

    def _content(self, path: str, size: int) -> bytes:
        if not self.is_remote:
            return links.content(self.url, path, size)
        with self.handler({path: size}).open_input_file(path) as file:
            return bytes(file.read())

    def find_table(self, table: str) -> DeltaTable | None:
        """A table as it is now; None if there is none. Raises `WarehouseError` for a damaged one."""
        if not (self.is_remote and table in self._opened):
            if not self.commits(table):
                return None
            if not self.is_remote:
                self._check(table)
        try:
            if table in self._opened:
                self._opened[table].update_incremental()
            else:
                self._opened[table] = deltalake().DeltaTable(self.uri(table), None, self.options)
        except (deltalake().exceptions.DeltaError, OSError, ValueError) as error:
            self._check_log(table)
            raise WarehouseError(f"{self.uri(table)}: {reason(error)}") from error
        return self._opened[table]

    def _check(self, table: str) -> None:
        """Refuse what the library would follow, or read without bounds, in the files of a log that it reads: the newest
        checkpoint, and what is of its version or later.

        Raises `WarehouseError` for a checkpoint that names other files to read, anywhere, or takes more memory than
        there is, and for columns that etq doesn't give the table.
        """
        sizes = self.listed(f"{table}/_delta_log")
        first = max((int(found[1]) for path in sizes if (found := _CHECKPOINT.search(path))), default=0)
        if table in self._opened:
            first = min(first, self._opened[table].version())
        types = column_types(table)
        schemas: Iterable[str]
        for path, size in sorted(sizes.items()):
            version = _VERSION.search(path)
            if version is None or int(version[1]) < first:
                continue
            with self._checking:
                if path in self._checked:
                    continue
                try:
                    content = self._content(path, size)
                    if ".checkpoint." in path:
                        taken, schemas = checkpoints.check(self.uri(path), content, sum(self._checked.values()))
                    else:
                        taken, schemas = 0, notes.schemas(content)
                    for schema in schemas:
                        notes.check_schema(schema, types)
                except (OSError, ValueError, RecursionError) as error:
                    raise WarehouseError(f"{self.uri(path)}: the log is damaged: {reason(error)}") from error
                self._checked[path] = taken

    def _check_log(self, table: str) -> None:
        """Raise `WarehouseError` for the first damaged file of a log, which the library doesn't name."""
        for before, after in pairwise(self.commits(table)):  # any number may be the last
            if after > before + 1:
                raise WarehouseError(f"{self.uri(table)}: the log is damaged: version {before + 1} is missing")
        self._check(table)
        listed, pointer = self.listed(f"{table}/_delta_log"), f"{table}/_delta_log/_last_checkpoint"
        if pointer in listed:
            content = self.result(lambda: self._content(pointer, listed[pointer]))
            try:
                found = msgspec.json.decode(content, type=_LastCheckpoint)
                if not any(f"{found.version:020}.checkpoint" in path for path in listed):
                    raise ValueError(f"there is no checkpoint of version {found.version}")
            except (ValueError, RecursionError) as error:
                raise WarehouseError(f"{self.uri(pointer)}: the log is damaged: {reason(error)}") from error

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """What `work` returns for each, in order; several at a time, as most of it is waiting."""
        with ThreadPoolExecutor(16 if self.is_remote else 4) as pool:
            return [*pool.map(work, items)]

    def result(self, work: Callable[[], Any]) -> Any:
        """Return the result of work with the library. Raises `WarehouseError` for what it and the system refuse."""
        try:
            return work()
        except (deltalake().exceptions.DeltaError, OSError, ValueError) as error:
            raise WarehouseError(f"{self}: {reason(error)}") from error


def column_types(table: str) -> dict[str, Any]:
    """The columns of a table in a lake, and their types, as its log has them."""
    types: dict[str, Any] = {}
    for column in catalog.objects()[table].columns:
        name = str(column.type).split()[0]
        primitive = _PRIMITIVES[name.removesuffix("[]")]
        if column.name in {f"{kind}_id" for kind in KINDS}:
            types[column.name] = "long"
        elif name.endswith("[]"):
            types[column.name] = {"type": "array", "elementType": primitive, "containsNull": True}
        else:
            types[column.name] = primitive
    return {**types, "load_id": "string"}


def files_of(table: DeltaTable) -> list[DataFile]:
    """The files that a table's log lists. Raises `WarehouseError` if one isn't in a load's folder of the table."""
    listed = table.get_add_actions(flatten=True)
    columns = [listed.column(name).to_pylist() for name in ("path", "num_records", "size_bytes", "modification_time")]
    for path in columns[0]:
        if not FILE_PATH.fullmatch(path):
            raise WarehouseError(f"{table.table_uri}: its log is damaged: a file is called {path!r}")
    return [DataFile(path, rows, size, written=at / 1e3) for path, rows, size, at in zip(*columns, strict=True)]
