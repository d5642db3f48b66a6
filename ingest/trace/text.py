"""Reads the text of a trace in parts: the bytes of a file, or text unpacked from gzip on another thread."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from etq.errors import FormatError
from etq.ingest.memory import Watch

GZIP: Final = b"\x1f\x8b"
# The largest ratio of a text to its gzip. A file that is compressed more than events can be is a bomb. None of 69 real
# traces unpacks to more than 26 times its size (30 times at level 9 of gzip). Traces of idle processes, with call
# stacks of 14 kB, unpack to 136 times their size; blanks unpack to 229 to 1,030 times.
LARGEST_RATIO: Final = 200
# No profiler writes a larger event, or more text before or after the events.
LARGEST_VALUE: Final = 2**26
# The most bytes of unpacked text that are kept for later reads.
_KEPT: Final = 2**28
# How many bytes of a gzip file are read at once. A bomb is recognized by the size to which they unpack.
PACKED: Final = 2**19
# The size of a part in bytes. Threads wait for each other after each part, so a part has a few megabytes.
_PART: Final = 2**22


class Text:
    """A file's text. `data` has the file's bytes, or reads them from the file when it is sliced. Small text that was
    unpacked or changed is kept until `release`; later reads make it again.
    """

    def __init__(self, data: Any, path: str) -> None:
        self._data = data
        self._path = path
        self._is_packed = bytes(data[:2]) == GZIP
        self._change: Callable[[Iterator[bytes]], Iterator[bytes]] | None = None
        self._is_released = False
        self._kept: list[bytes] | None = None
        self._watch = Watch(path, len(data))
        # The bytes that rows of the parts read so far still need.
        self.needed = 0

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the text.

        Raises `FormatError` for a damaged gzip, for a bomb, and when processing the parts needs more memory than there
        is.
        """
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[bytes] = []
        is_kept, size = (self._is_packed or self._change is not None) and not self._is_released, 0
        for part in self._read() if self._change is None else self._change(self._read()):
            size += len(part)
            is_kept = is_kept and size <= _KEPT
            if is_kept:
                kept.append(part)
            else:
                kept.clear()
            yield part
        self._kept = kept if is_kept else None

    def lists(self, begins: Iterable[int], ends: Iterable[int]) -> Iterator[bytes]:
        """Yield JSON lists of entries: one for each pair of these beginnings and ends in the text, which ascend."""
        if self._is_packed or self._change is not None:
            yield from lists_at(self.parts(), begins, ends)
            return
        for begin, end in zip(begins, ends, strict=True):
            yield b"".join((b"[", self._data[begin:end], b"]"))

    def change(self, change: Callable[[Iterator[bytes]], Iterator[bytes]]) -> None:
        """From now on, yield the parts that this function makes from the file's parts."""
        self._change, self._kept = change, None

    def _read(self) -> Iterator[bytes]:
        for part, read in _prefetched(_unpacked(self._data, self._path)) if self._is_packed else self._plain():
            self._watch.check(read, self.needed)
            yield part

    def _plain(self) -> Iterator[tuple[bytes, int]]:
        for start in range(0, len(self._data), _PART):
            part = self._data[start : start + _PART]
            yield part, start + len(part)

    def release(self) -> None:
        """Free the text that is kept."""
        self._is_released, self._kept = True, None


def lists_at(parts: Iterator[bytes], begins: Iterable[int], ends: Iterable[int]) -> Iterator[bytes]:
    """Yield lists as `Text.lists`, of a text in parts."""
    text, offset = b"", 0
    for begin, end in zip(begins, ends, strict=True):
        if end > offset + len(text):
            while offset + len(text) <= begin:
                offset, text = offset + len(text), next(parts)
            held, offset, size = [text[begin - offset :]], begin, offset + len(text) - begin
            while offset + size < end:
                held.append(next(parts))
                size += len(held[-1])
            text = b"".join(held)
        yield b"".join((b"[", memoryview(text)[begin - offset : end - offset], b"]"))


def _prefetched(parts: Iterator[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Yield the same parts; another thread produces each part while the previous part is used."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, parts, None)
        while (part := waiting.result()) is not None:
            waiting = pool.submit(next, parts, None)
            yield part


def _unpacked(data: Any, path: str) -> Iterator[tuple[bytes, int]]:
    """Yield the text of a gzip file, and how many of the file's bytes were read. The file may have several members,
    with zeros between and after them.
    """
    size, unpacker = 0, None
    try:
        for start in range(0, len(data), PACKED):
            packed = left = bytes(data[start : start + PACKED])
            before, is_full = size, False
            while left or is_full:
                if unpacker is None:
                    left = left.lstrip(b"\0")
                    unpacker = zlib.decompressobj(wbits=31) if left else None
                    is_full = False
                    continue
                part = unpacker.decompress(left, _PART)
                is_full = len(part) == _PART
                size += len(part)
                left = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                allowed = before + LARGEST_RATIO * (len(packed) - len(left)) + 2**20
                if size > allowed:
                    raise FormatError(path, f"the gzip would unpack to more than {allowed:,} bytes, which is refused")
                if part:
                    yield part, start + len(packed) - len(left)
                unpacker = None if unpacker.eof else unpacker
    except zlib.error as error:
        raise FormatError(path, f"the gzip is damaged: {error}") from error
    if unpacker is not None:
        raise FormatError(
            path, f"the gzip is truncated: it ends within a member, after {size:,} bytes of text; copy it again"
        )
