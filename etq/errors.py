"""The errors that etq raises. All of them are `EtqError`s, whose text is one line that can be shown to a user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

# Characters that move the cursor, colour text, beep, reverse text or end the line; hidden characters; lone surrogates.
_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# The longest name that an error quotes, and the longest path and message: names in files may have any length.
LONGEST_NAME: Final = 120
_LONGEST_PATH: Final = 400
_LONGEST: Final = 2000
_QUOTED: Final = re.compile(rf"(?:(?<=[\s(]')|(?<=^'))[^']{{{LONGEST_NAME + 1},}}(?=')")
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n.*\n(?:\w+\.)*\w+: ", re.DOTALL)
_NESTED: Final = re.compile(r'\{"exception_type":"\w*","exception_message":"(?:[^"\\]|\\.)*"[^{}]*\}')
_UNKNOWN: Final = re.compile(r"no (capture|record|program) matches (.+?)(; .*)?", re.DOTALL)
# A name with at least this similarity may be the intended one: p51 for p50, but not per_call for calls.
_NEAR: Final = 0.66
_WORD: Final = re.compile(rf"\S{{{LONGEST_NAME + 1},}}")


def path_of(given: object) -> str:
    """Return a path given as text or as a path object. Raises `ArgumentTypeError` for another type."""
    try:
        path = os.fspath(given)  # type: ignore[call-overload]
    except TypeError:
        path = None
    if isinstance(path, str):
        return path
    raise ArgumentTypeError(f"a path is a text or a pathlib.Path, not {given!r}")


def displayed(path: str) -> str:
    """Return a path as text that can be printed and stored, even if its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def printable(text: str) -> str:
    """Return a text in which control characters and characters that can't be encoded are escaped, such as \x1b."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """Return a character escaped; one that stands for a byte of a path, as that byte, like `displayed`."""
    character = match.group()
    is_byte = "\udc80" <= character <= "\udcff"
    return displayed(character) if is_byte else character.encode("unicode_escape").decode()


def printable_lines(text: str) -> str:
    """Return a text of several lines, escaped as by `printable` except for line ends and tabs."""
    return _CONTROL.sub(lambda match: match.group() if match.group() in "\n\t" else printable(match.group()), text)


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun: `one` for 1, otherwise `several`, by default with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def listed(one: str, names: Collection[str]) -> str:
    """Return a clause that lists names of a kind: "label is a", "labels are a, b"."""
    return f"{one} is {next(iter(names))}" if len(names) == 1 else f"{one}s are {', '.join(names)}"


def shortened(message: str) -> str:
    """Return a message in which names longer than `LONGEST_NAME` characters are shortened to their beginning and
    end.
    """
    if len(message) <= LONGEST_NAME:
        return message
    text = _WORD.sub(_cut_name, _QUOTED.sub(_cut_name, message))
    return _cut(text, _LONGEST)


def _cut_name(match: re.Match[str]) -> str:
    return _cut(match.group(), _LONGEST_PATH if "/" in match.group() else LONGEST_NAME)


def _cut(text: str, length: int) -> str:
    end = length // 3
    return text if len(text) <= length else f"{text[: length - 1 - end]}…{text[-end:]}"


def nearest_words(word: str, known: Iterable[str]) -> str:
    """Return the words most similar to another, as the end of an error message; empty if there are none."""
    near = _nearest(word, known)
    return f"; the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else ""


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    import difflib

    # The time to compare texts grows with the product of their lengths; a word this long is not a mistyped name.
    return [] if len(word) > LONGEST_NAME else difflib.get_close_matches(word, list(known), cutoff=_NEAR)


def nearest_files(path: str) -> str:
    """Return the files of the same folder whose names are this one with an ending, or else the most similar ones, as
    the end of an error message; empty if there are none.
    """
    folder, name = os.path.split(path)
    try:
        known = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return ""
    with_ending = [each for each in known if name and each.startswith(f"{name}.")]
    near = with_ending[:3] or _nearest(name, known)
    files = "the nearest file is" if len(near) == 1 else "the nearest files are"
    return displayed(f"; {files} {', '.join(near)}") if near else ""


def json_error(error: Exception) -> str:
    """Return the message of an error of a JSON decoder; that of deep nesting differs between versions of Python."""
    return "JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)


class EtqError(Exception):
    """etq refuses to do something: the message names the object, what is wrong with it, and what to do.

    Names and contents of files that the message quotes may be hostile: they are escaped, so the text is always
    printable, and names longer than `LONGEST_NAME` are shortened.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(shortened(message)))


class FormatError(EtqError):
    """A file is damaged, truncated or of an unexpected format.

    The text is `FILE: at byte OFFSET: WHAT`; `path` and `offset` (bytes from the start of the file, None for the whole
    file) are also attributes.
    """

    def __init__(self, path: str, what: str, offset: int | None = None) -> None:
        place = "" if offset is None else f"at byte {offset}: "
        super().__init__(f"{path}: {place}{what}")
        self.path = path
        self.offset = offset


class MissingFileError(FormatError, FileNotFoundError):
    """A file to read doesn't exist: without `what`, the message names the nearest files."""

    def __init__(self, path: str, what: str = "") -> None:
        super().__init__(path, what or _missing(path))


def _missing(path: str) -> str:
    if os.path.isdir(path):
        return "a folder; name a file in it"
    if "*" in path:
        return "no such file; patterns aren't expanded here: name a file"
    return f"no such file{nearest_files(path)}"


class ArgumentError(EtqError, ValueError):
    """An argument has an unknown or impossible value."""


class ArgumentTypeError(EtqError, TypeError):
    """An argument has a wrong type, is missing, or is unknown."""


class WarehouseError(EtqError):
    """A warehouse can't be opened or written, or has another version."""


class MissingWarehouseError(WarehouseError, FileNotFoundError):
    """A warehouse to open doesn't exist."""


class StoreError(EtqError):
    """An object store can't be read, so that none of its files can be read."""


class Unknown(NamedTuple):
    """An unknown name of a capture, record or program, with the nearest names as the end of a message."""

    kind: str
    name: str
    near: str


class QueryError(EtqError, ValueError):
    """A query can't be answered: for example, its SQL fails or its capture doesn't exist.

    `unknown` is the name that doesn't exist, None for other errors. SQL raises errors as texts, which are parsed only
    here. `place` is the line of a syntax error and a line that points at it, empty for other errors.
    """

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place
        match = _UNKNOWN.fullmatch(message)
        self.unknown = None if match is None else Unknown(match[1], match[2], match[3] or "")


class CallError(QueryError, TypeError):
    """A view is called with arguments of wrong types, without a required one, or with unknown ones."""


# What precedes a query whose plan is read before it runs.
EXPLAINED: Final = "EXPLAIN (FORMAT JSON) "


def place_in(statements: str, error: Exception) -> str:
    """Return the line of these statements that DuckDB's error names, and below it the line that points at it.

    It is empty for other errors, and for places in the SQL of a view that the statements name.
    """
    place = next((part for part in str(error).split("\n\n") if part.startswith("LINE ")), "")
    line, _, pointer = place.partition("\n")
    if EXPLAINED in line:
        line, pointer = line.replace(EXPLAINED, "", 1), pointer[len(EXPLAINED) :]
    text = line.partition(": ")[2].strip().removeprefix("...").removesuffix("...")
    return f"{line}\n{pointer}" if text and text in statements else ""


def message_of(error: Exception) -> str:
    """Return DuckDB's message in one line, without DuckDB's names for kinds of errors."""
    first = str(error).split("\n\nLINE")[0].split("\n\nStack Trace")[0]
    first = _TRACEBACK.sub("", first)  # the prefix of errors in Python code that reads a lake's files for DuckDB
    first = _NESTED.sub(lambda match: str(json.loads(match.group())["exception_message"]), first)
    # The prefix of errors that occur when one connection reads rows from another.
    first = first.rsplit("reading the stream registered as 'rows' failed: IOError: ", 1)[-1]
    text = re.sub(r"^(?:[A-Z][A-Za-z-]* )*?Error: ", "", " ".join(first.split()))
    return text.removeprefix("Invalid Input Error: ")
