"""The errors etq raises. Every one of them is an `EtqError`, and its text is one line fit to be shown to a user."""

from __future__ import annotations

import os
import re
from typing import Final

# What would move the cursor, colour, beep or turn the line around, ends a line, or is half a character.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def displayed(path: str) -> str:
    """A path as text that can be printed and stored, even if its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def printable(text: str) -> str:
    """A text with what a terminal would obey, and what can't be encoded, written out: an escape character as \\x1b."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """The same for text of several lines: their ends stay, and tabs."""
    return _CONTROL.sub(lambda match: match.group() if match.group() in "\n\t" else printable(match.group()), text)


class EtqError(Exception):
    """Anything etq refuses to do: the message names the object, what is wrong with it and what to do.

    What it quotes of files, and their names, may be hostile: the text is printable whatever they hold.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class FormatError(EtqError):
    """A file that is not what it should be.

    The text reads `FILE: at byte OFFSET: WHAT`; `path` and `offset` (bytes from the start of the file, or None for
    the whole file) keep the parts.
    """

    def __init__(self, path: str, what: str, offset: int | None = None) -> None:
        place = "" if offset is None else f"at byte {offset}: "
        super().__init__(f"{path}: {place}{what}")
        self.path = path
        self.offset = offset


class WarehouseError(EtqError):
    """A warehouse that cannot be opened, written, or is of another version."""


class QueryError(EtqError):
    """A question that cannot be answered: SQL that fails, a capture that does not exist."""


def message_of(error: Exception) -> str:
    """DuckDB's message, in one line, without its own names for kinds of errors."""
    first = str(error).split("\n\nLINE")[0].split("\n\nStack Trace")[0]
    # Of rows that one connection reads from another.
    first = first.rsplit("reading the stream registered as 'rows' failed: IOError: ", 1)[-1]
    text = re.sub(r"^(?:[A-Z][A-Za-z-]* )*?Error: ", "", " ".join(first.split()))
    return text.removeprefix("Invalid Input Error: ")
