"""The log of a lake: which segments there are, and how several writers agree on it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from etq.database.publishing import fsync_folder
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION

LOG: Final = "_log"
# Every 50th entry lists all segments: entries before it are not read again.
WHOLE_EVERY: Final = 50
_DIGITS: Final = 12


class Segment(msgspec.Struct, frozen=True):
    """Some captures, or records, or programs: the files `<table>/<name>.parquet` of these tables, with their rows."""

    name: str
    kind: str
    contents: int
    rows: dict[str, int]

    def file(self, lake: Path, table: str) -> Path:
        """The file with the rows of a table."""
        return lake / table / f"{self.name}.parquet"


class Entry(msgspec.Struct):
    """A change. `is_whole` is true if `added` lists all segments of the lake."""

    schema_version: int
    added: list[Segment]
    removed: list[str] = []
    is_whole: bool = False


@dataclass(frozen=True)
class State:
    """The content of a lake after an entry of its log; entry 0 if the log is empty."""

    number: int
    segments: dict[str, Segment]

    def of_table(self, table: str) -> list[Segment]:
        """The segments that have rows of a table."""
        return [each for each in self.segments.values() if each.rows.get(table)]


class ConflictError(Exception):
    """Another writer was faster: the change must be made again from the new state."""


@contextmanager
def writing(lake: Path) -> Iterator[None]:
    """Raise what the system refuses meanwhile as `WarehouseError`."""
    try:
        yield
    except OSError as error:
        raise WarehouseError(f"{lake}: can't be written: {(error.strerror or str(error)).lower()}") from error


def is_lake(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a lake."""
    return (Path(path) / LOG).is_dir()


def make(lake: Path) -> None:
    """Create an empty lake, unless it exists. Raises `WarehouseError` for a file, and for a folder with other files."""
    if lake.exists() and not lake.is_dir():
        raise WarehouseError(f"{lake}: a file; a lake is a folder")
    if lake.is_dir() and not is_lake(lake) and any(lake.iterdir()):
        raise WarehouseError(f"{lake}: a folder with other things in it; name an empty one for the lake")
    (lake / LOG).mkdir(parents=True, exist_ok=True)


def read(lake: Path) -> State:
    """The content of a lake. Raises `WarehouseError` for a folder that isn't a lake, and for a damaged log."""
    if not is_lake(lake):
        raise WarehouseError(f"{lake}: not a lake; make one with: etq lake add {lake} FILE...")
    numbers = sorted(int(each.stem) for each in (lake / LOG).glob("[0-9]*.json") if each.stem.isdigit())
    if not numbers:
        return State(0, {})
    entries = []
    for number in reversed(range(1, numbers[-1] + 1)):
        entries.append(_entry(lake, number))
        if entries[-1].is_whole:
            break
    segments: dict[str, Segment] = {}
    for entry in reversed(entries):
        for name in entry.removed:
            segments.pop(name, None)
        segments.update({each.name: each for each in entry.added})
    return State(numbers[-1], segments)


def commit(lake: Path, state: State, added: Iterable[Segment], removed: Iterable[str] = ()) -> State:
    """Make a change to a lake's content; the files of new segments are written.

    Raises `TakenError` if another writer has changed it since.
    """
    new, gone = list(added), list(removed)
    for name in gone:
        # Who reads them still has as long as if they were written now.
        for table in state.segments[name].rows:
            with suppress(FileNotFoundError):
                os.utime(state.segments[name].file(lake, table))
    segments = {name: each for name, each in state.segments.items() if name not in gone}
    segments.update({each.name: each for each in new})
    number = state.number + 1
    is_whole = number % WHOLE_EVERY == 0
    entry = Entry(SCHEMA_VERSION, [*segments.values()] if is_whole else new, gone, is_whole)
    target = _path(lake, number)
    temporary = target.with_name(f".{number}.{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(entry))
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, target)  # Unlike a rename, it fails where there is one.
    except FileExistsError as error:
        raise ConflictError from error
    finally:
        temporary.unlink(missing_ok=True)
    fsync_folder(target.parent)
    return State(number, segments)


def _path(lake: Path, number: int) -> Path:
    return lake / LOG / f"{number:0{_DIGITS}}.json"


def _entry(lake: Path, number: int) -> Entry:
    path = _path(lake, number)
    try:
        entry = msgspec.json.decode(path.read_bytes(), type=Entry)
    except FileNotFoundError:
        raise WarehouseError(f"{path}: missing; the lake's content is unknown without it") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WarehouseError(f"{path}: damaged: {error}") from error
    if entry.schema_version != SCHEMA_VERSION:
        raise WarehouseError(
            f"{lake}: made by another version of etq (schema {entry.schema_version}; this is {SCHEMA_VERSION}); add "
            "the files again to a new lake"
        )
    for segment in entry.added:
        if not segment.name.isalnum() or not all(table.isidentifier() for table in segment.rows):
            raise WarehouseError(f"{path}: damaged: a segment is called {segment.name!r}")
    return entry
