"""The files of a lake, in a folder or an object store: written and deleted."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from etq.database.publishing import fsync_file, fsync_folder
from etq.database.temporary import temporary_folder
from etq.errors import WarehouseError, message_of
from etq.lake.reading import links
from etq.lake.reading.library import reason
from etq.lake.reading.tables import Lake


@contextmanager
def writing(lake: Lake) -> Iterator[None]:
    """Raise what the system and DuckDB refuse meanwhile as `WarehouseError`."""
    try:
        yield
    except duckdb.Error as error:
        raise WarehouseError(f"{lake}: {message_of(error)}; etq lake check names damaged files") from error
    except OSError as error:
        raise WarehouseError(f"{lake}: can't be written: {(error.strerror or reason(error)).lower()}") from error


def write(lake: Lake, table: str, path: str, make: Callable[[str], bool]) -> None:
    """Store the file that `make` writes to the path it is given, unless it returns false."""
    if not lake.is_remote:
        links.check(lake.url, table, is_folder=True)
        target = Path(lake.uri(table, path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if make(str(target)):
            fsync_file(target)
            fsync_folder(target.parent)
        else:
            target.unlink(missing_ok=True)
            with suppress(OSError):
                target.parent.rmdir()
        return
    with temporary_folder() as folder:
        aside = Path(folder) / "part.parquet"
        if make(str(aside)):
            # The handler itself takes bytes alone, and Arrow's file system on it gives it others.
            stored = lake.handler()._handler.open_output_stream(f"{table}/{path}", None)
            with aside.open("rb") as source:
                while block := source.read(1 << 24):
                    stored.write(block)
            stored.close()


def delete(lake: Lake, paths: Iterable[str], kept: Container[str] = ()) -> None:
    """Delete files of loads, but not those that are `kept`; missing ones are ignored."""
    for path in paths:
        if path in kept:
            continue
        with suppress(OSError):
            if lake.is_remote:
                lake.handler().delete_file(path)
            else:
                links.delete(lake.url, path)
