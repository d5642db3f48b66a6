"""The state of a warehouse: a text that changes with its content. It is part of the key of cached answers."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from etq.database.connection import is_lake_path
from etq.database.neighbours import log_of


def state_of(path: str) -> str | None:
    """Return the state of a file, or of a lake in a folder; None for anything else, or if it doesn't exist."""
    if "://" in path:
        return None
    try:
        if is_lake_path(path):
            log = Path(path, "captures", "_delta_log")
            versions = [commit.stem for commit in log.glob("[0-9]*.json")]
            return f"{max(versions)}.{log.stat().st_ino:x}" if versions else None
        states = [Path(path).stat()]
        with suppress(FileNotFoundError):  # the write-ahead log: commits that are not yet in the file
            states.append(log_of(path).stat())
    except OSError:
        return None
    return "-".join(map(_identity, states))


def _identity(found: os.stat_result) -> str:
    return f"{found.st_ino:x}.{found.st_size:x}.{found.st_mtime_ns:x}"
