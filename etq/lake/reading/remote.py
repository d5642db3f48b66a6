"""Files of an object store for DuckDB, which reads them by the library that reads the tables, with the same options."""

from __future__ import annotations

import datetime
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import duckdb
from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

from etq import catalog
from etq.catalog import quoted
from etq.database.temporary import temporary_folder
from etq.errors import WarehouseError
from etq.lake.reading.library import reason
from etq.lake.reading.state import LakeState

# Files up to this size are fetched whole, by one request, which takes less time than several for parts; of larger ones,
# at least a quarter of it at their end, where Parquet has its index.
_WHOLE: Final = 1 << 20
# The most bytes of fetched files that are kept in memory: files never change.
_KEPT: Final = 1 << 27
# Patterns that stand for the files of a table, and the name of a file without rows.
WHOLE, PARTS, _EMPTY = "*.whole", "*.parts", "none.parquet"


class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
    """The files that are part of a lake, for reading.

    requests  number of requests for files
    fetched   number of bytes of files that were fetched
    """

    cachable = False

    def __init__(self, state: LakeState) -> None:
        super().__init__()
        self.requests = self.fetched = 0
        scheme, _, self._root = f"{state.lake.url}/".partition("://")
        self.protocol = scheme
        self.is_empty = False  # whether patterns stand for files without rows, as in the making of views
        self._state = state
        self._sizes = {f"{table}/{each.path}": each.bytes for table, files in state.files.items() for each in files}
        self._handler = state.lake.handler(self._sizes)
        self._blocks = state.lake.blocks
        self._lock = Lock()

    def glob(self, path: str, *_: Any, **__: Any) -> list[str]:
        """The addresses of the files that a pattern, or an address, stands for."""
        table, pattern = self.name(path).split("/", 1)
        if pattern not in (WHOLE, PARTS):
            return [path]
        found = [] if self.is_empty else self._state.paths(table, whole=pattern == WHOLE)
        return found or [self._state.lake.uri(table, _EMPTY)]

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> AbstractBufferedFile:
        if mode != "rb":
            raise OSError(f"{path}: a lake is read-only")
        return _File(self, path, cache_type="none")

    def fetch(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file from `begin` to `end`."""
        size = self._size(name)
        if name.endswith(_EMPTY):
            return _empty(name)[begin:end]
        if size <= _WHOLE:
            return self._block(name, 0, size)[begin:end]
        tail = size - _WHOLE // 4
        if begin >= tail:
            return self._block(name, tail, size)[begin - tail : end - tail]
        return self._block(name, begin, end)

    def _block(self, name: str, begin: int, end: int) -> bytes:
        key = (name, begin, end)
        with self._lock:
            if key in self._blocks:
                return self._blocks[key]
        try:
            with self._handler.open_input_file(name) as file:
                file.seek(begin)
                content = bytes(file.read(end - begin))
        except OSError as error:
            raise WarehouseError(f"{self._state.lake.uri(name)}: {reason(error)}") from None
        with self._lock:
            self.requests += 1
            self.fetched += len(content)
            self._blocks[key] = content
            while len(self._blocks) > 1 and sum(map(len, self._blocks.values())) > _KEPT:
                del self._blocks[next(iter(self._blocks))]
        return content

    def name(self, path: str) -> str:
        """The path of a file in the lake, of its address."""
        return path.partition("://")[2].removeprefix(self._root)

    def _size(self, name: str) -> int:
        """The size of a file, as the lake notes it. Raises `FileNotFoundError` for other files."""
        if name.endswith(f"/{_EMPTY}"):
            return len(_empty(name))
        if name not in self._sizes:
            raise FileNotFoundError(f"{name}: not a file of the lake")
        return self._sizes[name]

    def exists(self, path: str, **_: Any) -> bool:
        """Whether it is a file of the lake."""
        with suppress(FileNotFoundError):
            return bool(self._size(self.name(path)))
        return False

    isfile = exists

    def isdir(self, path: str) -> bool:
        """Whether it is a folder: stores have none."""
        return False

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The size of a file."""
        return {"name": path, "size": self._size(self.name(path)), "type": "file"}

    def unstrip_protocol(self, name: str) -> str:
        """The address of a file: all paths here are addresses."""
        return name

    def modified(self, path: str) -> datetime.datetime:
        """The time when a file was written: files of a lake never change."""
        return datetime.datetime.fromtimestamp(0, datetime.UTC)


@cache
def _empty(name: str) -> bytes:
    """A Parquet file with the columns of a table, and no rows."""
    table = catalog.objects()[name.partition("/")[0]]
    with temporary_folder() as folder, duckdb.connect(":memory:") as connection:
        path = Path(folder) / _EMPTY
        connection.execute(table.statement)
        connection.execute(f"COPY (SELECT *, '' AS load_id FROM {table.name}) TO {quoted(str(path))} (FORMAT parquet)")
        return path.read_bytes()


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a lake."""

    def _fetch_range(self, begin: int, end: int) -> bytes:
        return bytes(self.fs.fetch(self.fs.name(self.path), begin, end))
