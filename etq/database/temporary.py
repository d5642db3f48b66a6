"""Temporary folders, which later processes remove if their own was killed."""

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

# A file in each folder that this module makes: a folder of somebody else may have such a name, too. It names the
# machine: in a network folder, others don't see the lock of a folder.
_MARK: Final = ".made-by-etq"
# A folder that was just made may not be locked or marked yet.
_YOUNG_SECONDS: Final = 60
_PREFIX: Final = "etq-"
# The prefix of those next to a warehouse or another file that is written.
BESIDE: Final = ".etq-"


@contextmanager
def temporary_folder(prefix: str = _PREFIX, within: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """A folder for files of this process alone, in the folder `within` or that of the system.

    Folders of the same prefix that killed processes left there are removed first: those with the exact form of name
    and the mark of this module, of the same user and machine, whose lock is free.
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
                left.rmdir()  # its process was killed before it marked it; fails for a folder with files


@contextmanager
def _locked(folder: Path, *, waits: bool = False) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process.

    Raises `OSError` if another process has it, or `waits`: one that looks for left folders has it for a moment.
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
