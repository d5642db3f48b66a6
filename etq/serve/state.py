"""The state of a warehouse as a text that changes with its content: answers are cached by it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq.database.connection import expanded, is_lake_path
from etq.database.neighbours import log_of
from etq.errors import EtqError

# For how many seconds the state of a lake in an object store is used again.
REMOTE_SECONDS: Final = 5.0


class WarehouseState:
    """The state of a file or of a lake."""

    def __init__(self, path: str) -> None:
        self.path = expanded(path)
        self._known: tuple[float, str | None] | None = None

    @property
    def is_slow(self) -> bool:
        """Whether `current` waits for a network."""
        return "://" in self.path

    def forget(self) -> None:
        """Look at the store again the next time, as its lake was written to."""
        self._known = None

    def current(self) -> str | None:
        """Return the state; None without a warehouse that can be read."""
        if self.is_slow:
            now = time.monotonic()
            if self._known is None or now - self._known[0] > REMOTE_SECONDS:
                self._known = now, _of_store(self.path)
            return self._known[1]
        try:
            return _of_folder(self.path) if is_lake_path(self.path) else _of_file(self.path)
        except OSError:
            return None


def _of_file(path: str) -> str:
    parts = [_identity(Path(path).stat())]
    # What a writer has committed and not yet moved into the file.
    with suppress(FileNotFoundError):
        parts.append(_identity(log_of(path).stat()))
    return "-".join(parts)


def _identity(found: os.stat_result) -> str:
    return f"{found.st_ino:x}.{found.st_size:x}.{found.st_mtime_ns:x}"


def _of_folder(path: str) -> str | None:
    """Return the latest version of a lake's table `captures`."""
    log = Path(path, "captures", "_delta_log")
    versions = [file.stem for file in log.glob("[0-9]*.json")]
    return f"{max(versions)}.{log.stat().st_ino:x}" if versions else None


def _of_store(path: str) -> str | None:
    from etq.lake.reading.tables import Lake

    try:
        captures = Lake.at(path).open("captures")
    except EtqError:
        return None
    return None if captures is None else str(captures.version())
