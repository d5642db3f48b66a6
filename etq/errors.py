"""The errors etq raises. Every one of them is an `EtqError`, and its text is one line fit to be shown to a user."""

from __future__ import annotations

import os
import re


def displayed(path: str) -> str:
    """A path as text that can be printed and stored, also where its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


class EtqError(Exception):
    """Anything etq refuses to do: the message says what, where, what was expected and what to do."""


class FormatError(EtqError):
    """A file that is not what it should be.

    The text reads `FILE: at byte OFFSET: WHAT`; `path` and `offset` (bytes from the start of the file, or None where
    the whole file is meant) keep the parts.
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
    """What DuckDB says, in one line, without its own names for kinds of errors."""
    first = str(error).split("\n\nLINE")[0].split("\n\nStack Trace")[0]
    text = re.sub(r"^(?:[A-Z][A-Za-z-]* )*?Error: ", "", " ".join(first.split()))
    return text.removeprefix("Invalid Input Error: ")
