"""A lake: the base tables of a warehouse as Delta tables in a folder or an object store, for fleets beyond one file.

Each table is a Delta table of its own, which other engines open, too. Keys are of the content (60 bits of its SHA-256):
the same capture has the same key in every lake. Several processes may add at once; a capture is there whole or not at
all.
"""

from __future__ import annotations

import os

from etq.lake.adding import add, export
from etq.lake.changes import Change, changes
from etq.lake.checking import Fault, check
from etq.lake.compacting import compact
from etq.lake.publishing import Added
from etq.lake.tables import Lake


def is_lake(path: str | os.PathLike[str]) -> bool:
    """Whether a folder, or an address in an object store, is a lake."""
    return Lake.at(path).exists()


__all__ = ["Added", "Change", "Fault", "add", "changes", "check", "compact", "export", "is_lake"]
