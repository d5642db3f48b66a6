"""A lake: the base tables of a warehouse as Delta tables in a folder or an object store, for fleets beyond one file.

Each table is a Delta table of its own, which other engines open, too. Keys are of the content (60 bits of its SHA-256):
the same capture has the same key in every lake. Several processes may add at once; a capture is there whole or not at
all.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from etq.lake.reading.tables import Lake

if TYPE_CHECKING:
    from etq.lake.reading.checking import Fault, check
    from etq.lake.reading.history import Change, changes
    from etq.lake.writing.adding import add, export
    from etq.lake.writing.compacting import compact
    from etq.lake.writing.mending import repair, restore
    from etq.lake.writing.publishing import Added
    from etq.lake.writing.upgrading import upgrade

__all__ = [
    "Added",
    "Change",
    "Fault",
    "add",
    "changes",
    "check",
    "compact",
    "export",
    "is_lake",
    "repair",
    "restore",
    "upgrade",
]

# Reading a lake needs none of these modules, which import the readers of profiling files.
_LAZY = {
    **dict.fromkeys(("add", "export"), "writing.adding"),
    **dict.fromkeys(("Change", "changes"), "reading.history"),
    **dict.fromkeys(("Fault", "check"), "reading.checking"),
    **dict.fromkeys(("repair", "restore"), "writing.mending"),
    "compact": "writing.compacting",
    "upgrade": "writing.upgrading",
    "Added": "writing.publishing",
}


def is_lake(path: str | os.PathLike[str]) -> bool:
    """Whether a folder, or an address in an object store, is a lake."""
    return Lake.at(path).exists()


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"etq.lake.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'etq.lake' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
