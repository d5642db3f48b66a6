"""The Delta tables of a lake: where they are, how they are made, and commits to them.

    LAKE/captures/_delta_log/                   what Delta Lake keeps of a table
    LAKE/captures/load_id=<load>/<name>.parquet the rows of one load

A load is what one writer adds of one kind: some captures, records or programs with their rows in all tables. Rows of a
load are the lake's once its root table (`captures`, `records`, `programs`), which is committed last, names them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from etq import catalog
from etq.catalog import SqlObject
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from deltalake import DeltaTable

Item = TypeVar("Item")
Result = TypeVar("Result")
# The kinds of content that have keys, in the order of references.
KINDS: Final = ("program", "record", "capture")
ROOTS: Final = ("programs", "records", "captures")
_PRIMITIVES: Final = {
    "INTEGER": "integer", "BIGINT": "long", "VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "BLOB": "binary",
}  # fmt: skip
_METADATA: Final = "etq"
_PATH: Final = re.compile(r"load_id=[0-9a-f]+-[0-9]+/[\w-][\w.-]*\.parquet")


class ConflictError(Exception):
    """Another writer was faster: the change must be made again from the new state."""


@contextmanager
def writing(lake: Lake) -> Iterator[None]:
    """Raise what the system refuses meanwhile as `WarehouseError`."""
    try:
        yield
    except OSError as error:
        raise WarehouseError(f"{lake}: can't be written: {(error.strerror or str(error)).lower()}") from error


class File(msgspec.Struct, frozen=True):
    """A Parquet file of a table: its path below the table, and what Delta's log has of it."""

    path: str
    load: str
    rows: int
    bytes: int
    smallest: int
    largest: int
    written: float = 0  # seconds since 1970, by the writer's clock


class Note(msgspec.Struct):
    """The state of the whole lake, noted in each commit of `captures`.

    schema   version of the tables
    tables   the tables that have rows, with a version of each that has all rows of the lake as of the commit
    dropped  loads that were given up: their writers, if there are any left, must not commit them
    """

    schema: int
    tables: dict[str, int] = {}
    dropped: list[str] = []


def kind_of(table: SqlObject) -> str | None:
    """The kind of content whose rows a table has, None for the table of versions."""
    return next((kind for kind in KINDS if table.columns[0].name == f"{kind}_id"), None)


def tables_of(kind: str) -> list[str]:
    """The tables with rows of a kind, its root last."""
    names = [table.name for table in catalog.tables() if kind_of(table) == kind]
    return sorted(names, key=f"{kind}s".__eq__)


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
    options: Mapping[str, str] | None = field(default=None, repr=False)  # may have secrets

    @classmethod
    def at(cls, place: str | os.PathLike[str] | Lake, options: Mapping[str, str] | None = None) -> Lake:
        """The lake of a path or address."""
        if isinstance(place, Lake):
            return place
        text = os.fspath(place)
        text = text.removeprefix("file://") if text.startswith("file:///") else text
        return cls(text.rstrip("/") if "://" in text else str(Path(text).absolute()), options)

    def __str__(self) -> str:
        return self.url

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store."""
        return "://" in self.url

    def uri(self, table: str, path: str = "") -> str:
        """The address of a table, or of a file of it."""
        return f"{self.url}/{table}/{path}" if path else f"{self.url}/{table}"

    def exists(self) -> bool:
        """Whether there is a lake."""
        if not self.is_remote:
            return os.path.isdir(f"{self.url}/captures/_delta_log")
        return bool(self._asked(lambda: deltalake().DeltaTable.is_deltatable(self.uri("captures"), self._options)))

    def open(self, table: str, version: int | None = None) -> DeltaTable:
        """A table as it is now, or was. Raises `WarehouseError` for a missing or damaged one."""
        module = deltalake()
        return self._asked(lambda: module.DeltaTable(self.uri(table), version, self._options))

    def make(self) -> None:
        """Create an empty lake, unless it exists. Raises `WarehouseError` for a file, and a folder with other files."""
        module = deltalake()
        if self.exists():
            return
        if not self.is_remote:
            self._make_folder()

        def create(table: str) -> None:
            for _ in range(10):
                try:
                    module.DeltaTable.create(
                        self.uri(table), schema(table), "ignore", ["load_id"], table, storage_options=self._options
                    )
                    return
                except module.exceptions.DeltaError:
                    if module.DeltaTable.is_deltatable(self.uri(table), self._options):
                        return  # Another writer was first.
            self.open(table)

        # `captures` last: a lake exists once that does.
        names = [name for kind in KINDS for name in tables_of(kind)]
        self._asked(lambda: self.each(create, names[:-1]))
        self._asked(lambda: create(names[-1]))

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """What `work` returns for each, in order; several at a time where it is a store that answers."""
        with ThreadPoolExecutor(16 if self.is_remote else 4) as pool:
            return [*pool.map(work, items)]

    def commit(
        self,
        table: str,
        files: Iterable[File],
        without: Collection[str] = (),
        *,
        seen: DeltaTable | None = None,
        note: Note | None = None,
    ) -> int:
        """Add files to a table, and remove the loads `without`; returns a version of the table that has them.

        With `seen`, only if the table is as it was seen. Raises `ConflictError` if it isn't.
        """
        module = deltalake()
        properties = module.CommitProperties(
            custom_metadata=None if note is None else {_METADATA: msgspec.json.encode(note).decode()},
            max_commit_retries=None if seen is None else 0,
        )
        key = f"{kind_of(catalog.objects()[table])}_id"
        actions = [_action(each, key) for each in files]
        filters = [("load_id", "in", [*without])] if without else None
        for attempt in range(100):
            opened = seen or self.open(table)
            try:
                opened.create_write_transaction(
                    actions,
                    "overwrite" if without else "append",
                    opened.schema(),
                    ["load_id"],
                    filters,
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
            version: int = opened.version() + 1
            return version if seen is not None else max(self.open(table).version(), version)
        raise AssertionError

    def notes(self, captures: DeltaTable, since: int | None = None) -> list[tuple[int, Note]]:
        """The notes in the commits of `captures` after a version, latest first; by default, the latest note."""
        limit = 1 if since is None else captures.version() - since
        while True:
            try:
                history = captures.history(limit) if limit else []
                found = [
                    (entry["version"], msgspec.json.decode(entry[_METADATA], type=Note))
                    for entry in history
                    if _METADATA in entry and (since or -1) < entry["version"] <= captures.version()
                ]
            except (deltalake().exceptions.DeltaError, msgspec.DecodeError, OSError) as error:
                raise WarehouseError(f"{self.uri('captures')}: its log is damaged: {error}") from error
            if since is not None or found or len(history) < limit:
                return found
            limit *= 8  # Others may have optimized the table meanwhile.

    def note(self, captures: DeltaTable, versions: Mapping[str, int], dropped: Iterable[str] = ()) -> Note:
        """The note of the commit after this version of `captures`, with these versions of the tables it changed."""
        before = self.notes(captures)
        tables = dict(before[0][1].tables) if before else {}
        for table, version in versions.items():
            tables[table] = max(version, tables.get(table, 0))
        return Note(SCHEMA_VERSION, tables, [*dropped])

    @property
    def _options(self) -> dict[str, str] | None:
        return None if self.options is None else dict(self.options)

    def _make_folder(self) -> None:
        folder = Path(self.url)
        if folder.exists() and not folder.is_dir():
            raise WarehouseError(f"{folder}: a file; a lake is a folder")
        names = {name for kind in KINDS for name in tables_of(kind)}
        if folder.is_dir() and any(each.name not in names for each in folder.iterdir()):
            raise WarehouseError(f"{folder}: a folder with other things in it; name an empty one for the lake")

    def _asked(self, work: Callable[[], Result]) -> Result:
        module = deltalake()
        try:
            return work()
        except (module.exceptions.DeltaError, OSError, ValueError) as error:
            raise WarehouseError(f"{self}: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True)
class State:
    """What a lake holds: the version of `captures`, and the tables that have rows, as they were together."""

    lake: Lake
    opened: Mapping[str, DeltaTable]
    note: Note

    @property
    def version(self) -> int:
        """The version of the lake, which is that of `captures`."""
        version: int = self.opened["captures"].version()
        return version

    @cached_property
    def files(self) -> dict[str, list[File]]:
        """The files of each table, also of loads that aren't the lake's."""
        listed = self.lake.each(files_of, self.opened.values())
        return dict(zip(self.opened, listed, strict=True))

    @cached_property
    def loads(self) -> dict[str, dict[str, bool]]:
        """The loads of each kind, and whether all that each wrote is the lake's."""
        found: dict[str, dict[str, bool]] = {}
        for kind in KINDS:
            rows: dict[str, int] = {}
            for each in self.files.get(f"{kind}s", []):
                rows[each.load] = rows.get(each.load, 0) + each.rows
            found[kind] = {load: number == contents(load) for load, number in rows.items()}
        return found

    def paths(self, table: str, *, whole: bool = True) -> list[str]:
        """The addresses of a table's files of which all rows are the lake's; or, with `whole` false, only some."""
        kind = kind_of(catalog.objects()[table])
        if kind is None or table not in self.files:
            return []
        if table == f"{kind}s":
            chosen = [each for each in self.files[table] if whole]
        else:
            chosen = [each for each in self.files[table] if self.loads[kind].get(each.load) is whole]
        return [self.lake.uri(table, each.path) for each in chosen]

    def dead(self) -> dict[str, list[File]]:
        """The files of loads that aren't the lake's, by table."""
        found = {}
        for table, files in self.files.items():
            kind = kind_of(catalog.objects()[table])
            if kind and (dead := [each for each in files if each.load not in self.loads[kind]]):
                found[table] = dead
        return found


def read(lake: Lake, version: int | None = None, *, every: bool = False) -> State:
    """What a lake holds now, or held at a version; with `every`, also the tables in which it has no rows.

    Raises `WarehouseError` for what isn't a lake, and for a damaged one.
    """
    deltalake()
    if not lake.exists():
        raise WarehouseError(f"{lake}: not a lake; make one with: etq lake add {lake} FILE...")
    while True:
        captures = lake.open("captures", version)
        notes = lake.notes(captures)
        note = notes[0][1] if notes else Note(SCHEMA_VERSION)
        if note.schema != SCHEMA_VERSION:
            raise WarehouseError(
                f"{lake}: made by another version of etq (schema {note.schema}; this is {SCHEMA_VERSION}); add "
                "the files again to a new lake"
            )

        def open_(name: str, note: Note = note) -> DeltaTable:
            return lake.open(name, None if version is None else note.tables[name])

        opened = {"captures": captures}
        # The roots first: rows of children are there before their root.
        for is_root in (True, False):
            listed = [name for kind in KINDS for name in tables_of(kind)] if every else note.tables
            names = [name for name in listed if name not in opened and is_root == (name in ROOTS)]
            opened.update(zip(names, lake.each(open_, names), strict=True))
        # Rows leave a table only after a commit of `captures` that gives them up.
        latest = captures if version is not None else lake.open("captures")
        since = [] if latest.version() == captures.version() else lake.notes(latest, captures.version())
        if not any(note.dropped for _, note in since):
            return State(lake, opened, note)


def contents(load: str) -> int:
    """How many captures, records or programs a load has written, which its name contains."""
    return int(load.rpartition("-")[2])


def schema(table: str) -> Any:
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
    [key] = {field.name for field in table.schema().fields[:1]}
    count = listed.num_rows

    def values(name: str) -> list[Any]:
        return [*listed.column(name).to_pylist()] if name in listed.column_names else [0] * count

    columns: Sequence[list[Any]] = [
        values(name) for name in ("path", "partition.load_id", "num_records", "size_bytes", f"min.{key}", f"max.{key}")
    ]
    written = [each / 1e3 for each in values("modification_time")]
    for path in columns[0]:
        if not _PATH.fullmatch(path):
            raise WarehouseError(f"{table.table_uri}: its log is damaged: a file is called {path!r}")
    return [File(*row) for row in zip(*columns, written, strict=True)]


def _action(file: File, key: str) -> Any:
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": file.rows,
        "minValues": {key: file.smallest},
        "maxValues": {key: file.largest},
        "nullCount": {key: 0},
    }
    return AddAction(
        file.path, file.bytes, {"load_id": file.load}, int(time.time() * 1e3), True, msgspec.json.encode(stats).decode()
    )
