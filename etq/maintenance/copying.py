"""Copying a warehouse while other processes use it: to another file, or over its own."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from etq.catalog import quoted
from etq.database import contents, schema
from etq.database.connection import (
    absolute,
    allow_only,
    alone_in_memory,
    check_name,
    check_path,
    connect,
    expanded,
    explained,
    open_unchanged,
)
from etq.database.locking import identity, retry_while_locked
from etq.database.making import STORAGE
from etq.database.neighbours import check_free
from etq.database.publishing import NO_FOLDER, new_file
from etq.errors import WarehouseError

# The same as `etq.database.making.STORAGE`, as options of ATTACH.
_STORAGE: Final = {
    "STORAGE_VERSION": STORAGE["storage_compatibility_version"],
    "BLOCK_SIZE": STORAGE["default_block_size"],
}


def backup(path: str | os.PathLike[str], output: str | os.PathLike[str], *, overwrite: bool = False) -> int:
    """Copy a warehouse to another file, without the free space in it; return the copy's bytes.

    The copy has the state of one moment: writers wait for it, readers don't. All data are read and written, so damage
    is noticed. The copy appears when it is complete and on the disk.

    Raises `WarehouseError` for a file that isn't a warehouse of this schema, is damaged or can't be written, and for an
    output that exists, unless `overwrite`, or is anything but a file.
    """
    source, target = expanded(path), expanded(output)
    check_name(target)
    check_path(target)
    check_warehouse(source)
    _check_output(source, target, overwrite)
    try:
        with new_file(target, overwrite=overwrite) as written:
            copy_whole(source, Path(written))
            check_warehouse(written)
            Path(written).chmod(Path(source).stat().st_mode & 0o777)
        return Path(target).stat().st_size
    except duckdb.Error as error:
        raise WarehouseError(f"{target}: {explained(target, error)}") from error


def _check_output(source: str, target: str, overwrite: bool) -> None:
    """Raise `WarehouseError` for a path to which a copy can't be written."""
    if Path(target).is_symlink():
        raise WarehouseError(f"{target}: a link; name the file itself")
    if identity(source) == identity(target):
        raise WarehouseError(f"{target}: the warehouse itself; name another file")
    if os.path.exists(target) and not Path(target).is_file():
        raise WarehouseError(f"{target}: not a file; name another one")
    if os.path.exists(target) and not overwrite:
        raise WarehouseError(f"{target}: exists; overwrite it with overwrite=True (--force)")
    check_free(target)
    if not Path(target).parent.is_dir():
        raise WarehouseError(f"{target}: {NO_FOLDER}")


def check_warehouse(path: str) -> None:
    """Raise `WarehouseError` for a file that isn't a warehouse of this schema."""
    with connect(path, True) as connection:
        schema.check(connection, path)


def copy_whole(path: str, fresh: Path) -> None:
    """Copy a database to a new file that no other process opens.

    Raises `duckdb.Error`, and `WarehouseError` for a database that isn't a warehouse.
    """
    with alone_in_memory() as connection:
        options = ", ".join(f"{name} {quoted(value)}" for name, value in _STORAGE.items())
        connection.execute(f"ATTACH {quoted(absolute(str(fresh)))} AS fresh ({options})")
        allow_only(connection, [path])

        def attach() -> None:
            connection.execute(f"ATTACH {quoted(absolute(path))} AS source (READ_ONLY)")

        retry_while_locked(path, partial(open_unchanged, path, attach, lambda _: connection.execute("DETACH source")))
        contents.check(connection, path, "source")
        contents.refuse_computed(connection, path, "source")
        connection.execute("COPY FROM DATABASE source TO fresh")
        # Closing a connection writes its log into the file without reporting errors.
        connection.execute("CHECKPOINT fresh")
