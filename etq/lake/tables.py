"""The Delta tables of a lake: where they are, how they are made, and commits to them.

    LAKE/captures/_delta_log/                   the log of a table
    LAKE/captures/load_id=<load>/<name>.parquet the rows of one load

A load is what one writer adds of one kind: some captures, records or programs with their rows in all tables. Its rows
are part of the lake once its root table (`captures`, `records`, `programs`) names them, which is committed last.

A version of the lake is one of `captures`, whose commits note a version of each other table that has rows.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from etq import catalog
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from deltalake import DeltaTable

Item = TypeVar("Item")
Result = TypeVar("Result")
# The kinds of content that have keys, in the order of references.
KINDS: Final = ("program", "record", "capture")
_PRIMITIVES: Final = {
    "INTEGER": "integer", "BIGINT": "long", "VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "BLOB": "binary",
}  # fmt: skip
# Names of what commits of root tables note.
_SCHEMA: Final = "etq schema"
_NOTE: Final = "etq versions"
_DROPPED: Final = "etq dropped"
_PATH: Final = re.compile(r"load_id=[0-9a-f]+-[0-9]+/[\w-][\w.-]*\.parquet")


class ConflictError(Exception):
    """Another writer was faster: the change must be made again from the new state."""


class File(msgspec.Struct, frozen=True):
    """A Parquet file of a table: its path in the table's folder, and its entry in the log."""

    path: str
    load: str
    rows: int
    bytes: int
    smallest: int
    largest: int
    written: float = 0  # seconds since 1970, by the writer's clock


def kind_of(table: str) -> str | None:
    """The kind of content whose rows a table has; None for the table of versions."""
    key = catalog.objects()[table].columns[0].name
    return next((kind for kind in KINDS if key == f"{kind}_id"), None)


def tables_of(*kinds: str) -> list[str]:
    """The tables with rows of these kinds, the roots last."""
    names = [table.name for table in catalog.tables() if kind_of(table.name) in kinds]
    return sorted(names, key=lambda name: name[:-1] in KINDS)


def deltalake() -> Any:
    """The library. Raises `WarehouseError` if it isn't installed."""
    try:
        import deltalake
    except ImportError:
        raise WarehouseError("a lake needs deltalake: pip install 'etq[lake]'") from None
    return deltalake


@dataclass(frozen=True)
class Lake:
    """A folder or the address of one in an object store, with the options of the store, as `deltalake` takes them."""

    url: str
    options: dict[str, str] | None = field(default=None, repr=False)  # may have secrets

    @classmethod
    def at(cls, place: str | os.PathLike[str] | Lake, options: Mapping[str, str] | None = None) -> Lake:
        """The lake of a path or address."""
        if isinstance(place, Lake):
            return place
        text = os.fspath(place)
        text = text.removeprefix("file://") if text.startswith("file:///") else text
        url = text.rstrip("/") if "://" in text else str(Path(text).absolute())
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

    def exists(self, table: str = "captures") -> bool:
        """Whether there is a lake, or one of its tables."""
        if not self.is_remote:
            return any(Path(self.uri(table), "_delta_log").glob("[0-9]*"))
        return bool(self.result(lambda: deltalake().DeltaTable.is_deltatable(self.uri(table), self.options)))

    def open(self, table: str, version: int | None = None) -> DeltaTable:
        """A table as it is now, or was at a version. Raises `WarehouseError` for a missing or damaged one."""
        return self.result(lambda: deltalake().DeltaTable(self.uri(table), version, self.options))

    def make(self) -> None:
        """Create an empty lake, unless it exists. Raises `WarehouseError` for a file, and a folder with other files."""
        deltalake()
        if self.exists():
            return
        folder = Path(self.url)
        if not self.is_remote and folder.exists() and not folder.is_dir():
            raise WarehouseError(f"{folder}: a file; a lake is a folder")
        if not self.is_remote and folder.is_dir() and {each.name for each in folder.iterdir()} - {*tables_of(*KINDS)}:
            raise WarehouseError(f"{folder}: a folder with other things in it; name an empty one for the lake")
        self.make_table("captures")

    def make_table(self, table: str) -> DeltaTable:
        """A table as it is now, created if it doesn't exist."""
        module = deltalake()
        properties = module.CommitProperties(
            custom_metadata={_NOTE: _encode({"captures": 0, _SCHEMA: SCHEMA_VERSION})},
            app_transactions=[module.Transaction(_SCHEMA, SCHEMA_VERSION)],
        )
        for _ in range(10):
            if self.exists(table):  # perhaps by another writer
                break
            with suppress(module.exceptions.DeltaError):
                module.DeltaTable.create(
                    self.uri(table), _schema(table), "ignore", ["load_id"], table,
                    storage_options=self.options, commit_properties=properties,
                )  # fmt: skip
        return self.open(table)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """What `work` returns for each, in order; several at a time, as most of it is waiting."""
        with ThreadPoolExecutor(16 if self.is_remote else 4) as pool:
            return [*pool.map(work, items)]

    def commit(
        self,
        table: str,
        added: Sequence[File],
        without: Collection[str] = (),
        *,
        seen: DeltaTable | None = None,
        versions: Mapping[str, int] | None = None,
        dropped: Sequence[str] = (),
    ) -> int:
        """Add files to a table, and remove the loads `without`; returns a version of the table that has the files.

        seen      the table as it was seen: the commit is made only if it is still like that
        versions  versions of other tables to be noted, see `State`
        dropped   loads that were given up: their writers, if there are any left, must not commit them

        Raises `ConflictError` if the table isn't as it was `seen`, and `WarehouseError` if it can't be written.
        """
        module = deltalake()
        metadata = {_DROPPED: " ".join(dropped)} if dropped else {}
        changed: dict[str, int] = {}
        if seen is not None and table == "captures":
            noted = self.versions(seen)
            changed = {name: max(version, noted.get(name, 0)) for name, version in (versions or {}).items()}
            metadata[_NOTE] = _encode({**noted, **changed, "captures": int(seen.version()) + 1})
        properties = module.CommitProperties(
            custom_metadata=metadata or None,
            max_commit_retries=None if seen is None else 0,
            app_transactions=[module.Transaction(*each) for each in changed.items()] or None,
        )
        for attempt in range(100):
            opened = seen or self.make_table(table)
            before = int(opened.version())
            try:
                opened.create_write_transaction(
                    [_action(each, f"{kind_of(table)}_id") for each in added],
                    "overwrite" if without else "append",
                    opened.schema(),
                    ["load_id"],
                    [("load_id", "in", [*without])] if without else None,
                    commit_properties=properties,
                )
            except module.exceptions.CommitFailedError as error:
                if seen is not None:
                    raise ConflictError from error
                if attempt == 99:
                    raise WarehouseError(f"{self.uri(table)}: {error}") from error
                time.sleep(min(0.01 * 2**attempt, 1))
                continue
            except (module.exceptions.DeltaError, OSError) as error:
                raise WarehouseError(f"{self.uri(table)}: can't be written: {error}") from error
            return before + 1 if seen is not None else self.open(table).version()
        raise AssertionError

    def versions(self, captures: DeltaTable) -> dict[str, int]:
        """The versions of the tables that have rows, and of the schema, as `captures` notes them.

        The last commit has all of them, or one shortly before it, if another program optimized the table; otherwise
        each is looked up in the log.
        """
        for limit in (1, 8):
            try:
                # The library also gives commits that came after this version, and numbers them wrongly.
                entries = self.result(partial(captures.history, limit))
                noted = [msgspec.json.decode(each[_NOTE], type=dict[str, int]) for each in entries if _NOTE in each]
            except msgspec.DecodeError as error:
                raise WarehouseError(f"{self.uri('captures')}: its log is damaged: {error}") from error
            if noted := [each for each in noted if each["captures"] <= captures.version()]:
                return max(noted, key=lambda each: each["captures"])
        names = (_SCHEMA, *tables_of(*KINDS))
        found = {name: version for name in names if (version := captures.transaction_version(name)) is not None}
        return {**found, "captures": captures.version()}

    def dropped(self, root: DeltaTable, since: int) -> set[str]:
        """The loads that were given up by commits of a root table after a version."""
        number = root.version() - since
        entries = self.result(lambda: root.history(number)) if number else []
        return {load for each in entries for load in each.get(_DROPPED, "").split()}

    def result(self, work: Callable[[], Any]) -> Any:
        """Return the result of work with the library. Raises `WarehouseError` for what it and the system refuse."""
        module = deltalake()
        try:
            return work()
        except (module.exceptions.DeltaError, OSError, ValueError) as error:
            raise WarehouseError(f"{self}: {str(error).splitlines()[0]}") from error


class State:
    """The content of a lake at a version: each table is opened when it is asked for.

    Tables are read as `captures` noted them, so that all are of one moment; with `latest`, as they are now, also those
    in which the lake has no rows yet.
    """

    def __init__(self, lake: Lake, captures: DeltaTable, *, is_older: bool = False, latest: bool = False) -> None:
        self.lake, self.captures, self.versions = lake, captures, lake.versions(captures)
        self._is_older, self._latest = is_older, latest
        self._opened: dict[str, DeltaTable | None] = {"captures": captures}
        self._files: dict[str, list[File]] = {}
        self._loads: dict[str, dict[str, bool]] = {}

    @property
    def version(self) -> int:
        """The version of the lake, which is that of `captures`."""
        return int(self.captures.version())

    def has(self, table: str) -> bool:
        """Whether a table may have rows of the lake."""
        return table in self.versions

    def table(self, name: str) -> DeltaTable | None:
        """A table; None if it has no rows."""
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def _open(self, name: str) -> DeltaTable | None:
        if self._latest:
            return self.lake.open(name) if self.lake.exists(name) else None
        if not self.has(name):
            return None
        try:
            return self.lake.open(name, self.versions[name])
        except WarehouseError:
            if self._is_older:
                raise
            return self.lake.open(name)  # Rows are only added after that version, as long as its log is there.

    def opened(self, name: str) -> DeltaTable:
        """A table that has rows."""
        opened = self.table(name)
        assert opened is not None, f"{name} has no rows"
        return opened

    def open_all(self, *kinds: str) -> list[str]:
        """Open all tables of kinds, by default of all, several at a time; the names of those that exist."""
        names = [name for name in tables_of(*(kinds or KINDS)) if self._latest or self.has(name)]
        self.lake.each(self.files, names)
        return [name for name in names if self.table(name) is not None]

    def files(self, table: str) -> list[File]:
        """The files of a table, also of loads that are not part of the lake."""
        if table not in self._files:
            opened = self.table(table)
            self._files[table] = [] if opened is None else files_of(opened)
        return self._files[table]

    def loads(self, kind: str) -> dict[str, bool]:
        """The loads of a kind, and whether all that each wrote is part of the lake."""
        if kind not in self._loads:
            rows: dict[str, int] = {}
            for each in self.files(f"{kind}s"):
                rows[each.load] = rows.get(each.load, 0) + each.rows
            # The number of captures, records or programs that a load wrote is part of its name.
            self._loads[kind] = {load: number == int(load.rpartition("-")[2]) for load, number in rows.items()}
        return self._loads[kind]

    def paths(self, table: str, *, whole: bool = True) -> list[str]:
        """The addresses of a table's files of which all rows are the lake's; or, with `whole` false, only some."""
        kind = str(kind_of(table))
        chosen = self.files(table)
        if table != f"{kind}s":
            chosen = [each for each in chosen if self.loads(kind).get(each.load) is whole]
        elif not whole:
            return []
        return [self.lake.uri(table, each.path) for each in chosen]

    def dead(self, table: str) -> list[File]:
        """The files of loads that are not part of the lake."""
        loads = self.loads(str(kind_of(table)))
        return [each for each in self.files(table) if each.load not in loads]


def read(lake: Lake, version: int | None = None, *, latest: bool = False) -> State:
    """The content of a lake now, or at a version; see `State`.

    Raises `WarehouseError` for what isn't a lake, and for a damaged one.
    """
    try:
        captures = lake.open("captures", version)
    except WarehouseError:
        if not lake.exists():
            raise WarehouseError(f"{lake}: not a lake; make one with: etq lake add {lake} FILE...") from None
        raise
    state = State(lake, captures, is_older=version is not None, latest=latest)
    schema = state.versions.get(_SCHEMA)
    if schema != SCHEMA_VERSION:
        raise WarehouseError(
            f"{lake}: made by another version of etq (schema {schema}; this is {SCHEMA_VERSION}); add the files "
            "again to a new lake"
        )
    return state


def _schema(table: str) -> Any:
    """The columns of a table in a lake."""
    module = deltalake()
    types = __import__("deltalake.schema", fromlist=["ArrayType", "Field", "PrimitiveType"])

    def delta_type(column: catalog.Column) -> Any:
        if column.name in {f"{kind}_id" for kind in KINDS}:
            return types.PrimitiveType("long")
        name = str(column.type).split()[0]
        primitive = types.PrimitiveType(_PRIMITIVES[name.removesuffix("[]")])
        return types.ArrayType(primitive, True) if name.endswith("[]") else primitive

    columns = [types.Field(column.name, delta_type(column), True) for column in catalog.objects()[table].columns]
    return module.Schema([*columns, types.Field("load_id", types.PrimitiveType("string"), True)])


def files_of(table: DeltaTable) -> list[File]:
    """The files that a table's log lists. Raises `WarehouseError` if one isn't in a load's folder of the table."""
    listed = table.get_add_actions(flatten=True)
    key = table.schema().fields[0].name

    def values(name: str) -> list[Any]:
        return [*listed.column(name).to_pylist()] if name in listed.column_names else [0] * listed.num_rows

    columns = [
        values(name) for name in ("path", "partition.load_id", "num_records", "size_bytes", f"min.{key}", f"max.{key}")
    ]
    for path in columns[0]:
        if not _PATH.fullmatch(path):
            raise WarehouseError(f"{table.table_uri}: its log is damaged: a file is called {path!r}")
    written = [each / 1e3 for each in values("modification_time")]
    return [File(*row) for row in zip(*columns, written, strict=True)]


def _action(file: File, key: str) -> Any:
    from deltalake.transaction import AddAction

    smallest, largest = {key: file.smallest}, {key: file.largest}
    stats = {"numRecords": file.rows, "minValues": smallest, "maxValues": largest, "nullCount": {key: 0}}
    partition = {"load_id": file.load}
    written = int(time.time() * 1e3)
    return AddAction(file.path, file.bytes, partition, written, True, _encode(stats))


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
