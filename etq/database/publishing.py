"""Putting a file that is written aside into its place: whole, once it is on the disk, and over no other file."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

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
    with written.open("rb+") as file:
        os.fsync(file.fileno())
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


def fsync_folder(folder: Path) -> None:
    """Have the file system write down which files a folder has."""
    if sys.platform == "win32":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
