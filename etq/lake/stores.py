"""The files of a lake, in a folder or an object store: written and deleted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from etq.database.publishing import fsync_file, fsync_folder
from etq.errors import WarehouseError
from etq.lake.tables import Lake


@contextmanager
def writing(lake: Lake) -> Iterator[None]:
    """Raise what the system refuses meanwhile as `WarehouseError`."""
    try:
        yield
    except OSError as error:
        raise WarehouseError(f"{lake}: can't be written: {(error.strerror or str(error)).lower()}") from error


def write(lake: Lake, table: str, path: str, make: Callable[[str], bool]) -> None:
    """Store the file that `make` writes to the path it is given, unless it returns false."""
    if not lake.is_remote:
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
    with tempfile.TemporaryDirectory(prefix="etq-") as folder:
        aside = Path(folder) / "part.parquet"
        if make(str(aside)):
            # The handler itself takes bytes alone, and Arrow's file system on it gives it others.
            stored = lake.handler()._handler.open_output_stream(f"{table}/{path}", None)
            with aside.open("rb") as source:
                while block := source.read(1 << 24):
                    stored.write(block)
            stored.close()


def delete(lake: Lake, files: Iterable[tuple[str, str]]) -> None:
    """Delete files, (table, path) each; missing ones are ignored."""
    for table, path in files:
        with suppress(OSError):
            if lake.is_remote:
                lake.handler().delete_file(f"{table}/{path}")
            else:
                Path(lake.uri(table, path)).unlink()
