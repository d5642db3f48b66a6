"""Copies a file in a process of its own.

All locks that a process has on a file end when it closes any descriptor of it, also those of DuckDB. So who has a
database open can't read its file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from etq.processes import command, environment


def copy_file(source: Path, target: Path) -> None:
    """Copy a file that this process may have open, with its permissions. Raises `OSError`."""
    done = subprocess.run(
        command(__name__, str(source), str(target)), capture_output=True, env=environment(), check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="backslashreplace").strip().rpartition("\n")[2]
        raise OSError(said or f"the process that copies it ended with {done.returncode}")


if __name__ == "__main__":
    try:
        shutil.copy(sys.argv[1], sys.argv[2])
    except OSError as error:
        sys.exit(error.strerror or str(error))
