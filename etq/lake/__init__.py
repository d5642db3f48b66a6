"""A lake: the base tables of a warehouse as Delta tables in a folder or an object store, for fleets beyond one file.

Each table is a Delta table of its own, which other engines open, too. Keys are derived from the content (60 bits of its
SHA-256), so a capture has the same key in every lake. Several processes may add at the same time; a capture is added
completely or not at all.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from etq.lake.reading.tables import Lake

if TYPE_CHECKING:
    from etq.lake.writing.adding import Added, add, export
    from etq.lake.writing.compacting import compact

__all__ = ["Added", "add", "compact", "export", "is_lake"]

# These modules import the readers of profiling files, which reading a lake doesn't need.
_LAZY = {**dict.fromkeys(("Added", "add", "export"), "adding"), "compact": "compacting"}


def is_lake(path: str | os.PathLike[str]) -> bool:
    """Whether a folder, or an address in an object store, is a lake."""
    return Lake.at(path).exists()


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"etq.lake.writing.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'etq.lake' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
