"""Limits the memory for reading a file to what the system, its control groups and the process have left.

A small file may unpack to any size, and JSON takes up to 60 times its size as objects. Without memory, the system kills
this process or others, so a file is refused earlier.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from etq.errors import FormatError

if TYPE_CHECKING:
    import zipfile

# The most bytes of memory per character of JSON, by the character: { for an object of one key, [ for a list, a comma
# for a further value, a colon for a key. Measured with CPython 3.11 to 3.14, for `json` and for msgspec's raw values.
_OBJECTS: Final = {b"{": 160, b"[": 72, b",": 72, b":": 64}
# Bytes of memory per character of a text, including the file's bytes: for a text in ASCII, and for a text with
# characters beyond Latin-1.
_ASCII: Final = 2
_WIDE: Final = 5
# For smaller estimates, the system's free memory isn't looked up.
_LITTLE: Final = 2**24
# The size of the parts in which characters are counted.
_PART: Final = 2**24
# The limit in bytes that `etq ingest --megabytes` sets for this process while it ingests; None without a limit.
limit: Final[ContextVar[int | None]] = ContextVar("limit", default=None)
_GROUPS: Final = Path("/sys/fs/cgroup")
_AVAILABLE: Final = re.compile(r"MemAvailable:\s*(\d+) kB")


def available() -> int:
    """Return how many bytes this process can still take."""
    return max(0, min([_of_system(), *_of_groups(), *_of_process(), *_of_limit()]))


def refuse_beyond(path: str, what: str, byte_size: int) -> None:
    """Raise `FormatError` if this much memory isn't available."""
    if byte_size > _LITTLE and byte_size > (left := available()):
        raise FormatError(
            path,
            f"{what} would take {shown(byte_size)} of memory, and {shown(left)} are left; {_remedy()}, or split it",
        )


def check_json(content: bytes | memoryview, path: str, what: str = "its JSON") -> None:
    """Raise `FormatError` for JSON whose objects may need more memory than is left."""
    if len(content) * (_WIDE + max(_OBJECTS.values())) > _LITTLE:
        refuse_beyond(path, f"{what} of {shown(len(content))}", json_size(content))


def json_size(content: bytes | memoryview) -> int:
    """Return the most memory that JSON may take, as objects and as text."""
    objects, is_wide = 0, False
    for start in range(0, len(content), _PART):
        part = bytes(content[start : start + _PART])
        objects += sum(part.count(each) * byte_size for each, byte_size in _OBJECTS.items())
        is_wide = is_wide or not part.isascii() or b"\\u" in part
    return objects + len(content) * (_WIDE if is_wide else _ASCII)


def read_member(archive: zipfile.ZipFile, name: str, path: str) -> bytes:
    """Return the bytes of a zip's member, at most its stated size; errors are those of `ZipFile.read`.

    Raises `FormatError` for a member that is larger than the free memory.
    """
    size = archive.getinfo(name).file_size
    refuse_beyond(path, f"member {name} of {shown(size)}", size)
    with archive.open(name) as member:
        return member.read(size)


class Watch:
    """Stops reading a file when its rows would need more memory than is left.

    Rows need the stated number of bytes, or by default as much as reading took. The memory of other reading processes
    counts, too.
    """

    def __init__(self, path: str, byte_size: int) -> None:
        self._path, self._byte_size = path, byte_size
        self._before = taken()

    def check(self, read: int, needed: int | None = None) -> None:
        """Raise `FormatError` if there isn't enough memory; `read` is how many bytes of the file were read."""
        grown = taken() - self._before
        needed = grown if needed is None else needed
        if needed > _LITTLE and needed > (left := available()):
            whole = (grown + needed) * self._byte_size // max(read, 1)
            raise FormatError(
                self._path,
                f"reading it would take about {shown(whole)} of memory, and {shown(grown + left)} were left;"
                f" {_remedy()}",
            )


def _remedy() -> str:
    return "free some" if limit.get() is None else "allow more with --megabytes"


def shown(byte_size: int) -> str:
    """Return a size as text, such as 8.6 GB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if byte_size >= factor:
            return f"{byte_size / factor:,.1f} {unit}"
    return f"{byte_size:,} bytes"


def taken() -> int:
    """Return how many bytes of memory this process has."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # on macOS in bytes


def _of_system() -> int:
    with suppress(OSError):
        if (found := _AVAILABLE.search(Path("/proc/meminfo").read_text())) is not None:
            return int(found[1]) * 1024
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2**32


def _of_groups() -> Iterator[int]:
    """Yield the memory left in each control group of the process, of version 2 or 1."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            top = _GROUPS if number == "0" else _GROUPS / "memory"
            names = ("memory.max", "memory.current") if number == "0" else _NAMES_1
            # In a container, the path may be the host's.
            for folder in {top, *(top / each for each in (Path(path.lstrip("/")), *Path(path.lstrip("/")).parents))}:
                yield from _of_group(folder, *names)


_NAMES_1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _of_group(folder: Path, limit: str, usage: str) -> Iterator[int]:
    with suppress(OSError, ValueError):
        most = int((folder / limit).read_text())  # without a limit: the text max, or a number beyond all memory
        used = int((folder / usage).read_text())
        stated = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        # The system gives back its cache of files. Version 1 counts the cache of nested groups separately.
        cached = [stated.get(f"total_{each}", stated.get(each, 0)) for each in ("inactive_file", "active_file")]
        yield most - used + sum(map(int, cached))


def _of_limit() -> Iterator[int]:
    if (most := limit.get()) is not None:
        yield most - taken()


def _of_process() -> Iterator[int]:
    if sys.platform == "linux":
        import resource

        # The size of the address space, and of its writable private part.
        pages = Path("/proc/self/statm").read_text().split()
        for kind, number in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            most = resource.getrlimit(kind)[0]
            if most != resource.RLIM_INFINITY:
                yield most - int(number) * os.sysconf("SC_PAGE_SIZE")
