"""The Delta tables of a lake: one for each base table with rows of captures, records or programs, in `LAKE/<table>`.

A *load* is content that was added together. In each table, its rows are the partition `load_id`. A load is part of the
lake as soon as its rows are in its root table (`captures`, `records` or `programs`), which is committed last.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from etq import catalog
from etq.errors import WarehouseError, displayed
from etq.ingest.stores import deltalake, reason

if TYPE_CHECKING:
    from deltalake import DeltaTable

Item = TypeVar("Item")
Result = TypeVar("Result")
# The kinds of content that have keys, in the order of references.
KINDS: Final = ("program", "record", "capture")
# The tables of comments, which are about series, and of named views. Neither is about one capture. Each commit writes
# such a table as a whole.
COMMENTS: Final = "change_comments"
NAMED_VIEWS: Final = "named_views"
WHOLE: Final = (COMMENTS, NAMED_VIEWS)
_PRIMITIVES: Final = {
    "INTEGER": "integer", "BIGINT": "long", "VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "BLOB": "binary", "DECIMAL(38,0)": "decimal(38,0)",
}  # fmt: skip
_FILE: Final = re.compile(r"load_id=([0-9a-f]{1,64})/[\w-][\w.-]*\.parquet", re.ASCII)
# The features of Delta Lake that etq supports. With other features, rows may be deleted without changing files.
_FEATURES: Final = {"timestampNtz"}
# The properties of a file that are read from a log.
_ABOUT_FILES: Final = ("path", "num_records", "size_bytes")
_PLAIN: Final = "a lake has plain folders and files only"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table: its path in the table's folder, its load, and its numbers of rows and bytes."""

    path: str
    load: str
    rows: int
    bytes: int


def kind_of(table: str) -> str | None:
    """The kind of content whose rows a table has; None for a table that lakes don't have."""
    key = catalog.named(table).columns[0].name
    return next((kind for kind in KINDS if key == f"{kind}_id"), None)


def tables_of(*kinds: str) -> list[str]:
    """The tables with rows of these kinds, the roots last."""
    names = [table.name for table in catalog.tables() if kind_of(table.name) in kinds]
    return sorted(names, key=lambda name: name[:-1] in KINDS)


def all_tables() -> list[str]:
    """The tables that a lake may have."""
    return [*tables_of(*KINDS), *WHOLE]


@dataclass(frozen=True)
class Lake:
    """A folder, or an address in an object store, with the options of the store for `deltalake`."""

    url: str
    options: dict[str, str] | None = field(default=None, repr=False)  # options may have secrets

    @classmethod
    def at(cls, place: str | os.PathLike[str] | Lake, options: Mapping[str, str] | None = None) -> Lake:
        """Return the lake at a path or address. Raises `WarehouseError` for a path that the library would take for
        another one.
        """
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

    def handler(self, sizes: Mapping[str, int]) -> Any:
        """The files of a lake in a store, read by the library; `sizes` saves requests for known sizes."""
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(self.url, self.options, {**sizes})

    def exists(self) -> bool:
        """Whether there is a lake."""
        return self.open("captures") is not None

    def open(self, table: str) -> DeltaTable | None:
        """Return the present state of a table; None if there is none.

        Raises `WarehouseError` for a damaged log, for a log that needs a newer reader, and for a link in a folder.
        """
        uri = self.uri(table)
        if not self.is_remote and not _has_log(uri):
            return None
        module = deltalake()
        try:
            opened = module.DeltaTable(uri, storage_options=self.options)
        except module.exceptions.TableNotFoundError:
            return None
        except (module.exceptions.DeltaError, OSError, ValueError) as error:
            raise WarehouseError(f"{uri}: {reason(error)}") from error
        if unknown := {*(opened.protocol().reader_features or ())} - _FEATURES:
            raise WarehouseError(f"{uri}: needs {', '.join(sorted(unknown))} of Delta Lake, which etq doesn't read")
        return opened

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results of `work` for each item, in order. Several run concurrently, because they mostly wait."""
        with ThreadPoolExecutor(16 if self.is_remote else 4) as pool:
            return [*pool.map(work, items)]


def _has_log(table: str) -> bool:
    """Whether the folder of a table has a log.

    Links and pipes are refused. By a link, somebody else's lake could refer to the reader's files; reading a pipe would
    wait.
    """
    folder, log = Path(table), Path(table, "_delta_log")
    for place in (folder, log):
        if place.is_symlink():
            raise WarehouseError(f"{place}: a link; {_PLAIN}")
        if not place.is_dir():
            return False
    for place in (folder, log):
        with os.scandir(place) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
                    raise WarehouseError(f"{entry.path}: a link, or not a file; {_PLAIN}")
    return True


def files_of(table: DeltaTable | None) -> list[DataFile]:
    """The files that a table's log lists.

    Raises `WarehouseError` if a file isn't in the folder of a load of the table: somebody else's lake must not name
    other files.
    """
    if table is None:
        return []
    listed = table.get_add_actions(flatten=True)
    uri = table.table_uri.rstrip("/")
    folder = Path(unquote(urlsplit(uri).path)) if uri.startswith(("file://", "/")) else None
    found = []
    for path, rows, size in zip(*(listed.column(name).to_pylist() for name in _ABOUT_FILES), strict=True):
        load = _FILE.fullmatch(path)
        if load is None:
            raise WarehouseError(f"{uri}: its log names a file that is not in a load's folder: {displayed(path)}")
        if folder is not None and os.path.lexists(folder / path) and not S_ISREG((folder / path).lstat().st_mode):
            raise WarehouseError(f"{folder / path}: a link, or not a file; {_PLAIN}")
        found.append(DataFile(path, load[1], rows or 0, size))
    return found


def loads_of(table: DeltaTable | None) -> set[str]:
    """The loads that have rows in a table. Raises as `files_of` does."""
    return {file.load for file in files_of(table)}


def column_types(table: str) -> dict[str, Any]:
    """Return the columns of a table in a lake, and their types, from the table's log."""
    types: dict[str, Any] = {}
    for column in catalog.named(table).columns:
        name = str(column.type).split()[0]
        primitive = _PRIMITIVES[name.removesuffix("[]")]
        if column.name in {f"{kind}_id" for kind in KINDS}:
            types[column.name] = "long"
        elif name.endswith("[]"):
            types[column.name] = {"type": "array", "elementType": primitive, "containsNull": True}
        else:
            types[column.name] = primitive
    return {**types, "load_id": "string"}
