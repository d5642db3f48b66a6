"""The errors etq raises. Every one of them is an `EtqError`, and its text is one line fit to be shown to a user."""

from __future__ import annotations

import os
import re
from typing import Final

# Characters that move the cursor, colour text, beep, reverse or end the line, or are hidden; and halves of characters.
_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# The longest name that an error quotes, and the longest path and message: a file's names may be of any length.
LONGEST_NAME: Final = 120
_LONGEST_PATH: Final = 400
_LONGEST: Final = 2000
_QUOTED: Final = re.compile(rf"(?:(?<=[\s(]')|(?<=^'))[^']{{{LONGEST_NAME + 1},}}(?=')")
_WORD: Final = re.compile(rf"\S{{{LONGEST_NAME + 1},}}")


def displayed(path: str) -> str:
    """A path as text that can be printed and stored, even if its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def printable(text: str) -> str:
    """A text with control characters and characters that can't be encoded written out: an escape character as \\x1b."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """The same for text of several lines: their ends stay, and tabs."""
    return _CONTROL.sub(lambda match: match.group() if match.group() in "\n\t" else printable(match.group()), text)


def shortened(message: str) -> str:
    """A message with names of at most `LONGEST_NAME` characters: their begin and their end."""
    if len(message) <= LONGEST_NAME:
        return message
    text = _WORD.sub(_cut_name, _QUOTED.sub(_cut_name, message))
    return _cut(text, _LONGEST)


def _cut_name(match: re.Match[str]) -> str:
    return _cut(match.group(), _LONGEST_PATH if "/" in match.group() else LONGEST_NAME)


def _cut(text: str, length: int) -> str:
    end = length // 3
    return text if len(text) <= length else f"{text[: length - 1 - end]}…{text[-end:]}"


class EtqError(Exception):
    """Anything etq refuses to do: the message names the object, what is wrong with it and what to do.

    What it quotes of files, and their names, may be hostile: the text is printable whatever they hold, and has no name
    in full that is longer than `LONGEST_NAME`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(shortened(message)))


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
