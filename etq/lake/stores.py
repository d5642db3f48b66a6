"""The files of a lake, wherever it is: written, deleted and listed, and read by DuckDB."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etq.errors import WarehouseError
from etq.lake.tables import Lake, State

if TYPE_CHECKING:
    import duckdb

    from etq.lake.remote import LakeFiles


def write(lake: Lake, table: str, path: str, make: Callable[[str], bool]) -> None:
    """Put the file that `make` writes to the path it is given below a table, unless it returns false."""
    if not lake.is_remote:
        target = Path(lake.uri(table, path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not make(str(target)):
            target.unlink(missing_ok=True)
            with suppress(OSError):
                target.parent.rmdir()
        return
    with tempfile.TemporaryDirectory(prefix="etq-") as folder:
        aside = Path(folder) / "part.parquet"
        if make(str(aside)):
            # The handler itself takes bytes alone, and Arrow's file system on it gives it others.
            with aside.open("rb") as source:
                stored = _handler(lake)._handler.open_output_stream(f"{table}/{path}", None)
                while block := source.read(1 << 24):
                    stored.write(block)
                stored.close()


def delete(lake: Lake, files: Iterable[tuple[str, str]]) -> None:
    """Delete files, (table, path) each; what isn't there stays so."""
    for table, path in files:
        with suppress(FileNotFoundError, OSError):
            if lake.is_remote:
                _store(lake).delete_file(f"{table}/{path}")
            else:
                Path(lake.uri(table, path)).unlink()


def is_there(lake: Lake, table: str, path: str) -> bool:
    """Whether a file is there."""
    if not lake.is_remote:
        return os.path.exists(lake.uri(table, path))
    return bool(_store(lake).get_file_info(f"{table}/{path}").is_file)


def listed(lake: Lake, table: str) -> list[str]:
    """The paths of all Parquet files below a table."""
    if not lake.is_remote:
        root = Path(lake.uri(table))
        return [str(each.relative_to(root)) for each in root.glob("load_id=*/*.parquet")]
    from pyarrow.fs import FileSelector, FileType

    found = _store(lake).get_file_info(FileSelector(table, allow_not_found=True, recursive=True))
    return [
        each.path.removeprefix(f"{table}/")
        for each in found
        if each.type == FileType.File and each.path.endswith(".parquet") and "/load_id=" in each.path
    ]


def attach(connection: duckdb.DuckDBPyConnection, lake: Lake, state: State | None = None) -> None:
    """Have DuckDB read files of an object store with the options that the lake has."""
    if lake.is_remote:
        connection.execute("SET autoload_known_extensions = false")
        connection.register_filesystem(file_system(lake, state))


def file_system(lake: Lake, state: State | None = None) -> LakeFiles:
    """The files of a lake in an object store for DuckDB; those of `state` it needn't ask for."""
    try:
        from etq.lake.remote import LakeFiles
    except ImportError:
        raise WarehouseError("a lake in an object store needs fsspec: pip install 'etq[lake]'") from None
    files = state.files if state else {}
    sizes = {f"{table}/{each.path}": each.bytes for table in files for each in files[table]}
    return LakeFiles(lake, _store(lake, sizes), sizes)


def _store(lake: Lake, sizes: Mapping[str, int] | None = None) -> Any:
    """The object store as Arrow's file system, which needn't ask for the `sizes` of files."""
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(_handler(lake, sizes))


def _handler(lake: Lake, sizes: Mapping[str, int] | None = None) -> Any:
    """The object store, by the library that reads the tables."""
    from deltalake.fs import DeltaStorageHandler

    options = None if lake.options is None else dict(lake.options)
    return DeltaStorageHandler(lake.url, options, None if sizes is None else dict(sizes))
