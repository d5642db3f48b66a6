"""Files of an object store for DuckDB, read by the library that reads the tables, with the same options."""

from __future__ import annotations

import datetime
from threading import Lock
from typing import Any, Final

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

from etq.errors import WarehouseError
from etq.ingest.stores import reason
from etq.lake.reading.state import LakeState

# Files up to this size are fetched completely by one request, which takes less time than several requests for parts.
# From the end of larger files, where Parquet has its index, at least a quarter of this size is fetched.
_WHOLE: Final = 1 << 20
# The most bytes of fetched files that are kept in memory. This is safe because files never change.
_KEPT: Final = 1 << 27


class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
    """The files that are part of a lake, for reading."""

    cachable = False

    def __init__(self, state: LakeState) -> None:
        super().__init__()
        scheme, _, self._root = f"{state.lake.url}/".partition("://")
        self.protocol = scheme
        self._state = state
        self._sizes = {f"{table}/{file.path}": file.bytes for table, files in state.files.items() for file in files}
        self._handler = state.lake.handler(self._sizes)
        self._blocks: dict[tuple[str, int, int], bytes] = {}
        self._lock = Lock()

    def fetch_first(self) -> None:
        """Fetch the end of one file of each table concurrently, because DuckDB reads a view's columns from there."""
        names = [f"{table}/{files[0].path}" for table, files in self._state.files.items()]
        self._state.lake.each(lambda name: self.fetch(name, self._sizes[name] - 1, self._sizes[name]), names)

    def fetch(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file from `begin` to `end`."""
        size = self._sizes[name]
        first = 0 if size <= _WHOLE else size - _WHOLE // 4
        if begin >= first:
            return self._block(name, first, size)[begin - first : end - first]
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
            self._blocks[key] = content
            while len(self._blocks) > 1 and sum(map(len, self._blocks.values())) > _KEPT:
                del self._blocks[next(iter(self._blocks))]
        return content

    def name(self, path: str) -> str:
        """The path of a file in the lake, from its address."""
        return path.partition("://")[2].removeprefix(self._root)

    def glob(self, path: str, *_: Any, **__: Any) -> list[str]:
        """Return the address itself, because no address is a pattern."""
        return [path]

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> AbstractBufferedFile:
        if mode != "rb":
            raise OSError(f"{path}: a lake is read-only")
        return _File(self, path, cache_type="none")

    def exists(self, path: str, **_: Any) -> bool:
        """Whether it is a file of the lake."""
        return self.name(path) in self._sizes

    isfile = exists

    def isdir(self, path: str) -> bool:
        """Return False: stores have no folders."""
        return False

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The size of a file. Raises `FileNotFoundError` for other files."""
        if not self.exists(path):
            raise FileNotFoundError(f"{path}: not a file of the lake")
        return {"name": path, "size": self._sizes[self.name(path)], "type": "file"}

    def unstrip_protocol(self, name: str) -> str:
        """Return the address of a file: paths are addresses already."""
        return name

    def modified(self, path: str) -> datetime.datetime:
        """Return a constant time, because files of a lake never change."""
        return datetime.datetime.fromtimestamp(0, datetime.UTC)


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a lake."""

    def _fetch_range(self, begin: int, end: int) -> bytes:
        return bytes(self.fs.fetch(self.fs.name(self.path), begin, end))
