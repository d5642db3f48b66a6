"""Temporary folders that later processes remove if the owner was killed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# A file in each folder that this module makes, because other folders may have such a name. The file contains the
# machine's name, because locks in a network folder may not be visible on other machines.
_MARK: Final = ".made-by-etq"
# A folder younger than this may not be locked or marked yet.
_YOUNG_SECONDS: Final = 60
_PREFIX: Final = "etq-"
# The prefix of folders next to a warehouse or another file that is written.
BESIDE: Final = ".etq-"


@contextmanager
def temporary_folder(prefix: str = _PREFIX, within: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """A folder for files of this process only, in the folder `within` or the system's temporary folder.

    First, folders with this prefix that killed processes left there are removed. A folder is removed if its name has
    this module's form, it has the mark of this module, it is of the same user and machine, and its lock is free.
    """
    parent = Path(tempfile.gettempdir() if within is None else within)
    _remove_left(parent, prefix)
    with (
        tempfile.TemporaryDirectory(dir=parent, prefix=f"{prefix}{os.getpid()}-") as folder,
        _locked(Path(folder), waits=True),
    ):
        (Path(folder) / _MARK).write_bytes(platform.node().encode())
        yield folder


def _remove_left(parent: Path, prefix: str) -> None:
    if sys.platform == "win32":
        return
    name = re.compile(rf"{re.escape(prefix)}\d+-[a-z0-9_]{{8}}")
    for left in parent.glob(f"{prefix}*"):
        if name.fullmatch(left.name) is None:
            continue
        with suppress(OSError), _locked(left):
            found = left.lstat()
            if found.st_uid != os.geteuid():
                continue
            if (left / _MARK).is_file() and not (left / _MARK).is_symlink():
                if (left / _MARK).read_bytes() == platform.node().encode():
                    shutil.rmtree(left)
            elif found.st_mtime < time.time() - _YOUNG_SECONDS:
                left.rmdir()  # its process was killed before marking it; fails for a folder with files


@contextmanager
def _locked(folder: Path, *, waits: bool = False) -> Iterator[None]:
    """Hold the lock of a folder. The end of the process releases it.

    If another process has the lock, raises `OSError`, or waits if `waits`: a process that looks for left folders holds
    the lock only briefly.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
