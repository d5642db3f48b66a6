"""Links in lakes, which are refused: by a link, somebody else's lake could have any file of its reader as rows."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from etq.errors import WarehouseError

if TYPE_CHECKING:
    from etq.lake.tables import File, Lake


def without_links(lake: Lake, table: str, files: list[File]) -> list[File]:
    """Return the files of a table.

    Raises `WarehouseError` if the table's folder, a folder in it or a file is a link, or a file is a pipe or device.
    """
    if lake.is_remote:
        return files
    paths = [lake.uri(table, each.path) for each in files]
    for each in {lake.uri(table), *map(os.path.dirname, paths)}:
        if Path(each).is_symlink():
            raise WarehouseError(f"{each}: a link; a lake's folders and files must be in it")
    for each in paths:
        # A file that is missing is an error where it is read.
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(each).st_mode):
                raise WarehouseError(f"{each}: not a plain file; a lake's folders and files must be in it")
    return files
