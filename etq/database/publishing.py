"""Moves a finished file to its path: only complete, only after it is on the disk, and never over another file."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from etq.database.locking import refuse_open
from etq.database.temporary import BESIDE, temporary_folder
from etq.errors import EtqError, WarehouseError

NO_FOLDER: Final = "its folder does not exist; create it first"

# Errors of file systems that don't support links.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def private_folder(target: Path) -> AbstractContextManager[str]:
    """Provide a folder next to `target`, accessible to this user only, in which the file is written before it
    is moved.
    """
    return temporary_folder(BESIDE, target.parent)


def publish_new(written: Path, target: Path) -> None:
    """Move a file to an unused path. Raises `FileExistsError` if there is one, and `OSError`."""
    fsync_file(written)
    if sys.platform == "win32":
        written.rename(target)  # fails if the target exists
        return
    try:
        os.link(written, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        written.replace(target)
    else:
        written.unlink()
    fsync_folder(target.parent)


@contextmanager
def new_file(path: str, *, overwrite: bool = True) -> Iterator[str]:
    """Provide a path in a temporary folder next to `path`; if the with block raises no error, the file written there is
    moved to `path`.

    Anything but a regular file, such as a pipe, is written in place; of a link, the target is replaced. Raises
    `EtqError` if the file can't be written, if it exists by then (unless `overwrite`), and for a warehouse that this
    process has open.
    """
    refuse_open(path)
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        try:
            with _reader_of(target):
                yield path
        except OSError as error:
            raise _not_written(path, error) from error
        return
    try:
        with private_folder(target) as folder:
            written = Path(folder) / target.name
            yield str(written)
            if overwrite:
                fsync_file(written)
                written.replace(target)
                fsync_folder(target.parent)
            else:
                publish_new(written, target)
    except FileExistsError as error:
        raise EtqError(f"{path}: exists; overwrite it with overwrite=True (--force)") from error
    except OSError as error:
        raise _not_written(path, error) from error


def check_folder(path: str) -> None:
    """Raise `EtqError` if `new_file` can't write to the folder of a path, before the file is made."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        return
    try:
        with private_folder(target):
            pass
    except OSError as error:
        raise _not_written(path, error) from error


@contextmanager
def _reader_of(target: Path) -> Iterator[None]:
    """Hold a pipe open. Raises `OSError` if nobody reads it: opening it later would wait for a reader."""
    if not target.is_fifo():
        yield
        return
    opened = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
    try:
        yield
    finally:
        os.close(opened)


def _not_written(path: str, error: OSError) -> WarehouseError:
    if isinstance(error, FileNotFoundError):
        return WarehouseError(f"{path}: {NO_FOLDER}")
    return WarehouseError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}")


def fsync_file(path: Path) -> None:
    """Have the file system write a file to the disk, which fails if the disk is full."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def fsync_folder(folder: Path) -> None:
    """Have the file system write a folder's list of files to the disk."""
    if sys.platform == "win32":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
