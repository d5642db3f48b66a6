"""Folders for files of this process alone, as it reads or writes a lake."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from etq.database import temporary

_ASIDE: Final = "etq-lake-"


def temporary_folder() -> AbstractContextManager[str]:
    """A folder for files of this process alone. Those of processes that were killed are deleted first."""
    return temporary.temporary_folder(_ASIDE)
