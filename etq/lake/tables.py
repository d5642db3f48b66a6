"""The Delta tables of a lake: where they are, how they are made, and commits to them.

    LAKE/captures/_delta_log/                   the log of a table
    LAKE/captures/load_id=<load>/<name>.parquet the rows of one load

A load is what one writer adds of one kind: some captures, records or programs with their rows in all tables. Its rows
are part of the lake once its root table (`captures`, `records`, `programs`) names them, which is committed last.

A version of the lake is one of `captures`. Each commit of a root table notes the files of its loads in all tables, so
that a reader needs no other log.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
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
Files = Mapping[str, Sequence["File"]]  # of each table
# The kinds of content that have keys, in the order of references.
KINDS: Final = ("program", "record", "capture")
_PRIMITIVES: Final = {
    "INTEGER": "integer", "BIGINT": "long", "VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "BLOB": "binary",
}  # fmt: skip
# Each writer reads all commits since the last checkpoint of each table, twice.
_PROPERTIES: Final = {"delta.checkpointInterval": "10"}
# The name of what commits of root tables note.
_NOTE: Final = "etq"
FILE_PATH: Final = re.compile(r"load_id=[0-9a-f]+-[0-9]+/[\w-][\w.-]*\.parquet")
# What stands before each further line of an error of the library.
_ARROW: Final = re.compile("\x1b\\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}")
# Bytes of its JSON: a small commit of somebody else's lake could be unpacked to any size.
_LARGEST_NOTE: Final = 10**9


class ConflictError(Exception):
    """Another writer was faster: the change must be made again from the new state."""


class File(msgspec.Struct, frozen=True):
    """A Parquet file of a table: its path in the table's folder, and the range of its keys if it is new."""

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


class Note(msgspec.Struct):
    """What a commit of a root table notes.

    files    rows and bytes of each file of its loads, by load, table and name
    dropped  loads that were given up by the commit: their writers, if there are any left, must not commit them
    """

    schema: int = SCHEMA_VERSION
    files: dict[str, dict[str, dict[str, tuple[int, int]]]] = {}
    dropped: list[str] = []


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
    if "deltalake" not in sys.modules and "RUST_LOG" not in os.environ:
        # It reads this as it is imported. Its warnings, one for each place without credentials, hide the error.
        os.environ["RUST_LOG"] = "error"
        try:
            return deltalake()
        finally:
            del os.environ["RUST_LOG"]
    try:
        import deltalake as module
    except ImportError:
        raise WarehouseError("a lake needs deltalake: pip install 'etq[lake]'") from None
    return module


@dataclass(frozen=True)
class Lake:
    """A folder or the address of one in an object store, with the options of the store, as `deltalake` takes them."""

    url: str
    options: dict[str, str] | None = field(default=None, repr=False)  # may have secrets
    # Tables that were opened, as of then.
    _opened: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What was read of commits and files, by path: they never change.
    _notes: dict[str, Note | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    blocks: dict[tuple[str, int, int], bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lake, (self.url, self.options)

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

    def handler(self, sizes: Mapping[str, int] | None = None) -> Any:
        """The files of a lake in a store by the library, which needn't ask for the `sizes` of these."""
        deltalake()
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(self.url, self.options, None if sizes is None else {**sizes})

    def listed(self, folder: str = "") -> dict[str, int]:
        """The paths of all files below a folder of the lake, and their sizes in bytes."""
        if not self.is_remote:
            top = Path(self.url, folder)
            sizes = {}
            for name, _, files in os.walk(top):
                for file in files:
                    with suppress(FileNotFoundError):  # deleted since
                        path = Path(name, file)
                        sizes[path.relative_to(self.url).as_posix()] = path.stat().st_size
            return sizes
        from pyarrow.fs import FileSelector

        selector = FileSelector(folder, allow_not_found=True, recursive=True)
        found = self.result(lambda: self.handler().get_file_info_selector(selector))
        return {each.path: each.size for each in found if each.is_file}

    def commits(self, table: str = "captures") -> dict[int, tuple[str, int]]:
        """The path and size of each commit that a table's log has, by version, in order; none without a table."""
        found = {Path(path).name: (path, size) for path, size in self.listed(f"{table}/_delta_log").items()}
        return {int(name[:20]): found[name] for name in sorted(found) if re.fullmatch(r"\d{20}\.json", name)}

    def tables(self) -> list[str]:
        """The tables of which there is a folder, the roots last."""
        if self.is_remote:
            from pyarrow.fs import FileSelector

            found = self.result(lambda: self.handler().get_file_info_selector(FileSelector("", allow_not_found=True)))
            there = {each.base_name for each in found}
        else:
            there = {each.name for each in Path(self.url).iterdir()}
        return [name for name in tables_of(*KINDS) if name in there]

    def exists(self, table: str = "captures") -> bool:
        """Whether there is a lake, or one of its tables."""
        return table in self._opened or bool(self.commits(table))

    def note(self, path: str, size: int) -> Note | None:
        """What a commit notes; None for one by another program. Raises `WarehouseError` if it is damaged."""

        if path not in self._notes:
            self._notes[path] = self._read_note(path, size)
        return self._notes[path]

    def _read_note(self, path: str, size: int) -> Note | None:
        def content() -> bytes:
            if not self.is_remote:
                return Path(self.url, path).read_bytes()
            with self.handler({path: size}).open_input_file(path) as file:
                return bytes(file.read())

        try:
            for line in self.result(content).splitlines():
                action = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
                if info := action.get("commitInfo"):
                    noted = msgspec.json.decode(info, type=dict[str, Any]).get(_NOTE)
                    if noted is not None:
                        return _decoded(noted)
        except (msgspec.DecodeError, ValueError, zlib.error) as error:
            raise WarehouseError(f"{self}: {path}: the log is damaged: {error}") from error
        return None

    def open(self, table: str) -> DeltaTable:
        """A table as it is now. Raises `WarehouseError` for a missing or damaged one."""
        if table in self._opened:
            self.result(self._opened[table].update_incremental)
        else:
            self._opened[table] = self.result(lambda: deltalake().DeltaTable(self.uri(table), None, self.options))
        return self._opened[table]

    def make(self) -> None:
        """Create an empty lake, unless it exists. Raises `WarehouseError` as `find` does."""
        if not self.find():
            self.make_table("captures")

    def find(self) -> bool:
        """Whether the lake exists. Raises `WarehouseError` if none can be made: for a file, for a folder with other
        files, and where nothing can be written.
        """
        deltalake()
        if self.exists():
            return True
        folder = Path(self.url)
        if self.is_remote:
            return False
        if folder.exists() and not folder.is_dir():
            raise WarehouseError(f"{folder}: a file; a lake is a folder")
        if folder.is_dir() and {each.name for each in folder.iterdir()} - {*tables_of(*KINDS)}:
            raise WarehouseError(f"{folder}: a folder with other things in it; name an empty one for the lake")
        parent = next(each for each in (folder, *folder.parents) if each.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise WarehouseError(f"{parent}: not a folder that can be written; name another for the lake")
        return False

    def make_table(self, table: str) -> DeltaTable:
        """A table as it is now, created if it doesn't exist."""
        module = deltalake()
        properties = module.CommitProperties(custom_metadata={_NOTE: _encoded(Note())})
        for _ in range(10):
            try:
                return self.open(table)  # perhaps another writer's
            except WarehouseError as error:
                if not isinstance(error.__cause__, module.exceptions.TableNotFoundError):
                    raise
            with suppress(module.exceptions.DeltaError):
                module.DeltaTable.create(
                    self.uri(table), _schema(table), "ignore", ["load_id"], table,
                    configuration=_PROPERTIES, storage_options=self.options, commit_properties=properties,
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
        note: Note | None = None,
    ) -> None:
        """Add files to a table, and remove the loads `without`.

        seen  the table as it was seen: the commit is made only if it is still like that
        note  what the commit of a root table notes

        Raises `ConflictError` if the table isn't as it was `seen`, and `WarehouseError` if it can't be written.
        """
        module = deltalake()
        properties = module.CommitProperties(
            custom_metadata=None if note is None else {_NOTE: _encoded(note)},
            max_commit_retries=None if seen is None else 0,
        )
        # Logs are cleaned when a lake is compacted.
        hooks = module.PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
        for attempt in range(100):
            opened = seen or self.make_table(table)
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
                return
            except module.exceptions.CommitFailedError as error:
                if seen is not None:
                    raise ConflictError from error
                if attempt == 99:
                    raise WarehouseError(f"{self.uri(table)}: {error}") from error
                time.sleep(min(0.01 * 2**attempt, 1))
            except (module.exceptions.DeltaError, OSError) as error:
                raise WarehouseError(f"{self.uri(table)}: can't be written: {error}") from error

    def result(self, work: Callable[[], Any]) -> Any:
        """Return the result of work with the library. Raises `WarehouseError` for what it and the system refuse."""
        try:
            return work()
        except (deltalake().exceptions.DeltaError, OSError, ValueError) as error:
            raise WarehouseError(f"{self}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The first and the last line of an error of the library, without the layers between them."""
    lines = [each for line in str(error).splitlines() if (each := _ARROW.sub("", line).strip())]
    if any("credentials" in line or "IMDS" in line for line in lines):
        return (
            "the store needs credentials: set them as its own tools read them, such as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or in storage_options"
        )
    return ": ".join(dict.fromkeys((*lines[:1], *lines[-1:])))


def _decoded(text: str) -> Note:
    """Return a note. Raises `ValueError` or `zlib.error` for a damaged one, and for one that is too large."""
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(base64.b64decode(text, validate=True), _LARGEST_NOTE)
    if not decompressor.eof:
        raise ValueError("a note is cut off or has more than 1 GB")
    return msgspec.json.decode(content, type=Note)


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
    columns = [listed.column(name).to_pylist() for name in ("path", "num_records", "size_bytes", "modification_time")]
    for path in columns[0]:
        if not FILE_PATH.fullmatch(path):
            raise WarehouseError(f"{table.table_uri}: its log is damaged: a file is called {path!r}")
    return [File(path, rows, size, written=at / 1e3) for path, rows, size, at in zip(*columns, strict=True)]


def _action(file: File, key: str) -> Any:
    from deltalake.transaction import AddAction

    smallest, largest = {key: file.smallest}, {key: file.largest}
    stats = {"numRecords": file.rows, "minValues": smallest, "maxValues": largest, "nullCount": {key: 0}}
    written = int(time.time() * 1e3)
    return AddAction(file.path, file.bytes, {"load_id": file.load}, written, True, msgspec.json.encode(stats).decode())


def _encoded(note: Note) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(note))).decode()
