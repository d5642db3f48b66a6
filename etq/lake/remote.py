"""Files of an object store for DuckDB, which reads them by the library that reads the tables, with the same options."""

from __future__ import annotations

import io
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

from fsspec import AbstractFileSystem

from etq.lake.tables import Lake

# Files up to this size are fetched whole, by one request; of larger ones, at least so much at their end, where Parquet
# keeps what is where.
_WHOLE: Final = 1 << 18
# How much of fetched files is kept in memory, in bytes: they never change.
_KEPT: Final = 1 << 27


class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
    """The files of one lake, to be read, with the `sizes` of those that are known.

    requests  how many were made
    fetched   how many bytes were fetched
    """

    cachable = False

    def __init__(self, lake: Lake, store: Any, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.requests = self.fetched = 0
        self.protocol = lake.url.partition("://")[0]
        self._root = lake.url.partition("://")[2].rstrip("/") + "/"
        self._store = store
        self._sizes = dict(sizes)
        self._blocks: dict[tuple[str, int, int], bytes] = {}
        self._lock = Lock()

    def open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> io.BufferedIOBase:
        """A file to be read."""
        if mode != "rb":
            raise OSError(f"{path}: a lake is read-only")
        name = self._name(path)
        return _File(self, name, self._size(name))

    def fetch(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file from `begin` to `end`."""
        size = self._size(name)
        if size <= _WHOLE:
            block = self._block(name, 0, size)
            return block[begin:end]
        tail = size - _WHOLE // 4
        if begin >= tail:
            return self._block(name, tail, size)[begin - tail : end - tail]
        return self._block(name, begin, end)

    def _block(self, name: str, begin: int, end: int) -> bytes:
        key = (name, begin, end)
        with self._lock:
            if key in self._blocks:
                return self._blocks[key]
        with self._store.open_input_file(name) as file:
            file.seek(begin)
            content = bytes(file.read(end - begin))
        with self._lock:
            self.requests += 1
            self.fetched += len(content)
            self._blocks[key] = content
            while len(self._blocks) > 1 and sum(map(len, self._blocks.values())) > _KEPT:
                del self._blocks[next(iter(self._blocks))]
        return content

    def _name(self, path: str) -> str:
        text = path.partition("://")[2] if "://" in path else path
        return text.removeprefix(self._root)

    def _size(self, name: str) -> int:
        if name not in self._sizes:
            self.requests += 1
            self._sizes[name] = int(self._store.get_file_info(name).size)
        return self._sizes[name]

    def exists(self, path: str, **_: Any) -> bool:
        """Whether a file is there; those of the tables are."""
        name = self._name(path)
        return name in self._sizes or bool(self._store.get_file_info(name).is_file)

    def glob(self, path: str, *_: Any, **__: Any) -> list[str]:
        """The file itself: a lake's files are named one by one."""
        return [path]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The size of a file."""
        return {"name": path, "size": self._size(self._name(path)), "type": "file"}

    def isfile(self, path: str) -> bool:
        """Whether it is a file."""
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        """Whether it is a folder: none is asked for."""
        return False

    def modified(self, path: str) -> Any:
        """When it was written: files of a lake never change."""
        import datetime

        return datetime.datetime.fromtimestamp(0, datetime.UTC)


class _File(io.BufferedIOBase):
    """A file of a lake."""

    def __init__(self, files: LakeFiles, name: str, size: int) -> None:
        super().__init__()
        self._files, self._name, self.size, self._place = files, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        end = self.size if size is None or size < 0 else min(self._place + size, self.size)
        content = self._files.fetch(self._name, self._place, end) if end > self._place else b""
        self._place += len(content)
        return content
