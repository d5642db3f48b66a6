"""The files of a lake in a folder. What is not in the folder, or is not a file, is refused.

By a link, somebody else's lake would have any file of its reader as rows, or deleted. A pipe would be waited for.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq.errors import WarehouseError

# What DuckDB and the library call a file until it is whole.
_UNFINISHED: Final = re.compile(r"/tmp_[^/]*\.parquet$|#[0-9]+$")
_PLAIN: Final = "a lake's folders and files must be in it"


def listed(top: str, folder: str = "") -> dict[str, os.DirEntry[str]]:
    """The files below a folder of a lake, by their paths in the lake.

    Raises `WarehouseError` if one of them, or a folder below or above it in the lake, is a link, a pipe or a device,
    if a folder can't be read, and for a folder in a log.
    """
    parts = Path(folder).parts
    for number in range(len(parts)):
        check(top, os.path.join(*parts[: number + 1]), is_folder=True)
    found: dict[str, os.DirEntry[str]] = {}
    rest = [folder]
    while rest:
        at = rest.pop()
        try:
            with os.scandir(Path(top, at)) as entries:
                for entry in entries:
                    path = f"{at}/{entry.name}" if at else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if at.endswith("_delta_log"):
                            raise WarehouseError(f"{Path(top, path)}: a folder in a log; a log has files alone")
                        rest.append(path)
                    elif entry.is_file(follow_symlinks=False) or check(top, path):
                        found[path] = entry
        except (FileNotFoundError, NotADirectoryError):  # not made yet, or deleted since
            continue
        except OSError as error:
            raise WarehouseError(f"{Path(top, at)}: can't be read: {(error.strerror or str(error)).lower()}") from error
    return found


def check(top: str, path: str, *, is_folder: bool = False) -> os.stat_result | None:
    """The status of a file or folder of a lake; None if there is none.

    Raises `WarehouseError` for a link, and for anything but a file or folder.
    """
    place = Path(top, path)
    with suppress(FileNotFoundError, NotADirectoryError):
        about = place.lstat()
        if stat.S_ISLNK(about.st_mode):
            raise WarehouseError(f"{place}: a link; {_PLAIN}")
        if not stat.S_ISDIR(about.st_mode) and (is_folder or not stat.S_ISREG(about.st_mode)):
            raise WarehouseError(f"{place}: not a plain {'folder' if is_folder else 'file'}; {_PLAIN}")
        return about
    return None


def content(top: str, path: str, most: int) -> bytes:
    """The bytes of a file of a lake, up to `most`. Raises as `check` does, and `OSError`."""
    check(top, path)
    # Should it have become a link or a pipe since, it is neither followed nor waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(Path(top, path), flags), "rb") as file:
        return file.read(most)


def delete(top: str, path: str) -> None:
    """Delete a file of a load, and the load's folder with its last file. Raises as `check` does, and `OSError`."""
    folder = Path(path).parent
    for each in (*reversed(folder.parents[:-1]), folder):
        check(top, str(each), is_folder=True)
    check(top, path)
    Path(top, path).unlink()
    with suppress(OSError):  # others are in it
        Path(top, folder).rmdir()


def sweep(top: str, before: float) -> None:
    """Delete what writers that were killed left before a time: files that were not moved to their place; empty folders.

    Raises as `listed` does.
    """
    for path, entry in listed(top).items():
        if _UNFINISHED.search(path):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    delete(top, path)
    for folder in Path(top).glob("*/load_id=*"):
        with suppress(OSError):
            if folder.lstat().st_mtime < before:
                folder.rmdir()  # if it is empty
