"""Putting a file that is written aside into its place: whole, once it is on the disk, and over no other file."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from etq.errors import EtqError, WarehouseError

_FOLDER: Final = ".etq-"
_LEFT_SECONDS: Final = 3600

# What file systems without links answer.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def aside(target: Path, purpose: str) -> Path:
    """A path next to a target to write it at first, by this process alone."""
    return target.with_name(f"{purpose}-{os.getpid()}-{secrets.token_hex(4)}.{target.name}")


def remove_left(target: Path, purpose: str) -> None:
    """Remove what killed processes left at paths of `aside`. What a process has open, or this one made, stays."""
    if sys.platform == "win32":
        return
    import fcntl

    for left in [*target.parent.glob(f"{purpose}-*-*.{glob.escape(target.name)}")]:
        # To close a file that this process has open elsewhere, too, would release its lock there.
        if left.name.startswith(f"{purpose}-{os.getpid()}-"):
            continue
        with suppress(OSError), left.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
            left.with_name(f"{left.name}.wal").unlink(missing_ok=True)


def publish_new(written: Path, target: Path) -> None:
    """Move a file to where there is none. Raises `FileExistsError` if there is one, and `OSError`."""
    fsync_file(written)
    if sys.platform == "win32":
        written.rename(target)  # fails where there is a file
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
    """A path to write a file to, in a temporary folder next to it; at the end, without an error, the file is moved.

    Anything but a regular file, such as a pipe, is written in place; what a link leads to, instead of the link. Raises
    `EtqError` where it can't be written, and, unless `overwrite`, if there is a file by then.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        try:
            yield path
        except OSError as error:
            raise _not_written(path, error) from error
        return
    try:
        _remove_left_folders(target.parent)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{_FOLDER}{os.getpid()}-") as folder:
            written = Path(folder) / target.name
            yield str(written)
            if overwrite:
                fsync_file(written)
                written.replace(target)
                fsync_folder(target.parent)
            else:
                publish_new(written, target)
    except FileExistsError as error:
        raise EtqError(f"{path}: exists; overwrite it with --force") from error
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: str, error: OSError) -> WarehouseError:
    return WarehouseError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}")


def _remove_left_folders(folder: Path) -> None:
    """Remove the temporary folders of processes that were killed an hour ago or before."""
    for left in folder.glob(f"{_FOLDER}*-*"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - _LEFT_SECONDS:
                shutil.rmtree(left)


def fsync_file(path: Path) -> None:
    """Have the file system write down a file, which shows whether there is room for it."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def fsync_folder(folder: Path) -> None:
    """Have the file system write down which files a folder has."""
    if sys.platform == "win32":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
