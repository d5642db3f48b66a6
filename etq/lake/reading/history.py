"""What changed in a lake between two of its versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import duckdb

from etq.errors import WarehouseError, message_of
from etq.lake.reading.connection import check_root, connect_tables
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake


@dataclass(frozen=True)
class Change:
    """A capture that was added, removed or replaced: its name now, or the last one that it had."""

    name: str
    sha256: str
    what: Literal["added", "removed", "replaced"]


def changes(
    path: str | os.PathLike[str],
    since: int,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[Change]:
    """The captures that changed from version `since` to now, or to `version`, by name. Compacting changes none.

    Raises `WarehouseError` for what isn't a lake, and for versions that it doesn't have.
    """
    lake = Lake.at(path, storage_options)
    before, after = _captures(lake, since), _captures(lake, version)
    found = [Change(after[each][1], each, "added") for each in after.keys() - before.keys()]
    found += [Change(before[each][1], each, "removed") for each in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    found += [Change(after[each][1], each, "replaced") for each in both if before[each][2:] != after[each][2:]]
    return sorted(found, key=lambda each: (each.name, each.sha256))


def _captures(lake: Lake, version: int | None) -> dict[str, tuple[Any, ...]]:
    """The captures at a version, by SHA-256."""
    query = "SELECT sha256, name, ingested_at, record_id, program_id FROM captures"
    state = read(lake, version)
    check_root(state, "capture", state.of("captures"))
    with connect_tables(state) as connection:
        try:
            return {row[0]: row for row in connection.execute(query).fetchall()}
        except duckdb.Error as error:
            raise WarehouseError(f"{lake}: {message_of(error)}") from error
