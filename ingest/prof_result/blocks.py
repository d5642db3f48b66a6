"""The blocks of a `prof_result.bin` and their headers.

The file is a sequence of blocks. A block is one iteration of the code that its name identifies: a header, then slots
for entries, allocators and allocations. The header has the number of slots of each kind, and the number of used slots,
which come first. All is little-endian and aligned to 8 bytes, as a C compiler lays out ExecuTorch's `profiler.h`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.errors import FormatError

VERSION: Final = 1
# The header: name, version, then the numbers of slots and of used slots for entries, allocators and allocations; padded
# to 8 bytes.
HEADER: Final = struct.Struct("<32s7I4x")
# The properties of an entry that all iterations have in common: name, chain (-1: none), instruction (2**32 - 1: none) …
KEY: Final = struct.Struct("<32sii")
# … and an entry's times, which differ between iterations.
ENTRY: Final = np.dtype([("key", f"V{KEY.size}"), ("start", "<u8"), ("end", "<u8")])
ALLOCATOR: Final = np.dtype([("name", "V32"), ("id", "<u8")])
ALLOCATION: Final = np.dtype([("allocator_id", "<u4"), ("size_bytes", "<u4")])

_VERSION_AT: Final = 32
_PARTS: Final = (("profile entries", ENTRY), ("allocators", ALLOCATOR), ("allocations", ALLOCATION))


@dataclass(frozen=True, slots=True)
class Part:
    """The used slots of one kind in a block: `count` slots from byte `start` of the file."""

    start: int
    count: int
    dtype: np.dtype[Any]

    def read(self, data: Any) -> npt.NDArray[Any]:
        """Return the slots as a structured array, a view of the file's bytes."""
        return np.frombuffer(data, self.dtype, self.count, self.start)


class Block(NamedTuple):
    """One block. `iteration` counts the blocks of the same name."""

    name: str
    iteration: int
    start: int
    entries: Part
    allocators: Part
    allocations: Part

    def __str__(self) -> str:
        return f"block {self.name!r}, iteration {self.iteration}"


def is_prof_result(data: Any, *, is_sure: bool = False) -> bool:
    """Whether a file begins with a header, like a `prof_result.bin`.

    The format has no identifier, so the header is recognized by its content. There are two conditions: the name is
    text, and no more slots are used than exist. If the version is 1, one of them must hold; if it is above 1, both must
    hold, and the reader then rejects the version. With `is_sure`, the version must be 1 and both must hold.
    """
    head = bytes(data[: HEADER.size])
    # Logs and JSON contain no zeros; programs have an identifier.
    if len(head) < _VERSION_AT + 4 or b"\0" not in head or head[4:8] == b"ET12" or head.startswith(b"PK\x03\x04"):
        return False
    name, version, *counts = HEADER.unpack(head.ljust(HEADER.size, b"\xff"))
    text = name.rstrip(b"\0")
    has_name = len(text) > 0 and text.isascii() and text.decode("ascii").isprintable()
    has_room = all(used <= slots for slots, used in zip(counts[::2], counts[1::2], strict=True))
    if is_sure:
        return version == VERSION and has_name and has_room
    if version == VERSION:
        return has_name or has_room
    return version > VERSION and has_name and has_room and len(head) == HEADER.size


def find_blocks(data: Any, path: str) -> list[Block]:
    """Return the blocks of a file, in order; all their slots lie within the file.

    Raises `FormatError`, naming the byte, for a block of another version, a block that uses more slots than it has, and
    a truncated block, even if it only lacks unused slots.
    """
    blocks: list[Block] = []
    iterations: dict[str, int] = {}
    at = 0
    while at < len(data):
        name, counts = _header(data, path, at)
        iterations[name] = iterations.get(name, -1) + 1
        start, parts = at + HEADER.size, []
        for place, (what, dtype) in enumerate(_PARTS):
            slots, used = counts[2 * place : 2 * place + 2]
            if used > slots:
                raise FormatError(
                    path,
                    f"block {name!r} has {used} {what} in use of {slots}; expected no more in use than there are",
                    at + _VERSION_AT + 4 * (2 * place + 2),
                )
            parts.append(Part(start, used, dtype))
            start += slots * dtype.itemsize
        if start > len(data):
            room = ", ".join(f"{counts[2 * place]} {what}" for place, (what, _) in enumerate(_PARTS))
            raise FormatError(
                path,
                f"block {name!r} is truncated, or its header is damaged: it has room for {room}, "
                f"{start - at - HEADER.size} bytes, of which the file has {len(data) - at - HEADER.size}; "
                f"it breaks off at byte {len(data)}",
                at,
            )
        blocks.append(Block(name, iterations[name], at, *parts))
        at = start
    return blocks


def decoded_name(raw: bytes, path: str, what: str, at: int) -> str:
    """Return a name of 32 bytes without its zeros. Raises `FormatError` if it is not UTF-8 text."""
    try:
        return raw.decode().replace("\0", "")
    except UnicodeDecodeError as error:
        raise FormatError(path, f"{what} is not UTF-8 text: {raw!r}", at + error.start) from None


def _header(data: Any, path: str, at: int) -> tuple[str, tuple[int, ...]]:
    """Return the block's name, and the numbers of slots and of used slots for entries, allocators and allocations."""
    if len(data) - at < HEADER.size:
        raise FormatError(
            path,
            f"the prof_result is truncated: expected a block's header of {HEADER.size} bytes, found {len(data) - at}",
            at,
        )
    raw, version, *counts = HEADER.unpack_from(data, at)
    if version != VERSION:
        raise FormatError(path, f"a prof_result of version {version}; expected version {VERSION}", at + _VERSION_AT)
    return decoded_name(raw, path, "a block's name", at), tuple(counts)
