"""Finds the ETDumps of a file: one, several concatenated, or printed as base64 into a device's log."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final, NamedTuple

from etq.errors import FormatError
from etq.ingest.etdump.schema import IDENTIFIER
from etq.ingest.memory import Watch

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{4,}={0,2}")
# Base64 text shorter than this doesn't begin a dump: devices print lines of 64 characters or more.
_SHORTEST_FIRST_LINE: Final = 16
# The longest prefix of a dump's line. It is searched again for each word of the line, so a long prefix would take too
# much time.
_LONGEST_PREFIX: Final = 1024
_LINE: Final = re.compile(rb"[^\n]+")
_AROUND: Final = b"\r \t\"'"
_CHANGING: Final = re.compile(rb"[\d\s.:]+")
# Lines of a log between two checks of the memory.
_LINES: Final = 10_000
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_SIZE_PREFIX: Final = 4
_SMALLEST: Final = 8


class Dump(NamedTuple):
    """One ETDump within a file, as bytes [start, end); the u32 reference to its root table comes first."""

    start: int
    end: int


def is_etdump(data: Any) -> bool:
    """Whether a file begins with an ETDump, size-prefixed or not, perhaps after zeros."""
    if IDENTIFIER in (bytes(data[4:8]), bytes(data[8:12])):
        return True
    return bytes(data[:1]) == b"\0" and zeros_before(data) > 0


def zeros_before(data: Any, at: int = 0) -> int:
    """Return the number of zeros between byte `at` and a dump; 0 if no dump follows the zeros."""
    first = _NOT_ZERO.search(data, at)
    if first is None:
        return 0
    # A size, or the reference to the root table, may itself begin with zeros.
    identifier = data.find(IDENTIFIER, first.start(), first.start() + _SIZE_PREFIX + _SMALLEST)
    dump: int = identifier - _SMALLEST
    if dump < at or first.start() < dump:
        return 0
    return dump - at if any(data[dump : dump + _SIZE_PREFIX]) else dump + _SIZE_PREFIX - at


def find_dumps(data: Any, path: str) -> tuple[list[Dump], int]:
    """Return the dumps of a binary file, in order, and the number of bytes after the last dump that belong to none.

    Zeros may precede a dump. A dump with a size prefix has that size; another dump may follow. A dump without a size
    prefix takes the rest of the file. Raises `FormatError` for a truncated dump.
    """
    dumps: list[Dump] = []
    at, size = zeros_before(data), len(data)
    while size - at >= _SIZE_PREFIX + _SMALLEST:
        if bytes(data[at + 8 : at + 12]) == IDENTIFIER:
            length = int.from_bytes(data[at : at + 4], "little")
            end = at + _SIZE_PREFIX + length
            if end > size:
                raise FormatError(
                    path,
                    f"the ETDump is truncated: its size prefix is {length} bytes, the file has {size - at - 4} of "
                    f"them; it breaks off at byte {size}"
                    + (f" ({len(dumps)} whole dumps stand before it)" if dumps else "")
                    + "; copy it again",
                    at,
                )
            dumps.append(Dump(at + _SIZE_PREFIX, end))
            at = end
        elif bytes(data[at + 4 : at + 8]) == IDENTIFIER:
            dumps.append(Dump(at, size))
            at = size
        elif dumps and (zeros := zeros_before(data, at)):
            at += zeros
        elif dumps and at % 8 and not any(data[at : at + 8 - at % 8]):
            at += 8 - at % 8
        else:
            break
    return dumps, size - at


def is_text(data: Any) -> bool:
    """Whether a file begins with text, that is, without zero bytes."""
    return len(data) > 0 and b"\0" not in bytes(data[:4096])


def dumps_in_log(data: Any, path: str) -> list[bytes]:
    """Return the ETDumps that a log contains as base64, decoded; an empty list if there are none.

    A dump begins with base64 text that decodes to an ETDump's first bytes. Each further line of the dump has the same
    prefix (except for numbers in it, such as the time) or no prefix, and has the length of the first line;
    the last line may be shorter. A shorter line is the last one if it completes the size in the size prefix, or,
    without a size prefix, ends in padding. All other text is skipped. The beginning of another dump ends the previous
    one, complete or not.

    Raises `FormatError` for dumps that need more memory than there is.
    """
    found: list[bytes] = []
    letters = bytearray()  # the base64 text of the current dump
    width = wanted = 0
    first_prefix = b""
    watch = Watch(path, len(data))
    for number, each in enumerate(_LINE.finditer(data), 1):
        if number % _LINES == 0:
            watch.check(each.end())
        line = each.group()
        for match in _BASE64.finditer(line):
            if match.start() > _LONGEST_PREFIX:
                break
            token, prefix = match.group(), line[: match.start()]
            head = _decoded(token[:16])
            if len(token) >= _SHORTEST_FIRST_LINE and is_etdump(head):
                if letters:
                    found.append(_decoded(letters))
                letters, width, first_prefix = bytearray(), len(token), _shape(prefix)
                is_prefixed = head[8:12] == IDENTIFIER
                wanted = int.from_bytes(head[:4], "little") + _SIZE_PREFIX if is_prefixed else 0
            elif not letters or not (len(token) == width or _completes(len(letters), token, wanted)):
                continue
            elif _shape(prefix) != first_prefix and token != line.strip(_AROUND):
                continue
            is_last = _completes(len(letters), token, wanted)
            letters += token
            if is_last:
                found.append(_decoded(letters))
                letters = bytearray()
    if letters:
        found.append(_decoded(letters))
    return found


def _shape(prefix: bytes) -> bytes:
    """Return a line's prefix without parts that change from line to line, such as numbers."""
    return _CHANGING.sub(b"", prefix)


def _completes(letters: int, token: bytes, wanted: int) -> bool:
    """Whether this is the last line of a dump: it completes the dump's size or, if the size is unknown, ends in
    padding.
    """
    if not wanted:
        return token.endswith(b"=")
    return (letters + len(token)) * 3 // 4 - token.count(b"=") == wanted


def _decoded(token: bytes | bytearray) -> bytes:
    token = token.rstrip(b"=")
    token = token[: len(token) - (len(token) % 4 == 1)]
    try:
        return base64.b64decode(token + b"=" * (-len(token) % 4))
    except binascii.Error:
        return b""
